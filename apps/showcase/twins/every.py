"""All scenarios, in the order of the page."""

from showcase.twins.commands import COMMANDS
from showcase.twins.jobs import JOBS
from showcase.twins.leaders import LEADERS
from showcase.twins.logins import LOGINS
from showcase.twins.pictures import PICTURES
from showcase.twins.scenario import Scenario
from showcase.twins.webhooks import WEBHOOKS

SCENARIOS: dict[str, Scenario] = {one.name: one for one in (PICTURES, COMMANDS, WEBHOOKS, LOGINS, LEADERS, JOBS)}
