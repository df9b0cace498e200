"""Check that every form of an answer shows the costs of each fix, derived from the fix's own data."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

import kschedctl
from kschedctl import Cluster
from kschedctl.commands.browse.answers import describe_remedy, list_remedy_lines
from kschedctl.commands.browse.session import format_fix_commands
from kschedctl.commands.remedies import pending_remedies, remedies
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.report import Report
from kschedctl.reports.summary import CostKind

FIELD = Path(__file__).parents[1] / "field"
CASES = tuple(sorted(path.parent.name for path in FIELD.glob("*/in.yaml")))
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}, conditions: [{type: Ready, status: "True"}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, namespace: d, uid: %(name)s%(meta)s}
spec:
  priority: 0
  containers: [{name: c, image: x, resources: {requests: {cpu: "%(cpu)s"}}}]%(spec)s
status: {phase: %(phase)s}
"""


def write_pod(name: str, cpu: str = "3", node: str = "", spec: str = "", meta: str = "") -> str:
    spec = f"\n  nodeName: {node}{spec}" if node else spec
    phase = "Running" if node else "Pending"
    return POD % {"name": name, "cpu": cpu, "spec": spec, "meta": meta, "phase": phase}


CORDONED = NODE + "spec: {unschedulable: true}\n"
OWNED = ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]"
HIGH = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"
REPLICA_SET = """---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: d, uid: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "3"}}}]}
"""
HOST_PORT = "\n  nodeSelector: {kubernetes.io/hostname: n1}"
HAND_MADE = {
    "cordoned": "---".join([CORDONED, write_pod("web")]),
    "preemption": "---".join([NODE, write_pod("old", node="n1"), write_pod("web", spec=HOST_PORT)]) + HIGH,
    "replicas": "---".join([NODE, write_pod("web-1", node="n1", meta=OWNED), write_pod("web-2", meta=OWNED)])
    + REPLICA_SET,
    "two nodes": "---".join(
        [NODE, NODE.replace("n1", "n2"), write_pod("old", "2", "n1"), write_pod("web", spec=HOST_PORT)]
    ),
}


@cache
def list_reports(case: str) -> tuple[Report, ...]:
    """Return the answers with fixes for all waiting pods of a case."""
    if case == "demo":
        cluster = Cluster.from_paths([str(Path(kschedctl.__file__).parent / "demo" / "cluster.json")])
    elif case in HAND_MADE:
        cluster = Cluster.from_objects(list(yaml.safe_load_all(HAND_MADE[case])))
    else:
        cluster = Cluster.from_paths([str(FIELD / case / "in.yaml")])
    waiting = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in cluster.pods if not pod.spec.node_name]
    single = (report for name in waiting[:4] for report in (remedies(cluster, name),))
    explained = (kschedctl.explain(cluster, name, remedies=True) for name in waiting[:2])
    return (*single, *explained, pending_remedies(cluster))


def iter_fixes(report: Report) -> Iterator[Remedy]:
    if isinstance(report, RemediesOfMany):
        yield from (chosen.remedy for chosen in report.chosen)
    else:
        yield from getattr(report, "remedies", ())


ALL = ("demo", *CASES, *HAND_MADE)


@pytest.mark.parametrize("case", ALL)
def test_costs_are_complete(case: str) -> None:
    for fix in (fix for report in list_reports(case) for fix in iter_fixes(report)):
        kinds = {cost.kind: cost for cost in fix.all_costs}
        assert (CostKind.CHECK_FIRST in kinds) == ("Uncordon" in fix.kinds), fix.summary
        assert CostKind.LOSES in kinds or "StopPod" not in fix.kinds, fix.summary
        assert (CostKind.RESTARTS in kinds) == bool(fix.restarts), fix.summary
        assert (CostKind.EVICTS in kinds) == bool(fix.victims), fix.summary
        assert not fix.victims or kinds[CostKind.EVICTS].pods == len(fix.victims), fix.summary
        assert not fix.restarts or kinds[CostKind.RESTARTS].pods == fix.restarts, fix.summary
        assert not fix.rivals or CostKind.STILL_WAITS in kinds, fix.summary
        assert (fix.weakens or "") in "; ".join(fix.drawbacks), fix.summary


