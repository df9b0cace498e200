"""Check DefaultPreemption against upstream's own tables (plugins/defaultpreemption, framework/preemption; v1.36)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases
from table_extenders import build_table_extenders

from kschedctl.api.kube_version import VERIFIED
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import Cycle, FilterOutcome, run_cycle
from kschedctl.scheduler.engine.extenders import NOTHING_OFFERED
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidate, choose_best_candidates
from kschedctl.scheduler.engine.preemption.dry_run import DryRun, dry_run
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.engine.preemption.victims import LowerPriority
from kschedctl.scheduler.framework import Code, PluginVerdict, Rejection
from kschedctl.scheduler.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

Json = dict[str, Any]

FAILING_REMOVAL = ["only one node but failed with TestPlugin", "one failed with TestPlugin and the other pass"]
"""A plugin that fails to take one pod's removal into account: a Delta has no such call."""
POD_GROUPS = [
    "pod with SchedulingGroup with TAS with scheduling constraint enabled should not preempt",
    "pod with SchedulingGroup with TAS with scheduling constraint enabled should not preempt even when WAP is enabled",
    "pod with SchedulingGroup with TAS with WAP enabled should not preempt",
    "pod with SchedulingGroup with WAP enabled should not preempt",
]
"""Cases behind alpha gates for groups of pods, which are not replayed."""
GROUPED_VICTIMS = [
    "podgroup victim with multiple pods, one violating",
    "podgroup victim with multiple pods, none violating",
]
"""One victim that stands for several pods."""


class FakeFilter:
    """Upstream's fake filters, which reject the nodes in ``codes`` with their codes, or all nodes but ``only``."""

    def __init__(self, name: str, codes: dict[str, str] | None = None, only: str | None = None) -> None:
        self.name, self.codes, self.only = name, codes or {}, only

    def filter(self, info, view, state, delta):
        for code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE):
            mask = [self.codes.get(name) == code for name in view.nodes.names]
            yield Rejection(np.array(mask, np.bool_), code, f"injecting failure for pod {info.pod.metadata.name}")
        if self.only is not None:
            mask = [name != self.only for name in view.nodes.names]
            yield Rejection(np.array(mask, np.bool_), Code.UNSCHEDULABLE, "Nodes failed the fake plugin")


class TableFramework:
    """The plugins of a case, at the extension points that the case names for them."""

    profile = None
    release = VERIFIED

    def __init__(self, case: Json) -> None:
        real = Scheduler(Cluster()).find_framework("default-scheduler")
        fake = case.get("fakePlugins", [{}])[0]
        self.made = {
            **real.plugins,
            "FakeFilter": FakeFilter("FakeFilter", codes=fake.get("failedNodeReturnCodeMap")),
            "FalseFilter": FakeFilter("FalseFilter", only=""),
            "TrueFilter": FakeFilter("TrueFilter"),
            "MatchFilter": FakeFilter("MatchFilter", only=case["pod"]["metadata"]["name"]),
        }
        self.points = case.get("plugins", {})
        self.extenders = build_table_extenders(case)

    def plugins_at(self, point: str) -> list[Any]:
        """Return the plugins without the one that only the left-out cases use."""
        return [self.made[plugin["name"]] for plugin in self.points.get(point, ()) if plugin["name"] != "test-plugin"]


def run_case_cycle(case: Json) -> Cycle:
    view = build_snapshot(case)
    return run_cycle(TableFramework(case), find_pod_info(case, view), view)


def replace_statuses(cycle: Cycle, codes: dict[str, str]) -> Cycle:
    """Return the cycle with these answers of Filter plugins. Nodes without an answer were not examined."""
    names = cycle.view.nodes.names
    masks = {
        code: np.array([codes.get(name) == code for name in names], np.bool_)
        for code in set(codes.values()) - {"Success"}
    }
    rejections = [Rejection(mask, Code(code), "given") for code, mask in masks.items()]
    verdict = PluginVerdict.from_rejections(iter(rejections), len(names))
    none = np.zeros(len(names), np.bool_)
    outcome = FilterOutcome(("Given",), {"Given": verdict}, {}, np.where(verdict.rejected, 0, -1), none)
    considered = np.array([name in codes for name in names], np.bool_)
    return replace(cycle, filter=outcome, considered=considered, passed=NOTHING_OFFERED)


def list_victims(view: Fork, candidate: Candidate) -> list[str]:
    return [view.pods.objects[position].metadata.name for position in candidate.victims]


def format_candidate(view: Fork, candidate: Candidate) -> Json:
    """Return a candidate in the form of the table."""
    name = view.nodes.names[candidate.row]
    return {"node": name, "numPDBViolations": candidate.pdb_violations, "victims": list_victims(view, candidate)}


def dry_run_everywhere(cycle: Cycle) -> DryRun:
    return dry_run(cycle, np.ones(len(cycle.view.nodes), np.bool_), LowerPriority(cycle.view, cycle.info.priority))


@parametrize_cases("defaultpreemption", "preemption", left_out=[*FAILING_REMOVAL, *POD_GROUPS])
def test_post_filter(case):
    want = case["want"]
    codes = {name: status["code"] for name, status in case["filteredNodesStatuses"]["nodes"].items()}
    cycle = replace_statuses(run_case_cycle(case), codes)
    result = DefaultPreemption(DefaultPreemptionArgs()).post_filter(cycle)
    assert (result.status.code, list(result.status.reasons)) == (want["status"]["code"], want["status"]["reasons"])
    assert result.nominated_node == want["nominatedNode"]
    assert sorted(list_chosen_victims(cycle.view, result.report)) == sorted(want["victims"])


