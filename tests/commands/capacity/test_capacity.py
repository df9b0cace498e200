"""Check `capacity`: how many pods fit, where, and what stops the next one, with several shapes, claims and limits."""

from __future__ import annotations

import pytest
from kueue_objects import NODES as GPU_NODES
from kueue_objects import build_flavor, build_local_queue, build_manifest, build_queue
from small import (
    HOSTNAME,
    ZONE,
    Json,
    build_node,
    build_pod,
    build_pod_spec,
    build_replica,
    build_spread,
    build_workload,
)

from kschedctl.cluster import Cluster
from kschedctl.commands.capacity import capacity
from kschedctl.commands.capacity.report import ShapeCapacity
from kschedctl.commands.simulate import simulate
from kschedctl.errors import UsageError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.parallel import Workers

NODES = [build_node("n1", "a"), build_node("n2", "b"), build_replica("r1", "n1", "3")]


def fits(*manifests: Json, objects: list[Json] = NODES, **options: object) -> tuple[ShapeCapacity, ...]:
    return capacity(Cluster.from_objects(objects), manifests, **options).shapes  # type: ignore[arg-type]


def test_by_resources() -> None:
    (found,) = fits(build_pod("p", cpu="500m"))
    assert (found.fits, found.nodes, found.limited) == (10, {"n1": 2, "n2": 8}, False)
    assert found.domains == {ZONE: {"a": 2, "b": 8}}
    assert found.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert [(e.reason, e.nodes) for e in found.eliminations] == [("Insufficient cpu", 2)]


def test_shapes_are_tried_separately() -> None:
    small, large = fits(build_pod("small"), build_pod("large", cpu="3"))
    assert (small.shape, small.fits) == ("Pod d/small", 5)
    assert (large.shape, large.fits) == ("Pod d/large", 1)


def test_no_more_than_the_requested_number() -> None:
    (found,) = fits(build_pod("p", cpu="100m"), most=7)
    assert (found.fits, found.limited, found.message) == (7, True, "")


def test_spread_constraint_stops_earlier() -> None:
    """n1 has one pod and takes one more. n2 may then have one more than n1, although it has room for four."""
    constrained = build_workload("Deployment", template=build_pod_spec("1", **build_spread()))
    (found,) = fits(constrained)
    assert (found.fits, found.nodes) == (4, {"n1": 1, "n2": 3})
    assert "1 node(s) didn't match pod topology spread constraints" in found.message


def test_pods_with_anti_affinity_need_a_node_each() -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    (found,) = fits(build_pod("p", affinity=apart), objects=NODES[:2])
    assert (found.fits, found.nodes) == (2, {"n1": 1, "n2": 1})


def test_no_pod_is_evicted() -> None:
    (found,) = fits(build_pod("p", cpu="4"), objects=[build_node("n1"), build_replica("r1", "n1", "1", priority=-5)])
    assert found.fits == 0


