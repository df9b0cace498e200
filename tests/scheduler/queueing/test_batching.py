"""Check opportunistic batching: which pods have equal signatures, and when the next node of an earlier pod is
reused."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.replay.run_queue import run_queue
from kschedctl.scheduler.queue_run.queue_run import QueueReplay
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
LISTED = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
NO_DEFAULTS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [LISTED]}],
}


def build_node(name: str, cpu: str) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}},
    }


def build_pod(name: str, cpu: str = "1", labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "labels": labels or {"app": "web"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def build_loop(*objects: Json, **settings: Any) -> QueueReplay:
    found = QueueReplay(Scheduler(Cluster.from_objects(list(objects), **{"config": NO_DEFAULTS, **settings})))
    found.fill_queue()
    return found


def list_signatures(*pods: Json, **settings: Any) -> list[bytes | None]:
    return [queued.signature for queued, _ in build_loop(*pods, **settings).queue]


ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]
CLAIMS = [{"name": "gpu", "resourceClaimName": "gpu"}]
TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "Exists"}]}
SAME_TERM = {
    "matchExpressions": [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["x", "y"]}]
}


def build_scratch_volume(**source: Any) -> Json:
    return {"volumes": [{"name": "v", "emptyDir": source}]}


def build_host_path(path: str, **source: Any) -> Json:
    return {"volumes": [{"name": "v", "hostPath": {"path": path, **source}}]}


def build_node_affinity(term: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        ({}, {"priority": 7}, True),
        ({}, {"cpu": "1000m"}, True),
        ({}, {"cpu": "2"}, False),
        ({}, {"labels": {"app": "db"}}, False),
        ({}, {"nodeSelector": {"disk": "ssd"}}, False),
        ({"affinity": build_node_affinity(TERM)}, {"affinity": build_node_affinity(SAME_TERM)}, True),
        ({"affinity": build_node_affinity(TERM)}, {}, False),
        ({}, {"tolerations": [{"operator": "Exists"}]}, False),
        ({}, {"schedulingGates": [{"name": "later"}]}, True),
        (
            {},
            {"volumes": [{"name": "v", "configMap": {"name": "cm"}}, {"name": "w", "secret": {"secretName": "s"}}]},
            True,
        ),
        ({}, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, False),
        ({}, {"volumes": [{"name": "v", "emptyDir": {}}]}, False),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "w", "emptyDir": {}}]}, True),
        (build_scratch_volume(), build_scratch_volume(sizeLimit="1Gi"), False),
        (build_scratch_volume(sizeLimit="1024Mi"), build_scratch_volume(sizeLimit="1Gi"), True),
        (build_scratch_volume(medium="Memory"), build_scratch_volume(), False),
        (build_host_path("/var/log"), build_host_path("/var/log"), True),
        (build_host_path("/var/log"), build_host_path("/var/lib"), False),
        (build_host_path("/var/log", type="Directory"), build_host_path("/var/log"), False),
    ],
)
def test_equal_pods_have_the_same_signature(left: Json, right: Json, alike: bool) -> None:
    first, second = list_signatures(build_pod("a", **left), build_pod("b", **right))
    assert first is not None
    assert (first == second) is alike


@pytest.mark.parametrize(
    "spec", [{"affinity": ANTI}, {"topologySpreadConstraints": SPREAD}, {"resourceClaims": CLAIMS}]
)
def test_incomparable_pods_have_no_signature(spec: Json) -> None:
    assert list_signatures(build_pod("a", **spec)) == [None]


def test_no_pod_is_signed_with_default_constraints() -> None:
    assert list_signatures(build_pod("a"), config=None) == [None]


def test_no_pod_is_signed_without_the_feature_gate() -> None:
    assert list_signatures(build_pod("a"), kube_version="1.34") == [None]
    assert list_signatures(build_pod("a"), feature_gates={"OpportunisticBatching": False}) == [None]


GPU = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
DEVICE = {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}


@pytest.mark.parametrize(
    ("version", "spec", "others", "signed"),
    [
        ("1.35", {}, False, False),
        ("1.35", {}, True, True),
        ("1.36", {}, False, True),
        ("1.36", DEVICE, False, False),
        ("1.36", DEVICE, True, True),
    ],
)
def test_signatures_with_resources_that_devices_may_back(version: str, spec: Json, others: bool, signed: bool) -> None:
    """In 1.35, the feature gate keeps all pods from being signed.

    With ``others``, plugins that look at resources are disabled.
    """
    names = ["NodeResourcesFit", "NodeResourcesBalancedAllocation"] if others else []
    profile = {**NO_DEFAULTS["profiles"][0], "plugins": {"multiPoint": {"disabled": [{"name": n} for n in names]}}}
    api = {**GPU, "apiVersion": "resource.k8s.io/v1"}
    config = {**NO_DEFAULTS, "profiles": [profile]}
    gates = {"DRAExtendedResource": True}
    (found,) = list_signatures(api, build_pod("a", **spec), config=config, kube_version=version, feature_gates=gates)
    assert (found is not None) == signed


def test_no_pod_is_signed_with_extenders() -> None:
    extenders = [{"urlPrefix": "http://x", "filterVerb": "filter"}]
    assert list_signatures(build_pod("a"), config={**NO_DEFAULTS, "extenders": extenders}) == [None]


def test_next_node_is_reused_once_a_node_is_full() -> None:
    """Each node has room for one pod, and the emptiest node comes first.

    For the third pod, no node is left to reuse.
    """
    nodes = [build_node("large", "1900m"), build_node("small", "1500m"), build_node("other", "1")]
    cycles = run_queue(
        Cluster.from_objects([*nodes, build_pod("a"), build_pod("b"), build_pod("c")], NO_DEFAULTS)
    ).cycles
    assert [list(cycle.bound.values()) for cycle in cycles] == [["large"], ["small"], ["other"]]
    assert [(cycle.feasible, cycle.evaluated, cycle.batched) for cycle in cycles] == [
        (3, 3, False),
        (1, 1, True),
        (1, 1, True),
    ]


def test_node_with_remaining_room_is_scored_again() -> None:
    cycles = run_queue(
        Cluster.from_objects([build_node("a", "4"), build_node("b", "4"), build_pod("a"), build_pod("b")], NO_DEFAULTS)
    ).cycles
    assert [(cycle.feasible, cycle.batched) for cycle in cycles] == [(2, False), (2, False)]


def test_pod_with_another_signature_ends_the_batch() -> None:
    pods = [build_pod("a"), build_pod("b", labels={"app": "db"}), build_pod("c")]
    nodes = [build_node("large", "1900m"), build_node("small", "1500m"), build_node("other", "1")]
    assert not any(cycle.batched for cycle in run_queue(Cluster.from_objects([*nodes, *pods], NO_DEFAULTS)).cycles)
