"""Check that ``kschedctl watch`` exports the numbers of the other commands, and what in-cluster monitoring needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Run, Write, build_node, build_pod
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from kschedctl.commands.watch.report import FAMILIES

Labels = Mapping[str, str]
OWN = ("kschedctl_build_info", "kschedctl_answers", "kschedctl_answer_duration_seconds")
OWN += ("kschedctl_answer_timestamp_seconds",)


def parse_samples(text: str) -> dict[str, list[tuple[Labels, float]]]:
    """Return the samples by metric, as a client of OpenMetrics reads them."""
    families = text_string_to_metric_families(text)
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}


def get_samples(run: Run, *arguments: str) -> dict[str, list[tuple[Labels, float]]]:
    """Return the samples that watch prints, by metric."""
    return parse_samples(run("watch", *arguments, "-o", "openmetrics").out)


WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "300m"}}}]},
        },
    },
}


def build_document(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json").out)


def test_pending_pods_equal_those_of_explain(run: Run) -> None:
    groups = build_document(run, "explain", "-A", "--demo")["groups"]
    found = get_samples(run, "--demo")["kschedctl_pending_pods"]
    assert sum(number for _, number in found) == sum(len(group["pods"]) for group in groups)
    assert [(labels["verdict"], labels["cause"], number) for labels, number in found] == [
        (group["verdict"], group["cause"], len(group["pods"])) for group in groups
    ]


def test_stuck_pods_equal_those_of_audit(run: Run) -> None:
    waiting = build_document(run, "audit", "--demo", "--section", "pending")["sections"][0]["waiting"]
    assert [number for _, number in get_samples(run, "--demo")["kschedctl_stuck_pods"]] == [
        sum(len(group["pods"]) for group in waiting if group["cause"] == "stuck")
    ]


def test_losses_equal_those_of_failures(run: Run) -> None:
    found = get_samples(run, "--demo", "--losses", "zone", "--losses", "pool")
    for unit in ("zone", "pool"):
        losses = build_document(run, "failures", f"--{unit}s", "--demo")["failures"]
        for metric, key in (("unplaced", "unplaced"), ("evicted", "evicted")):
            numbers = {
                labels["name"]: number
                for labels, number in found[f"kschedctl_loss_{metric}_pods"]
                if labels["unit"] == unit
            }
            assert numbers == {loss["name"]: loss[key] for loss in losses}


def test_room_equals_that_of_capacity(run: Run, write: Write) -> None:
    web = write(WEB, name="web.json")
    shape = build_document(run, "capacity", "-f", web, "--demo")["shapes"][0]
    assert get_samples(run, "--demo", "--room-for", web)["kschedctl_room_pods"] == [
        ({"shape": shape["shape"]}, shape["fits"])
    ]


def test_quotas_and_pods_that_were_not_created(run: Run, write: Write) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "status": {"hard": {"requests.cpu": "1500m", "pods": "1"}, "used": {"requests.cpu": "250m", "pods": "1"}},
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "rs"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "replicas": 0,
            "conditions": [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
            ],
        },
    }
    found = get_samples(run, "-f", write(build_node("n1"), quota, replica_set))
    labels = {"namespace": "default", "quota": "team"}
    cpu, pods = {**labels, "resource": "requests.cpu"}, {**labels, "resource": "pods"}
    assert found["kschedctl_quota_hard"] == [(cpu, 1.5), (pods, 1.0)]
    assert found["kschedctl_quota_used"] == [(cpu, 0.25), (pods, 1.0)]
    assert found["kschedctl_uncreated_pods"] == [({"workload": "ReplicaSet default/web"}, 3.0)]


def test_unread_kinds_are_reported(run: Run, write: Write) -> None:
    """The exit code is 5, and a metric names the affected question."""
    lists = {"apiVersion": "v1", "kind": "NodeList", "items": [build_node("n1")]}
    waits = build_pod("web", cpu="1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    outcome = run("watch", "-f", write(lists, waits), "-o", "openmetrics")
    assert outcome.code == 5
    assert ({"question": "pending"}, 1.0) in parse_samples(outcome.out)["kschedctl_undecided"]


def test_texts_of_a_cluster_are_escaped_in_labels(run: Run, write: Write) -> None:
    waits = build_pod("web", schedulerName='x"}\n# EOF\n\x1b[2J')
    text = run("watch", "-f", write(build_node("n1"), waits), "-o", "openmetrics").out
    assert "\x1b" not in text
    ((labels, number),) = parse_samples(text)["kschedctl_pending_pods"]
    assert (number, "EOF" in labels["cause"]) == (1.0, True)


def test_names_follow_the_conventions() -> None:
    """https://prometheus.io/docs/practices/naming requires base units, no "total" for gauges, and help in sentences."""
    for name, help in FAMILIES.items():
        assert re.fullmatch(r"kschedctl(_[a-z]+)+", name)
        assert not re.search(r"_(total|milli|minutes|hours|percent)", name)
        assert help.endswith(".")