def test_volumes_for_generated_claims_run_out() -> None:
    local = {"kind": "StorageClass", "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    local["volumeBindingMode"] = "WaitForFirstConsumer"
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    available = {"phase": "Available"}
    volumes = [
        {"kind": "PersistentVolume", "metadata": {"name": f"v{i}"}, "spec": spec, "status": available} for i in range(3)
    ]
    request = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    claim = {"metadata": {"name": "data"}, "spec": {**request, "storageClassName": "local"}}
    manifest = build_workload("StatefulSet", spec={"volumeClaimTemplates": [claim]}, template=build_pod_spec("100m"))
    (found,) = fits(manifest, objects=[*NODES, local, *volumes])
    assert (found.fits, found.limited) == (3, False)
    assert "didn't find available persistent volumes" in found.message


def test_curve_shows_how_room_runs_out() -> None:
    """n1 has room for 2 pods and n2 for 8. At first both take one more, then only n2, then none."""
    (found,) = fits(build_pod("p", cpu="500m"))
    curve = {each.pods: each.nodes for each in found.curve}
    assert (curve[0], curve[10], max(curve)) == (2, 0, 10)
    assert list(curve.values()) == [2, 1, 0]
    (limited,) = fits(build_pod("p", cpu="100m"), most=7)
    assert [(each.pods, each.nodes) for each in limited.curve] == [(0, 2)]


def test_curve_has_a_limited_number_of_changes() -> None:
    """Each of 900 nodes has room for one pod, so every pod changes the curve."""
    (found,) = fits(build_pod("p"), objects=[build_node(f"n{i}", pods="1") for i in range(900)])
    assert found.fits == 900
    assert 300 < len(found.curve) <= 402
    assert all(each.nodes == 900 - each.pods for each in found.curve)
    assert (found.curve[0].pods, found.curve[-1].pods) == (0, 900)


def test_runs_and_processes() -> None:
    manifests = [build_pod("small"), build_pod("large", cpu="3")]
    alone = fits(*manifests, runs=3)
    assert [(shape.fits, shape.over_runs.least, shape.over_runs.most) for shape in alone if shape.over_runs] == [
        (5, 5, 5),
        (1, 1, 1),
    ]
    assert fits(*manifests, runs=3, workers=Workers(2)) == alone


def test_nothing_to_try() -> None:
    with pytest.raises(UsageError, match="no workload to try"):
        fits()
    with pytest.raises(UsageError, match="DaemonSet web runs one pod on each node"):
        fits(build_workload("DaemonSet"))


def test_daemon_sets_among_other_workloads_are_only_named() -> None:
    report = capacity(Cluster.from_objects([build_node("n1")]), [build_workload("DaemonSet"), build_pod("p")])
    assert [shape.shape for shape in report.shapes] == ["Pod d/p"]
    assert report.not_counted == ("DaemonSet d/web",)
    assert report.notes[0].startswith("Not counted: DaemonSet d/web, which runs one pod on each node")
    assert report.summary().warnings[0] == report.notes[0]


def test_victims_of_the_next_pod() -> None:
    """kube-scheduler would preempt, and its message then does not mention preemption.

    The number does not include such pods.
    """
    gold = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    objects = [build_node("n1"), build_replica("r1", "n1", "1"), gold]
    (found,) = fits(build_pod("p", cpu="4", priorityClassName="gold"), objects=objects)
    assert (found.fits, found.message, found.evicts) == (0, "0/1 nodes are available: 1 Insufficient cpu.", ("d/r1",))
    (found,) = fits(build_pod("p", cpu="4"), objects=objects)
    assert (found.fits, found.evicts) == (0, ())


def test_no_nodes() -> None:
    (found,) = fits(build_pod("p"), objects=[])
    assert (found.fits, found.message) == (0, "no nodes available to schedule pods")


def test_invalid_start_times_do_not_matter_without_preemption() -> None:
    there = build_replica("r2", "n2", "1")
    there["status"] = {"startTime": "yesterday"}
    (found,) = fits(build_pod("p", cpu="1"), objects=[*NODES, there])
    assert found.fits == 4


def test_largest_free_amount_is_on_an_eligible_node() -> None:
    """n1 has one core left. n2 has four and a taint, and n3 has four and is cordoned."""
    tainted = build_node("n2", taints=[{"key": "k", "effect": "NoSchedule"}])
    objects = [build_node("n1"), tainted, build_node("n3", unschedulable=True), build_pod("x", "n1", "3")]
    (shape,) = fits(build_pod("p", cpu="2"), objects=objects)
    cpu = next(resource for resource in shape.headroom if resource.resource == "cpu")
    assert (shape.fits, cpu.largest_free_before, cpu.largest_free_after) == (0, 1000, 1000)


def test_pods_ahead_in_the_queue_get_their_nodes_first() -> None:
    """5 CPUs are free, 4 of them on n2, the only node for the waiting pod of 2 CPUs."""
    (shape,) = fits(build_pod("new"), objects=[*NODES, build_pod("waiting", cpu="2")])
    assert (shape.fits, shape.ahead) == (3, ("d/waiting",))


def test_waiting_pods_of_lower_priority_are_not_ahead() -> None:
    (shape,) = fits(build_pod("new"), objects=[*NODES, build_pod("waiting", cpu="2", priority=-1)])
    assert (shape.fits, shape.ahead) == (5, ())


def test_waiting_pods_that_fit_nowhere_take_no_room() -> None:
    (shape,) = fits(build_pod("new"), objects=[*NODES, build_pod("waiting", cpu="5")])
    assert (shape.fits, shape.ahead) == (5, ())


def _count_gpus(quota: int, *manifests: Json, **options: object) -> ShapeCapacity:
    """Count how many pods with 1 GPU each fit on 2 nodes with 4 GPUs, within a quota of Kueue."""
    (shape,) = fits(
        *manifests, objects=[build_flavor("gpu"), build_queue(quota=quota), build_local_queue(), *GPU_NODES], **options
    )
    return shape


def test_quota_of_kueue_counts_for_all_pods_of_a_job() -> None:
    shape = _count_gpus(5, build_manifest(gpus=1, pods=1))
    assert (shape.fits, shape.by_quota, shape.most, shape.flavors) == (8, 5, 5, "flavor gpu")
    assert "needs 6 nvidia.com/gpu, but flavor gpu has 5 of 5 free" in shape.beyond_quota
    assert shape.quota_sentence.startswith(
        "Kueue's quota runs out first: only 5 are admitted in flavor gpu; with one more it waits"
    )


def test_quota_of_kueue_counts_each_pod_of_a_deployment() -> None:
    shape = _count_gpus(3, build_manifest(gpus=1, pods=1, kind="Deployment"))
    assert (shape.fits, shape.by_quota) == (8, 3)


def test_enough_quota_of_kueue_changes_nothing() -> None:
    shape = _count_gpus(12, build_manifest(gpus=1, pods=1))
    assert (shape.most, shape.quota_sentence) == (8, "Kueue admits all of them in flavor gpu")
    assert (
        _count_gpus(12, build_manifest(gpus=1, pods=1), most=2).quota_sentence
        == "Kueue admits all of them in flavor gpu"
    )


def test_no_quota_of_kueue_means_that_none_fits() -> None:
    shape = _count_gpus(0, build_manifest(gpus=1, pods=1))
    assert shape.most == 0
    assert shape.quota_sentence.startswith("Kueue admits none: the workload waits for quota in ClusterQueue cq")


def test_pod_without_a_queue_has_no_quota_of_kueue() -> None:
    assert _count_gpus(0, build_pod("p")).by_quota is None


def test_first_line_says_what_kueue_admits() -> None:
    shape = _count_gpus(5, build_manifest(gpus=1, pods=1))
    assert (
        " ".join(shape.build_headline_parts()[1:]) == "5 more until Kueue's quota is used up; the nodes have room for 8"
    )


def test_first_line_has_the_numbers_of_several_shapes() -> None:
    report = capacity(Cluster.from_objects(NODES), [build_pod("small"), build_pod("large", cpu="3")])
    assert report.build_headline_parts() == (
        "2 workloads, each as if it had all the room to itself:",
        "5 of Pod d/small, 1 of Pod d/large",
    )


def test_pods_without_requests_are_named() -> None:
    report = capacity(Cluster.from_objects(NODES), [build_pod("idle", cpu="0"), build_pod("small")])
    assert [shape.requests_nothing for shape in report.shapes] == [True, False]
    (warning,) = (text for text in report.summary().warnings if "requests no resources" in text)
    assert warning.startswith("Pod d/idle: ")


@pytest.mark.parametrize(("quota", "evicts"), [("0", ()), ("1", ("d/r1",)), (None, ("d/r1",))])
def test_pod_that_is_not_created_evicts_none(quota: str | None, evicts: tuple[str, ...]) -> None:
    gold = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    objects = [build_node("n1"), build_replica("r1", "n1", "1"), gold]
    if quota is not None:
        limits = {"metadata": {"name": "q", "namespace": "d"}, "spec": {"hard": {"count/pods": quota, "pods": quota}}}
        status = {"hard": {"pods": quota}, "used": {"pods": "0"}}
        objects.append({"apiVersion": "v1", "kind": "ResourceQuota", **limits, "status": status})
    (found,) = fits(build_pod("p", cpu="4", priorityClassName="gold"), objects=objects)
    assert (found.fits, found.evicts) == (0, evicts)


STORAGE: list[Json] = [
    {
        "kind": "StorageClass",
        "metadata": {"name": "csi"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {"kind": "CSIDriver", "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}},
    {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "pool-a", "namespace": "kube-system"},
        "storageClassName": "csi",
        "nodeTopology": {"matchLabels": {ZONE: "a"}},
        "capacity": "100Gi",
    },
]


def build_database(replicas: int, size: str) -> Json:
    """Build a StatefulSet whose pods claim volumes of the class csi."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "csi",
            "resources": {"requests": {"storage": size}},
        },
    }
    template = {**build_pod_spec(), "volumes": []}
    template["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = {"replicas": replicas, "serviceName": "web", "volumeClaimTemplates": [claim]}
    return build_workload("StatefulSet", spec=spec, template=template)


@pytest.mark.parametrize(
    ("size", "needed", "enough_for"), [("30Gi", "120Gi", 3), ("60Gi", "240Gi", 1), ("25Gi", "", 4)]
)
def test_volumes_that_need_more_together_than_is_published(size: str, needed: str, enough_for: int) -> None:
    """Four pods of 1 CPU fill the node of zone a. kube-scheduler checks each claim separately."""
    objects = [build_node("n1", "a"), build_node("n2", "b"), *STORAGE]
    sentence = (
        f"4 new volumes of class csi need {needed}, but only 100Gi are published (kube-system/pool-a), enough for"
        f" {enough_for}: kube-scheduler checks each claim alone, and the driver may fail to make the others"
    )
    expected = (sentence,) if needed else ()
    (found,) = fits(build_database(1, size), objects=objects)
    assert (found.fits, found.exceeded_storage) == (4, expected)
    report = simulate(Cluster.from_objects(objects), [build_database(4, size)])
    assert (report.placed, report.exceeded_storage) == (4, expected)
    assert set(expected) <= set(report.summary().warnings)


def test_autoscaler_alone_stands_for_its_target() -> None:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 3, "maxReplicas": 5},
    }
    stored = build_workload("Deployment", spec={"replicas": 1})
    report = capacity(Cluster.from_objects([build_node("n1"), stored, build_replica("web-5f-a", "n1")]), [scaler])
    assert [(shape.shape, shape.fits) for shape in report.shapes] == [("Deployment d/web", 3)]
    (note,) = report.autoscaled
    assert "from 1 to 3 replicas" in note


def test_room_reserved_for_a_nominated_pod_is_not_free() -> None:
    """n1 has eight cores. A victim of preemption still uses five, and its preemptor will use six."""
    victim = build_pod("victim", "n1", "5")
    victim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim["status"]["conditions"].append(preempted)
    nominated = build_pod("first", cpu="6", priority=10)
    nominated["status"] = {"nominatedNodeName": "n1"}
    (shape,) = fits(build_pod("p", cpu="2"), objects=[build_node("n1", cpu="8"), victim, nominated])
    cpu = next(resource for resource in shape.headroom if resource.resource == "cpu")
    assert (shape.fits, cpu.largest_free_after) == (0, 0)


def test_pods_of_an_unknown_class_are_not_created() -> None:
    manifest = build_workload("Deployment", template=build_pod_spec("9", priorityClassName="gold"))
    report = capacity(Cluster.from_objects([build_node("n1")]), [manifest])
    (shape,) = report.shapes
    assert str(report) == "Deployment d/web: none is created; the nodes have room for 0"
    assert shape.limit_sentence == "They are not created: no PriorityClass with name gold was found"
    assert [pods.why for pods in report.summary().pods] == ["no PriorityClass with name gold was found"]


def test_largest_free_amount_of_nodes_that_anti_affinity_excludes() -> None:
    """No node lacks only resources: n1 has one of the pods already, and n2 has no room."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    (shape,) = fits(
        build_pod("p", cpu="1", affinity=apart), objects=[build_node("n1"), build_node("n2"), build_pod("x", "n2", "4")]
    )
    cpu = next(resource for resource in shape.headroom if resource.resource == "cpu")
    assert (shape.fits, cpu.largest_free_after) == (1, 3000)


def test_answer_comes_before_what_was_not_replayed() -> None:
    report = capacity(Cluster.from_objects(NODES, assume_complete=False), [build_pod("p", cpu="500m")])
    assert report.not_replayed
    text = RENDERERS["table"](report, Style(width=200))
    assert text.index("10 more fit") < text.index("Not replayed:")


def test_short_answer_says_why_the_next_pod_of_each_shape_does_not_fit() -> None:
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2")])
    report = capacity(cluster, [build_pod("small", cpu="3"), build_pod("large", cpu="99")])
    brief = RENDERERS["brief"](report, Style(width=200))
    assert "Pod d/small: 2 more; the next pod fits on none of the 2 nodes: 2 lack CPU" in brief
    assert "Pod d/large: 0 more; the next pod fits on none of the 2 nodes: 2 lack CPU" in brief
