"""All exhibits, in the order in which they are shown."""

from types import ModuleType

from gallery import (
    believing_leader,
    ended_login,
    heartbeat_before_drain,
    lost_payment,
    never_counted,
    paid_twice,
    released_for_another,
    rescued_too_late,
    second_dose,
    two_pictures,
)

FROM_NOTES: tuple[ModuleType, ...] = (two_pictures, lost_payment, paid_twice, ended_login, second_dose)
"""Designs of five field notes, as they were written."""
FROM_ELSEWHERE: tuple[ModuleType, ...] = (
    heartbeat_before_drain,
    rescued_too_late,
    believing_leader,
    released_for_another,
    never_counted,
)
"""Bugs that many have had."""
EXHIBITS = (*FROM_NOTES, *FROM_ELSEWHERE)