@pytest.mark.parametrize("case", ALL)
def test_short_forms_have_the_costs_of_the_long_form(case: str) -> None:
    for report in list_reports(case):
        for number, fix in enumerate(iter_fixes(report)):
            copied, page = format_fix_commands(fix), " ".join(describe_remedy(fix))
            alone = build_report_with_one_fix(report, fix)
            summary = alone.summary().fixes[0]
            brief = join_whitespace(RENDERERS["brief"](alone, Style(width=80)))
            assert summary.costs == tuple(replace(cost) for cost in fix.all_costs)
            assert not fix.commands or f"fix: {fix.summary}" in brief or not is_command_shown(fix, brief), (
                number,
                brief,
            )
            for cost in fix.all_costs:
                assert not copied or f"# {join_whitespace(cost.text)}" in copied
                assert f"fix: {fix.summary}" not in brief or is_cost_shown(cost.kind, cost.brief, fix, brief)
                assert not is_command_shown(fix, brief) or is_cost_shown(cost.kind, cost.brief, fix, brief)
                assert is_cost_shown(cost.kind, cost.text, fix, page)
                assert is_cost_shown(cost.kind, cost.text, fix, summary.words)


@pytest.mark.parametrize("case", ALL)
def test_pages_have_the_costs(case: str) -> None:
    for report in (each for each in list_reports(case) if isinstance(each, Remedies | RemediesOfMany)):
        page = extract_text(str(RENDERERS["html"](report, Style())))
        patch = join_whitespace(RENDERERS["patch"](report, Style())).replace("# ", "")
        listed = (
            " ".join(line.text for line in list_remedy_lines(report, 500)) if isinstance(report, Remedies) else page
        )
        for cost in (cost for fix in iter_fixes(report) for cost in fix.all_costs if cost.kind != CostKind.CHECK_FIRST):
            for form in (page, patch, join_whitespace(listed)):
                assert join_whitespace(cost.text) in form


def test_clusters_have_each_kind_of_cost() -> None:
    kinds = {
        cost.kind
        for case in ("demo", *HAND_MADE)
        for report in list_reports(case)
        for fix in iter_fixes(report)
        for cost in fix.costs
    }
    assert {CostKind.CHECK_FIRST, CostKind.EVICTS, CostKind.GIVES_UP, CostKind.RESTARTS} <= kinds


@pytest.mark.parametrize(
    ("case", "kind"),
    [("preemption", CostKind.EVICTS), ("two nodes", CostKind.GIVES_UP), ("06-ds-equal-priority", CostKind.RESTARTS)],
)
@pytest.mark.parametrize("form", ["brief", "html"])
def test_check_notices_a_dropped_cost(monkeypatch: pytest.MonkeyPatch, case: str, kind: CostKind, form: str) -> None:
    """The test removes the costs of one kind from a form, as a faulty renderer would, and expects a failure."""
    render = RENDERERS[form]
    costs = [
        cost
        for report in list_reports(case)
        for fix in iter_fixes(report)
        for cost in fix.all_costs
        if cost.kind == kind
    ]
    assert costs

    def careless(report: Report, style: Style) -> str:
        text = join_whitespace(html.unescape(str(render(report, style))))
        for cost in costs:
            text = text.replace(join_whitespace(cost.brief), "").replace(join_whitespace(cost.text), "")
        return text

    monkeypatch.setitem(RENDERERS, form, careless)
    walk = test_pages_have_the_costs if form == "html" else test_short_forms_have_the_costs_of_the_long_form
    with pytest.raises(AssertionError):
        walk(case)


def build_report_with_one_fix(report: Report, fix: Remedy) -> Report:
    """Return the report with this fix as its only one."""
    if isinstance(report, RemediesOfMany):
        (chosen,) = (chosen for chosen in report.chosen if chosen.remedy is fix)
        return replace(report, chosen=(chosen,))
    return replace(report, remedies=(fix,))


def is_command_shown(fix: Remedy, brief: str) -> bool:
    return any(join_whitespace(command) in brief for command in fix.commands)


def is_cost_shown(kind: CostKind, text: str, fix: Remedy, form: str) -> bool:
    """Return whether the form has the cost; the summary itself tells what has to be found out first."""
    told = f"{fix.summary}" if kind is CostKind.CHECK_FIRST else text
    return join_whitespace(told) in join_whitespace(form)


def join_whitespace(text: object) -> str:
    return " ".join(str(text).split())


def extract_text(page: str) -> str:
    return join_whitespace(html.unescape(re.sub(r"<[^>]+>", "", page)))