def test_text_format_is_valid_for_prometheus(run: Run) -> None:
    """Prometheus' textfile collector reads this format."""
    text = run("watch", "--demo", "-o", "openmetrics").out
    assert {family.name for family in plain_families(text)} == {*parse_samples(text)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--demo", "--metrics", ":0"], "only a live cluster can be watched"),
        (["--metrics", "9090"], "not HOST:PORT or :PORT"),
        (["--metrics", "nowhere.invalid:1"], "cannot listen on"),
        (["--metrics", ":9", "--every", "soon"], '--every: "soon" is not a duration'),
        (["--demo", "--losses", "rack"], "is not one of"),
    ],
)
def test_port_that_cannot_be_served_is_an_error_of_one_line(
    arguments: list[str], said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run("watch", *arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert said in outcome.err


def test_room_needs_manifests_of_pods(run: Run, write: Write) -> None:
    outcome = run("watch", "--demo", "--room-for", write(build_node("n1")))
    assert (outcome.code, "no manifest of a pod or of a workload" in outcome.err) == (2, True)


# -- what monitoring in a cluster needs --------------------------------------------------------------------------------


def print_monitoring_file(run: Run, what: str) -> str:
    outcome = run("watch", "--print", what)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def get_labels_by_metric(run: Run, write: Write) -> dict[str, set[str]]:
    """Return the labels of each metric."""
    web = write(WEB, name="web.json")
    text = run("watch", "--demo", "-o", "openmetrics", "--losses", "zone", "--room-for", web).out
    found = {
        name: set[str]().union(*(labels for labels, _ in numbers)) for name, numbers in parse_samples(text).items()
    }
    quota = {"namespace", "quota", "resource"}
    absent = {"kschedctl_quota_hard": quota, "kschedctl_quota_used": quota, "kschedctl_uncreated_pods": {"workload"}}
    return found | absent | {name: set() for name in OWN}


def test_alerts_and_the_dashboard_use_existing_metrics(run: Run, write: Write) -> None:
    known = get_labels_by_metric(run, write)
    assert {*FAMILIES} <= {*known}
    rules = [rule for group in yaml.safe_load(print_monitoring_file(run, "rules"))["groups"] for rule in group["rules"]]
    panels = json.loads(print_monitoring_file(run, "dashboard"))["panels"]
    asked = [(rule["expr"], " ".join(rule["annotations"].values())) for rule in rules]
    asked += [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]
    assert len(asked) == len(rules) + len(panels)
    for expression, shown in asked:
        metrics = re.findall(r"kschedctl_\w+", expression)
        assert metrics
        assert {*metrics} <= {*known}, expression
        used = re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", shown) + re.findall(r"[{,](\w+)()=", expression)
        used += [(label.strip(), "") for by in re.findall(r"by \((.*?)\)", expression) for label in by.split(",")]
        assert {first or second for first, second in used} <= known[metrics[0]], (expression, shown)


def test_every_alert_says_what_to_do(run: Run) -> None:
    rules = [rule for group in yaml.safe_load(print_monitoring_file(run, "rules"))["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert {*rule} == {"alert", "expr", "for", "labels", "annotations"}
        assert {*rule["annotations"]} == {"summary", "description"}


def test_panels_of_the_dashboard_do_not_overlap(run: Run) -> None:
    dashboard = json.loads(print_monitoring_file(run, "dashboard"))
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len({*cells}) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_manifests_have_the_printed_rights_and_schedule(run: Run, tmp_path: Path) -> None:
    documents = [
        *yaml.safe_load_all(print_monitoring_file(run, "deployment")),
        *yaml.safe_load_all(print_monitoring_file(run, "audit")),
    ]
    rights = [*yaml.safe_load_all(run("help", "rights").out.split("```yaml\n")[1].split("```")[0])]
    assert documents[: len(rights)] == rights
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*documents, build_node("n1", cpu="4", memory="8Gi")]))
    outcome = run("lint", str(file), "--fail-on", "note")
    assert outcome.code == 0, outcome.out
    assert run("simulate", "-f", str(file), "--assume-complete").code == 0
    for workload in documents:
        if workload["kind"] in ("Deployment", "CronJob"):
            spec = workload["spec"]
            template = spec.get("template") or spec["jobTemplate"]["spec"]["template"]
            (container,) = template["spec"]["containers"]
            arguments = [*container["args"], "--help"]
            assert run(*arguments).code == 0
