"""The Grafana dashboard and the alert rules name only metrics and labels that there are."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from raceproof.ops.metrics import ACKNOWLEDGED, COUNTERS, GAUGES, PREFIX

OPS = Path(__file__).parents[3] / "ops"
DASHBOARD = OPS / "grafana" / "raceproof.json"
RULES = OPS / "prometheus" / "raceproof.rules.yml"
METRICS = {
    **{f"{PREFIX}{name}_total": labels for name, (_, labels) in COUNTERS.items()},
    **{PREFIX + name: labels for name, (_, labels) in GAUGES.items()},
    **{f"{PREFIX}{ACKNOWLEDGED[0]}{part}": ACKNOWLEDGED[2] for part in ("_bucket", "_count", "_sum")},
}
NAME = re.compile(rf"\b{PREFIX}[a-z_]+")
EXTERNAL = {"job", "instance", "le", "severity", "alertname"}


def expressions() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    found += [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    rules = RULES.read_text().split("      - alert: ")[1:]
    return found + [rule.partition("expr:")[2].partition("labels:")[0] for rule in rules]


def test_every_metric_that_is_named_exists_and_every_metric_is_shown() -> None:
    """A renamed one would leave a panel empty and an alert silent."""
    named = {name for text in expressions() for name in NAME.findall(text)}
    assert named <= set(METRICS)
    assert {name for name in METRICS if not name.endswith(("_count", "_sum"))} <= named


def test_every_label_of_an_expression_is_one_of_its_metrics() -> None:
    """Also those that it groups by."""
    for text in expressions():
        known = EXTERNAL.union(*(METRICS[name] for name in NAME.findall(text)))
        used = {one.strip() for group in re.findall(r"\bby \(([^)]*)\)", text) for one in group.split(",")}
        used |= set(re.findall(r"[{,] ?(\w+)(?:=|!)", text))
        assert used <= known, text


def test_legends_and_annotations_use_labels_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            labels = EXTERNAL.union(*(METRICS[name] for name in NAME.findall(target["expr"])))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]
    for rule in RULES.read_text().split("      - alert: ")[1:]:
        labels = EXTERNAL.union(*(METRICS[name] for name in NAME.findall(rule.partition("annotations:")[0])))
        assert set(re.findall(r"\$labels\.(\w+)", rule)) <= labels, rule


@pytest.mark.parametrize("args", [("check", "rules", RULES.name), ("test", "rules", "raceproof.test.yml")])
def test_promtool_finds_nothing_wrong(args: tuple[str, ...]) -> None:
    """Where it is on the PATH."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH")
    result = subprocess.run([promtool, *args], cwd=RULES.parent, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
