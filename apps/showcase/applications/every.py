"""All four, in the order of the page."""

from showcase.applications.application import Application
from showcase.applications.devices_app import DevicesApplication
from showcase.applications.imagebot_app import ImagebotApplication
from showcase.applications.outreach_app import OutreachApplication
from showcase.applications.qrlogin_app import QrloginApplication

APPLICATIONS: tuple[type[Application], ...] = (
    ImagebotApplication,
    DevicesApplication,
    QrloginApplication,
    OutreachApplication,
)