def list_chosen_victims(view: Fork, report: Preemption) -> list[str]:
    """Return the victims of the first node, by name, that upstream may pick."""
    if report.allowed is None:
        return []
    return list_victims(view, min(report.allowed.tied, key=lambda candidate: view.nodes.names[candidate.row]))


@parametrize_cases("defaultpreemption", "preemption-dryrun")
def test_dry_run(case):
    cycle = run_case_cycle(case)
    found = {candidate.row: candidate for candidate in dry_run_everywhere(cycle).candidates if candidate.victims}
    looked_at = find_kept_candidates(
        found, len(cycle.view.nodes), case["offset"], case["numCandidates"], case["parallelism"]
    )
    got = sorted((format_candidate(cycle.view, found[row]) for row in looked_at), key=lambda each: each["node"])
    assert got == case["want"]["candidates"]


def find_kept_candidates(
    found: dict[int, Candidate], nodes: int, offset: int, wanted: int, parallelism: int
) -> list[int]:
    """Return the rows of the candidates that upstream keeps.

    It goes on until it has enough candidates and one violates no PDB. Of the candidates with violations, and of those
    without, it keeps no more than it wants. In parallel it may examine more nodes, so such cases have no more
    candidates than are wanted.
    """
    assert parallelism == 1 or len(found) <= wanted
    kept: dict[bool, list[int]] = {True: [], False: []}
    for row in ((offset + i) % nodes for i in range(nodes)):
        if row in found and not (kept[False] and len(kept[True] + kept[False]) >= wanted):
            held = kept[bool(found[row].violating)]
            held += [row] if len(held) < wanted else []
    return kept[True] + kept[False]


@parametrize_cases("defaultpreemption", "preemption-select")
def test_choice(case):
    cycle = run_case_cycle(case)
    candidates = dry_run_everywhere(cycle).candidates
    got = sorted((format_candidate(cycle.view, candidate) for candidate in candidates), key=lambda each: each["node"])
    assert got == case["want"]["candidates"]
    tied = sorted(
        cycle.view.nodes.names[candidate.row] for candidate in choose_best_candidates(cycle.view, candidates).tied
    )
    assert tied == case["want"]["anyOfNodes"]


@parametrize_cases("defaultpreemption", "preemption-preempt")
def test_preempt(case):
    """Upstream's Preempt is PostFilter without the name of the plugin before the message."""
    cycle, want = run_case_cycle(case), case["want"]
    result = DefaultPreemption(DefaultPreemptionArgs()).post_filter(cycle)
    assert result.status.code == want["status"]["code"]
    assert [reason.removeprefix("preemption: ") for reason in result.status.reasons] == want["status"]["reasons"]
    assert (result.nominated_node or None) == want["nominatedNode"]
    assert sorted(list_chosen_victims(cycle.view, result.report)) == sorted(want["victims"])


@parametrize_cases("defaultpreemption", "preemption-eligible")
def test_eligible(case):
    nominated = case["pod"]["status"].get("nominatedNodeName")
    codes = {nominated: case["nominatedNodeStatus"]["code"]} if "nominatedNodeStatus" in case else {}
    everyone = {node["metadata"]["name"]: "Success" for node in case.get("nodes", ())}
    report = (
        DefaultPreemption(DefaultPreemptionArgs())
        .post_filter(replace_statuses(run_case_cycle(case), everyone | codes))
        .report
    )
    assert (report.eligible, report.why) == (case["want"]["eligible"], case["want"]["message"])


@parametrize_cases("defaultpreemption", "preemption-pdb", left_out=GROUPED_VICTIMS)
def test_budgets(case):
    """The table removes its victims from separate nodes in turn. Here all of them are on one node."""
    pods = [{**pod, "spec": {**pod["spec"], "nodeName": "n"}} for (pod,) in case["victims"]]
    node = {"kind": "Node", "metadata": {"name": "n"}}
    view = build_snapshot({**case, "nodes": [node], "pods": pods})
    violating = get_budgets(view).find_violating_pods(np.arange(len(pods)))
    assert np.flatnonzero(violating).tolist() == case["want"]["violating"]
    assert np.flatnonzero(~violating).tolist() == case["want"]["nonViolating"]


@parametrize_cases("defaultpreemption", "moreimportantpod")
@pytest.mark.parametrize("swapped", [False, True])
def test_more_important_pod(case, swapped):
    """Both pods have to be evicted for a third. The order of the victims shows which is more important."""
    pods = [{**case[key], "spec": {**case[key]["spec"], "nodeName": "n"}} for key in ("p1", "p2")]
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
    third = {"kind": "Pod", "metadata": {"name": "third"}, "spec": {"priority": 100}}
    fit = {"preFilter": [{"name": "NodeResourcesFit"}], "filter": [{"name": "NodeResourcesFit"}]}
    cycle = run_case_cycle({"pod": third, "nodes": [node], "pods": pods[::-1] if swapped else pods, "plugins": fit})
    first, second = (case[key]["metadata"]["name"] for key in ("p1", "p2"))
    order = [first, second] if case["want"]["moreImportant"] else [second, first]
    assert [list_victims(cycle.view, candidate) for candidate in dry_run_everywhere(cycle).candidates] == [order]
