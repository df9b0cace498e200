"""Check whole cycles against upstream's own tables (pkg/scheduler/schedule_one_test.go; v1.36).

Left out: cases about how many nodes are looked at.
"""

from __future__ import annotations

import numpy as np
import pytest
from fake_plugins import FAKES, FakeFilter, FakeFramework, FakePreFilter, build_fake_plugins
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, show_status
from table_extenders import build_table_extenders

from kschedctl.scheduler.configuration.configuration import load_configuration
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.diagnosis import build_fit_error
from kschedctl.scheduler.engine.scoring import ScoreOutcome
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.in_tree_plugins import IN_TREE

ZERO_TIME = ["deleted PVC"]
"""A deletionTimestamp that is present but zero, which JSON cannot express."""
GATES = FeatureGates()
ARGS = load_configuration(None, GATES).profiles["default-scheduler"].args


def build_framework(case):
    """Build the plugins of a case. In-tree plugins have their default arguments."""
    own = build_fake_plugins(case.get("fakePlugins", ()))

    def plugin(name):
        return own.get(name) or FAKES.get(name) or IN_TREE[name].make(ARGS.get(name), GATES)

    points = {
        point: [plugin(entry["name"]) for entry in entries]
        for point, entries in case["plugins"].items()
        if point not in {"bind", "queueSort"}
    }
    weights = {entry["name"]: entry["weight"] for entry in case["plugins"].get("score", ())}
    return FakeFramework(points, weights, build_table_extenders(case))


def run_case_cycle(case):
    """Run the cycle of a case, with claims bound as in the test of the table."""
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    objects = [{**each, "metadata": {**each["metadata"], **bound}} for each in case.get("objects", ())]
    view = build_snapshot({**case, "objects": objects})
    return run_cycle(build_framework(case), find_pod_info(case, view), view)


def list_node_names(found, rows):
    return [found.view.nodes.names[row] for row in rows]


@parametrize_cases("scheduleone", "schedulepod", left_out=ZERO_TIME)
def test_schedule_pod(case):
    found, want = run_case_cycle(case), case["want"]
    if "fitError" in want:
        assert not found.schedulable
        assert build_fit_error(found) == want["error"]
        assert list_reported_statuses(found) == {
            n: drop_plugin(s) for n, s in want["fitError"]["nodeToStatus"]["nodes"].items()
        }
    elif "error" in want:
        assert found.error == want["error"]
    else:
        assert sorted(list_node_names(found, found.scores.best)) == want.get("anyOfNodes", [want["suggestedHost"]])


@parametrize_cases("scheduleone", "findfit", "fitmessage")
def test_find_fit(case):
    found, want = run_case_cycle(case), case["want"]
    assert list_reported_statuses(found) == {n: drop_plugin(s) for n, s in want["nodeToStatus"]["nodes"].items()}
    assert {found.filter.find_first_rejection(row)[0] for row in list_rejected_rows(found)} == set(
        want["unschedulablePlugins"]
    )
    if "error" in want:
        assert build_fit_error(found) == want["error"]


def list_rejected_rows(found):
    """Return the rows of the nodes that were looked at and rejected."""
    return np.flatnonzero(found.considered & ~found.filter.passing).tolist()


def list_reported_statuses(found):
    """Return the status that the framework reports for each node that it looked at."""
    by_plugins = {
        found.view.nodes.names[row]: show_status(found.filter.find_first_rejection(row)[1])
        for row in list_rejected_rows(found)
    }
    return by_plugins | {name: show_status(status) for name, status in found.consultation.statuses.items()}


def drop_plugin(status):
    return {"code": status["code"], "reasons": sorted(status["reasons"])}


@parametrize_cases("scheduleone", "fiterror")
def test_fit_error(case):
    statuses = case["nodeToStatus"]["nodes"]
    reasons = sorted({reason for status in statuses.values() for reason in status["reasons"]})
    filters = [
        FakeFilter(reason, lambda pod, node, pods, reason=reason: reason in statuses[node]["reasons"], reason)
        for reason in reasons
    ]
    plugins = {"filter": filters}
    if case["preFilterMsg"]:
        plugins["preFilter"] = [FakePreFilter("p", Status(Code.UNRESOLVABLE, (case["preFilterMsg"],)))]
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in statuses]
    view = build_snapshot({"nodes": nodes})
    found = run_cycle(FakeFramework(plugins), find_pod_info({"pod": {"kind": "Pod", "metadata": {}}}, view), view)
    assert build_fit_error(found, case["postFilterMsg"]) == case["want"]["message"]


@parametrize_cases("scheduleone", "selecthost")
def test_select_host(case):
    """Our best nodes are all nodes of which the scheduler picks one at random."""
    totals = np.array([entry["total"] for entry in case["list"]], np.int64)
    best = ScoreOutcome(np.arange(len(totals)), weighted={"Any": totals}).best
    first = case["want"]["order"][0]["total"]
    expected = {entry["node"] for entry in case["want"]["order"] if entry["total"] == first}
    assert {case["list"][row]["node"] for row in best} == expected


@parametrize_cases("scheduleone", "prioritizenodes")
def test_prioritize_nodes(case):
    scores = run_case_cycle(case).scores
    for row, wanted in enumerate(case["want"]["nodeScores"]):
        assert {name: values[row] for name, values in (*scores.weighted.items(), *scores.extended)} == wanted["scores"]
        assert scores.total[row] == wanted["total"]


@pytest.mark.parametrize(
    ("promised", "refuses", "feasible"),
    [
        ("n2", "", ["n2"]),
        ("n2", "n2", ["n1", "n3"]),
        ("gone", "", ["n1", "n2", "n3"]),
        ("", "n1", ["n2", "n3"]),
    ],
    ids=["it passes", "it does not pass", "it is gone", "none"],
)
def test_nominated_node(promised, refuses, feasible):
    """The nominated node is evaluated first, and suffices if it passes."""
    view = build_snapshot({"nodes": [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2", "n3")]})
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {"nominatedNodeName": promised}}
    plugins = {"filter": [FakeFilter("F", lambda pod, node, pods: node == refuses)]}
    found = run_cycle(FakeFramework(plugins), find_pod_info({"pod": pod}, view), view)
    assert list_node_names(found, found.feasible) == feasible
