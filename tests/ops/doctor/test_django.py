"""L16: the doctor's findings as Django's system checks, on a model and on each database."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import AppConfig, apps
from django.core import checks
from django.core.checks.registry import registry
from django.db import connections

from tests.integrations.own.fix_django import Django, django_on_postgres, django_on_sqlite
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job, logins


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ill, Django]]:
    """A healthy database, as Django and as others see it."""
    found: Ill = request.getfixturevalue(f"ill_{request.param}")
    path = found.url.removeprefix("sqlite:///")
    connected = django_on_sqlite(Path(path)) if request.param == "sqlite" else django_on_postgres(found.url)
    known = set(registry.registered_checks)
    yield found, connected
    registry.registered_checks = known
    connected.connection.close()
    del connections[connected.alias], connections.settings[connected.alias]


def test_a_sick_database_is_told_by_check_database(shop: tuple[Ill, Django]) -> None:
    """With the repair as the hint; without --database no database is asked."""
    from raceproof.ops.doctor.django import register_checks

    ill, connected = shop
    register_checks(Job, logins)
    assert ours(databases=[connected.alias]) == []
    ill.run("DROP INDEX ill_jobs_work")
    assert ours() == []
    (found,) = ours(databases=[connected.alias])
    assert found.id == "raceproof.W013"
    assert "no index serves the claim Job.work" in found.msg
    assert found.hint is not None
    ill.raw.execute(found.hint.encode() if ill.dialect == "postgres" else found.hint)
    assert ours(databases=[connected.alias]) == []


def test_a_model_that_lacks_what_is_declared_is_told(shop: tuple[Ill, Django]) -> None:
    """Before any migration is run: its columns, and its choices."""
    from django.db import models

    from raceproof.ops.doctor.django import register_checks

    class DjangoJob(models.Model):
        id: Any = models.TextField(primary_key=True)
        status: Any = models.TextField(choices=[("QUEUED", "waits"), ("LOST", "is lost")])

        class Meta:
            app_label = "shop"
            db_table = "ill_jobs"

    config = AppConfig("shop", sys.modules[__name__])
    config.apps, config.models = apps, apps.all_models["shop"]
    apps.app_configs["shop"] = config
    try:
        register_checks(Job)
        found = {one.id: one for one in ours()}
    finally:
        del apps.app_configs["shop"], apps.all_models["shop"]
        apps.clear_cache()
    assert set(found) == {"raceproof.E001", "raceproof.W002"}
    assert "claimed_until" in found["raceproof.E001"].msg
    assert "LOST" in found["raceproof.W002"].msg


def ours(**options: Any) -> list[Any]:
    return [one for one in checks.run_checks(**options) if (one.id or "").startswith("raceproof.")]
