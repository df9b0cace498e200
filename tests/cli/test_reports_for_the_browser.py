"""Check every command's HTML report of a cluster whose names are all hostile: names are plain, readable text."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from opened_reports import Opens, find_accessibility_problems

from kschedctl.cli.main import main

IMAGE = "<img src=https://evil.example onerror=document.title='hacked'>"
SCRIPT = "</script></style></textarea><script>document.title='hacked'</script>"
STEERING = "\x1b[2J\u202egnp\u2028`${1}`\"'{{ 7 * 7 }}"
EVIL = IMAGE + SCRIPT + STEERING
EVIL_NAME = EVIL.replace("/", "")
"""Names have no slash; a browser takes https:evil.example for the same address."""
NODE, POD, NAMESPACE = f"{IMAGE}{STEERING}".replace("/", ""), f"p{IMAGE.replace('/', '')}", "n<b>&amp;"
LONG = "x" * 1_000_000


def build_meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {EVIL: EVIL, "app": EVIL}, **more}


def build_spec(cpu: str, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {"containers": [{"name": EVIL, "image": EVIL, "resources": resources}], **more}


def build_node(name: str, zone: str) -> dict[str, Any]:
    labels = {EVIL: EVIL, "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name, "pool": EVIL}
    return {
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"taints": [{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}] if name == EVIL_NAME else []},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}},
    }  # fmt: skip


def build_pod(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": build_meta(name),
        "spec": build_spec(cpu, **more),
        "status": {},
    }


def build_owned_pod(name: str, owner: str, on: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    found = build_pod(name, "1", nodeName=on)
    return {**found, "metadata": build_meta(name, ownerReferences=[reference]), "status": {"phase": "Running"}}


def build_cluster() -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": EVIL}}
    spread = {
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }  # fmt: skip
    away = [{"labelSelector": selector, "topologyKey": EVIL}]
    pending = [
        build_pod(POD, "3"),
        build_pod(f"{POD}1", "9", priorityClassName="own", priority=5),
        build_pod(f"{POD}2", "1", nodeSelector={EVIL: IMAGE}),
        build_pod(f"{POD}3", "1", topologySpreadConstraints=[spread]),
        build_pod(
            f"{POD}4", "1", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": away}}
        ),
        build_pod(f"{POD}5", "1", schedulerName=EVIL),
        build_pod(f"{POD}6", "1", schedulingGates=[{"name": EVIL}]),
        build_pod(f"{POD}7", "1", schedulingGates=[{"name": LONG}]),
    ]
    replicas = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": build_meta(EVIL_NAME),
        "spec": {"selector": selector},
    }
    budget = {"selector": selector, "minAvailable": 3}
    return [
        build_node(NODE, EVIL), build_node(f"{NODE}2", IMAGE), build_node(EVIL_NAME, EVIL), *pending, replicas,
        *(build_owned_pod(f"{EVIL_NAME}{i}", EVIL_NAME, on) for i, on in enumerate((NODE, NODE, f"{NODE}2"))),
        {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "own"}, "value": 5},
        {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": build_meta(EVIL_NAME), "spec": budget,
         "status": {"disruptionsAllowed": 0}},
    ]  # fmt: skip


MANIFEST = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {
    "replicas": 9, "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "web", "image": EVIL, "resources": {"requests": {"cpu": "1"}}},
    ]}},
}}  # fmt: skip
DRAIN = {"steps": [{"drain": {"nodes": [NODE]}}]}
METRICS = f"""\
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{{profile={json.dumps(IMAGE)},result="scheduled"}} 3
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{{profile={json.dumps(IMAGE)},result="scheduled",le="1"}} 3
scheduler_scheduling_attempt_duration_seconds_bucket{{profile={json.dumps(IMAGE)},result="scheduled",le="+Inf"}} 3
scheduler_scheduling_attempt_duration_seconds_sum{{profile={json.dumps(IMAGE)},result="scheduled"}} 1
scheduler_scheduling_attempt_duration_seconds_count{{profile={json.dumps(IMAGE)},result="scheduled"}} 3
"""
NAMED = (POD, "-n", NAMESPACE)
COMMANDS: dict[str, tuple[str, ...]] = {
    "explain": ("explain", *NAMED),
    "explain-several": ("explain", POD, f"{POD}1", f"{POD}3", "-n", NAMESPACE),
    "pending": ("explain", "-A"),
    "remedies": ("remedies", *NAMED),
    "remedies-of-all": ("remedies", "-A"),
    "wakes": ("wakes", f"{POD}1", "-n", NAMESPACE),
    "wakes-of-all": ("wakes", "-A"),
    "simulate": ("simulate", "-f", "MANIFEST"),
    "capacity": ("capacity", "-f", "MANIFEST"),
    "drain": ("drain", NODE),
    "failures": ("failures", "--zones"),
    "whatif": ("whatif", json.dumps(DRAIN)),
    "whatif-versions": ("whatif", "--compare-version", "1.33", "1.36"),
    "audit": ("audit",),
    "lint": ("lint", "MANIFEST", "--with-cluster", "CLUSTER", "--profile", "all"),
    "priorities": ("priorities",),
    "topology": ("topology",),
    "packing": ("packing",),
    "races": ("races", "--duration", "20s"),
    "sampling": ("sampling",),
    "latency": ("latency", "--metrics", "METRICS"),
}
OF_FILES = ("lint", "latency")
"""Those that look at no cluster."""
NAMELESS = ("races", "sampling", "topology")
"""Those that name nothing of this one."""


Reports = Callable[[str], str]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Return the report of a command that was run once."""
    folder = tmp_path_factory.mktemp("hostile")
    files = {"CLUSTER": folder / "cluster.json", "MANIFEST": folder / "web.json", "METRICS": folder / "metrics.txt"}
    files["CLUSTER"].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": build_cluster()}))
    files["MANIFEST"].write_text(json.dumps(MANIFEST))
    files["METRICS"].write_text(METRICS)

    @cache
    def report(name: str) -> str:
        words = [str(files.get(part, part)) for part in COMMANDS[name]]
        source = [] if name in OF_FILES else ["-f", str(files["CLUSTER"]), "--assume-complete"]
        with redirect_stdout(StringIO()) as out:
            code = main([*words, *source, "-o", "html"])
        assert code in (0, 1, 5), words
        return out.getvalue()

    return report


@pytest.mark.parametrize("name", COMMANDS)
def test_names_are_readable_text(name: str, report: Reports, opened_file: Opens) -> None:
    page = opened_file(report(name))
    assert page.locator("main img, main script:not([type])").count() == 0
    assert "hacked" not in page.title().replace("='hacked'", "")
    for details in page.locator("details").all():
        unpacked = details.locator(".waiting").count()
        if details.get_attribute("open") is None:
            details.locator("summary").first.click()
        if unpacked:
            details.locator("table").wait_for()
    assert "<img src=" in page.locator("body").inner_text() or name in NAMELESS
    assert find_accessibility_problems(page) == []
    assert page.locator("main img, main script:not([type])").count() == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_report_has_the_answer_and_no_empty_part(name: str, report: Reports, opened_file: Opens) -> None:
    page = opened_file(report(name), java_script_enabled=False)
    assert page.locator("h1").count() == 1
    said = [each.locator("p, table, figure, pre, li").count() for each in page.locator("main section").all()]
    assert all(said)
    levels = [int(each.evaluate("each => each.localName[1]")) for each in page.locator("h1, h2, h3, h4").all()]
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", COMMANDS)
def test_huge_texts_are_cut(name: str, report: Reports) -> None:
    assert LONG[:5001] not in report(name)
    assert len(report(name)) < 700_000
