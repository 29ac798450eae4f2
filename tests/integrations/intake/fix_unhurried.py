"""Hypothesis without its clock: how long an example takes says nothing on a machine that others use too."""

from hypothesis import HealthCheck, settings

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
