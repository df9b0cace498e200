"""Load alerts and the dashboard with promtool, if installed, and check them against Grafana's own types."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Run, Write

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
LAGGING = "kschedctl_answer_timestamp_seconds"
OLDEST = "kschedctl_oldest_pending_pod_created_timestamp_seconds"
FIRING: dict[str, dict[str, str]] = {
    "PodsStuckInScheduler": {"kschedctl_stuck_pods": "2x60"},
    "PodsPendingForLong": {f'{OLDEST}{{verdict="Unschedulable",cause="Insufficient cpu"}}': "0x60"},
    "PodsNotCreated": {'kschedctl_uncreated_pods{workload="Deployment shop/web"}': "3x60"},
    "NoRoomLeft": {'kschedctl_room_pods{shape="Deployment shop/web"}': "0x60"},
    "LossLeavesPodsWithoutNode": {'kschedctl_loss_unplaced_pods{unit="zone",name="a"}': "4x60"},
    "QuotaNearlyUsed": {
        'kschedctl_quota_used{namespace="shop",quota="q",resource="pods"}': "19x60",
        'kschedctl_quota_hard{namespace="shop",quota="q",resource="pods"}': "20x60",
    },
    "KschedctlDown": {LAGGING: "0x60"},
}
"""Alert -> series that make it fire within an hour."""
QUIET = {
    "kschedctl_stuck_pods": "0x60",
    f'{OLDEST}{{verdict="Gated",cause="a gate"}}': "0x60",
    'kschedctl_room_pods{shape="Deployment shop/web"}': "1x60",
    'kschedctl_loss_unplaced_pods{unit="zone",name="a"}': "0x60",
    'kschedctl_quota_used{namespace="shop",quota="q",resource="pods"}': "17x60",
    'kschedctl_quota_hard{namespace="shop",quota="q",resource="pods"}': "20x60",
    'kschedctl_quota_used{namespace="shop",quota="none",resource="pods"}': "0x60",
    'kschedctl_quota_hard{namespace="shop",quota="none",resource="pods"}': "0x60",
}


def print_monitoring_file(run: Run, what: str) -> str:
    return run("watch", "--print", what).out


def run_promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True, check=False)


def _parse_series(values: dict[str, str]) -> list[dict[str, str]]:
    """Parse series in promtool's notation: ``3x60`` is ``3+0x60``, the same value for an hour."""
    steady = {name: value if "+" in value else value.replace("x", "+0x") for name, value in values.items()}
    return [{"series": name, "values": value} for name, value in steady.items()]


@needs_promtool
def test_prometheus_accepts_rules_and_metrics(run: Run, tmp_path: Path, write: Write) -> None:
    (tmp_path / "rules.yaml").write_text(print_monitoring_file(run, "rules"))
    assert run_promtool("check", "rules", str(tmp_path / "rules.yaml")).returncode == 0
    spec = {"containers": [{"name": "c", "image": "web"}]}
    web = write({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    text = run("watch", "--demo", "-o", "openmetrics", "--losses", "zone", "--room-for", web).out
    assert "kschedctl_room_pods{" in text
    done = run_promtool("check", "metrics", text=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_promtool
def test_each_alert_fires_only_for_its_condition(run: Run, tmp_path: Path) -> None:
    rules = yaml.safe_load(print_monitoring_file(run, "rules"))
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert {*names} == {*FIRING}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(_drop_texts(rules)))
    tests = []
    for name, values in FIRING.items():
        given = {LAGGING: "0+60x60", **values}
        tests.append({"input_series": _parse_series(given), **_build_expected_alerts(names, name)})
    tests.append({"input_series": _parse_series({LAGGING: "0+60x60", **QUIET}), **_build_expected_alerts(names, "")})
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    done = run_promtool("test", "rules", str(tmp_path / "tests.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def _build_expected_alerts(names: list[str], firing: str) -> dict[str, Any]:
    checks = [{"eval_time": "59m", "alertname": name, "exp_alerts": [{}] if name == firing else []} for name in names]
    return {"interval": "1m", "alert_rule_test": checks}


def _drop_texts(rules: Any) -> Any:
    """Return the alerts without labels of series and annotations, whose texts are tested elsewhere."""
    groups = []
    for group in rules["groups"]:
        counted = [{**rule, "expr": f"count({rule['expr']}) > 0"} for rule in group["rules"]]
        bare = [{key: rule[key] for key in ("alert", "for", "expr")} for rule in counted]
        groups.append({"name": group["name"], "rules": bare})
    return {"groups": groups}


@needs_promtool
def test_prometheus_evaluates_the_queries_of_the_panels(run: Run, tmp_path: Path) -> None:
    panels = json.loads(print_monitoring_file(run, "dashboard"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    records = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    done = run_promtool("check", "rules", str(tmp_path / "panels.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_knows_every_field_of_the_dashboard(run: Run) -> None:
    """The dashboard is read into Grafana's own types and written again.

    No field is lost, and some defaults are added.
    """
    dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    dashboard = json.loads(print_monitoring_file(run, "dashboard"))
    known = json.loads(encoder.JSONEncoder().encode(dashboards.Dashboard.from_json(dashboard)))
    assert list(iter_lost_paths(dashboard, known)) == []
    misspelled = {**dashboard, "refesh": "1m"}
    known = json.loads(encoder.JSONEncoder().encode(dashboards.Dashboard.from_json(misspelled)))
    assert list(iter_lost_paths(misspelled, known)) == ["refesh"]


def iter_lost_paths(given: Any, known: Any, path: str = "") -> Any:
    """Yield the paths of values that are missing or have changed."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            at = f"{path}.{key}".lstrip(".")
            yield from iter_lost_paths(value, known[key], at) if key in known else (at,)
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, (value, other) in enumerate(zip(given, known, strict=True)):
            yield from iter_lost_paths(value, other, f"{path}[{index}]")
    elif given != known:
        yield path
