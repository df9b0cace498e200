"""Check profiles without plugins at an extension point: Score without PreScore, as upstream handles it.

Upstream: Score of NodeResourcesFit, NodeResourcesBalancedAllocation and NodeAffinity computes what PreScore did not
leave; that of TaintToleration, InterPodAffinity and PodTopologySpread fails (pkg/scheduler/framework/plugins, v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import kschedctl
from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.framework.declaration import find_extension_points
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

FAILS = {
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
}
LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}
ZONES = {"a": "1", "b": "2", "c": "2"}


def build_node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": f"{8 * int(ZONES[name])}Gi", "pods": "110"}
    meta = {"name": name, "labels": {"zone": ZONES[name], "kubernetes.io/hostname": name}}
    return {"kind": "Node", "apiVersion": "v1", "metadata": meta, "status": {"allocatable": allocatable}}


def build_pod(name: str, **spec: Any) -> dict[str, Any]:
    """Build a pod for which every plugin has something to prepare."""
    term = {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
    preferred = {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}}
    whole = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "labelSelector": SELECTOR}
            for when in ("DoNotSchedule", "ScheduleAnyway")
        ],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]},
        },
    }
    meta = {"name": name, "namespace": "shop", "labels": LABELS}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {**whole, **spec}}


def build_cluster(disabled: dict[str, Sequence[str]]) -> Cluster:
    points = {point: {"disabled": [{"name": name} for name in names]} for point, names in disabled.items()}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": points}],
    }
    objects = [*map(build_node, ZONES), build_pod("new"), build_pod("there", nodeName="a")]
    return kschedctl.Cluster.from_objects(objects, config=document)


def compute_scores(found: Cluster) -> dict[str, list[int]]:
    """Return the raw scores of each plugin for the feasible nodes."""
    scheduler = Scheduler(found)
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    raw = scheduler.run_cycle(framework, found.pods[0]).scores.raw
    return {plugin: scores.tolist() for plugin, scores in raw.items()}


def simulate_first(found: Cluster) -> Outcome:
    """Simulate the pods and return the outcome of the first pod, by name, without a node."""
    (outcome,) = Simulation(Scheduler(found)).run([Position(0)])
    return outcome


@pytest.mark.parametrize("failing", FAILS)
def test_plugins_that_need_pre_score_fail(failing: str) -> None:
    """The state of PreFilter does not replace that of PreScore."""
    found = build_cluster({"preScore": ["*"], "score": [name for name in FAILS if name != failing]})
    report = kschedctl.explain(found, "shop/new").to_dict()
    message = f'running Score plugins: plugin "{failing}" failed with: {FAILS[failing]}'
    assert (report["verdict"], report["message"]) == ("Error", message)
    placed = simulate_first(found)
    assert (placed.verdict, placed.message) == ("Error", message)


def test_other_plugins_compute_the_state_themselves() -> None:
    without = list(FAILS)
    found, prepared = build_cluster({"preScore": ["*"], "score": without}), build_cluster({"score": without})
    scores, expected = compute_scores(found), compute_scores(prepared)
    assert scores == {**expected, "VolumeBinding": [0, 0]}  # which PreScore had left out
    assert {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity"} <= expected.keys()
    placed = simulate_first(found)
    assert placed == simulate_first(prepared)
    assert placed.verdict == "Scheduled"


POINTS = sorted(
    set().union(*(find_extension_points(declared.plugin) for declared in IN_TREE.values() if declared.plugin))
)


@pytest.mark.parametrize("point", POINTS)
def test_every_point_may_have_no_plugins(point: str) -> None:
    """Each profile is either answered, or rejected like when the scheduler starts."""
    found = build_cluster({point: ["*"]})
    if point == "queueSort":
        with pytest.raises(ConfigurationError, match="only one queue sort plugin required"):
            kschedctl.explain(found, "shop/new")
        return
    verdict = kschedctl.explain(found, "shop/new").verdict
    assert simulate_first(found).verdict == {"Schedulable": "Scheduled"}.get(verdict, verdict)
