"""Check which pods can be drained against upstream's own table, under its names.

Upstream: simulator/drain_test.go, TestGetPodsToMove, and simulator/drainability/rules/*/rule_test.go (1.36). Not here:
rows with rules made up for the test ("Rule allows", "Second rule blocks" …), which no flag can set, and pods that are
over, which the loop does not list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import kschedctl

Json = dict[str, Any]
NOW, BEFORE = "2020-12-18T17:00:00Z", "2020-12-17T17:00:00Z"
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
LOCAL = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


class DrainRow(NamedTuple):
    """The pods on the node, and the reason of the first pod that keeps it ("" if none does).

    ``moves`` are the pods that move.
    """

    pods: tuple[Json, ...]
    reason: str = ""
    moves: tuple[str, ...] = ()
    others: tuple[Json, ...] = ()


def build_pod(name: str, owner: str = "", namespace: str = "default", **fields: Any) -> Json:
    """Build a pod that is owned by ``kind/name``, if an owner is given."""
    kind, _, owner_name = owner.partition("/")
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner_name, "controller": True}
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": BEFORE}
    metadata |= {"ownerReferences": [reference]} if owner else {}
    metadata |= fields.pop("metadata", {})
    spec = {"nodeName": "node", "containers": [{"name": "c"}], **fields.pop("spec", {})}
    status = fields.pop("status", {"phase": "Running"})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def build_budget(allowed: int, namespace: str = "default", **labels: str) -> Json:
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": namespace},
        "spec": spec,
        "status": {"disruptionsAllowed": allowed},
    }


def build_volumes(*names: str) -> Json:
    return {"volumes": [{"name": name, "emptyDir": {}} for name in names]}


def build_grace_period(seconds: int) -> Json:
    return {"terminationGracePeriodSeconds": seconds}


def build_annotations(**annotations: str) -> Json:
    return {"annotations": annotations}


RS, RC = "ReplicaSet/rs", "ReplicationController/rc"
SYSTEM = {"labels": {"k8s-app": "bar"}}
TABLE = {
    "Unreplicated pod": DrainRow((build_pod("alone"),), "NotReplicated"),
    "Replicated pod": DrainRow((build_pod("bar", RS),), moves=("default/bar",)),
    "Manifest pod": DrainRow(
        (build_pod("m", metadata=build_annotations(**{"kubernetes.io/config.mirror": "something"})),)
    ),
    "DaemonSet pod": DrainRow((build_pod("bar", RS), build_pod("d", "DaemonSet/ds")), moves=("default/bar",)),
    "Kube-system no pdb system pods blocking": DrainRow(
        (build_pod("s", RS, "kube-system", metadata={"creationTimestamp": "2020-12-18T16:01:00Z"}),),
        "UnmovableKubeSystemPod",
    ),
    "Kube-system no pdb system pods allowing": DrainRow(
        (build_pod("s", RS, "kube-system", metadata={"creationTimestamp": "2020-12-18T15:59:00Z"}),),
        moves=("kube-system/s",),
    ),
    "Local storage": DrainRow((build_pod("l", RS, spec=build_volumes("empty-vol")),), "LocalStorageRequested"),
    "Non-local storage": DrainRow(
        (build_pod("g", RS, spec={"volumes": [{"name": "r", "gitRepo": {"repository": "r"}}]}),), moves=("default/g",)
    ),
    "Pdb blocking": DrainRow(
        (build_pod("p", RS, metadata={"labels": {"critical": "true"}}),),
        "NotEnoughPdb",
        others=(build_budget(0, critical="true"),),
    ),
    "Pdb allowing": DrainRow(
        (build_pod("p", RS, metadata={"labels": {"critical": "true"}}),),
        moves=("default/p",),
        others=(build_budget(1, critical="true"),),
    ),
    "RC-managed pod": DrainRow((build_pod("bar", RC),), moves=("default/bar",)),
    "DS-managed pod": DrainRow((build_pod("bar", "DaemonSet/ds"),)),
    "DS-managed pod by a custom Daemonset": DrainRow(
        (
            build_pod(
                "bar",
                "CustomDaemonSet/ds",
                metadata=build_annotations(**{"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}),
            ),
        )
    ),
    "Job-managed pod": DrainRow((build_pod("bar", "Job/job"),), moves=("default/bar",)),
    "SS-managed pod": DrainRow((build_pod("bar", "StatefulSet/ss"),), moves=("default/bar",)),
    "pod with EmptyDir": DrainRow((build_pod("bar", RC, spec=build_volumes("scratch")),), "LocalStorageRequested"),
    "pod with EmptyDir and SafeToEvictLocalVolumesKey annotation": DrainRow(
        (build_pod("bar", RC, spec=build_volumes("scratch"), metadata=build_annotations(**{LOCAL: "scratch"})),),
        moves=("default/bar",),
    ),
    "pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with matching values": DrainRow(
        (
            build_pod(
                "bar",
                RC,
                spec=build_volumes("scratch-1", "scratch-2", "scratch-3"),
                metadata=build_annotations(**{LOCAL: "scratch-1,scratch-2,scratch-3"}),
            ),
        ),
        moves=("default/bar",),
    ),
    "pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with non-matching values": DrainRow(
        (build_pod("bar", RC, spec=build_volumes("scratch-1"), metadata=build_annotations(**{LOCAL: "scratch-2"})),),
        "LocalStorageRequested",
    ),
    "pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with some matching values": DrainRow(
        (
            build_pod(
                "bar",
                RC,
                spec=build_volumes("scratch-1", "scratch-2"),
                metadata=build_annotations(**{LOCAL: "scratch-1,scratch-5"}),
            ),
        ),
        "LocalStorageRequested",
    ),
    "pod with EmptyDir and SafeToEvictLocalVolumesKey annotation empty values": DrainRow(
        (
            build_pod(
                "bar", RC, spec=build_volumes("scratch-1", "scratch-2"), metadata=build_annotations(**{LOCAL: ",,"})
            ),
        ),
        "LocalStorageRequested",
    ),
    "long terminating pod with 0 grace period": DrainRow(
        (build_pod("bar", RC, metadata={"deletionTimestamp": "2020-12-18T16:59:00Z"}, spec=build_grace_period(0)),),
    ),
    "long terminating pod with extended grace period": DrainRow(
        (build_pod("bar", RC, metadata={"deletionTimestamp": "2020-12-18T16:57:00Z"}, spec=build_grace_period(360)),),
        moves=("default/bar",),
    ),
    "RC-managed pod with missing reference": DrainRow(
        (build_pod("bar", "ReplicationController/gone"),), "ControllerNotFound"
    ),
    "DS-managed pod with missing reference": DrainRow((build_pod("bar", "DaemonSet/gone"),), "ControllerNotFound"),
    "SS-managed pod with missing reference": DrainRow((build_pod("bar", "StatefulSet/gone"),), "ControllerNotFound"),
    "RS-managed pod with missing reference": DrainRow((build_pod("bar", "ReplicaSet/gone"),), "ControllerNotFound"),
    "pod with PodSafeToEvict annotation": DrainRow(
        (build_pod("bar", metadata={"annotations": SAFE}),), moves=("default/bar",)
    ),
    "kube-system pod with PodSafeToEvict annotation": DrainRow(
        (build_pod("bar", namespace="kube-system", metadata={"annotations": SAFE}),), moves=("kube-system/bar",)
    ),
    "pod with EmptyDir and PodSafeToEvict annotation": DrainRow(
        (build_pod("bar", metadata={"annotations": SAFE}, spec=build_volumes("scratch")),), moves=("default/bar",)
    ),
    "RC-managed pod with PodSafeToEvict=false annotation": DrainRow(
        (build_pod("bar", RC, metadata={"annotations": UNSAFE}),), "NotSafeToEvictAnnotation"
    ),
    "job-managed pod with PodSafeToEvict=false annotation": DrainRow(
        (build_pod("bar", "Job/job", metadata={"annotations": UNSAFE}),), "NotSafeToEvictAnnotation"
    ),
    "kube-system PDB with matching kube-system pod": DrainRow(
        (build_pod("bar", RC, "kube-system", metadata={**SYSTEM, "creationTimestamp": "2020-12-18T16:30:00Z"}),),
        moves=("kube-system/bar",),
        others=(build_budget(1, "kube-system", **{"k8s-app": "bar"}),),
    ),
    "kube-system PDB with non-matching kube-system pod": DrainRow(
        (build_pod("bar", RC, "kube-system", metadata={**SYSTEM, "creationTimestamp": "2020-12-18T16:30:00Z"}),),
        "UnmovableKubeSystemPod",
        others=(build_budget(1, "kube-system", **{"k8s-app": "foo"}),),
    ),
    "kube-system PDB with default namespace pod": DrainRow(
        (build_pod("bar", RC),), moves=("default/bar",), others=(build_budget(1, "kube-system", **{"k8s-app": "foo"}),)
    ),
    "default namespace PDB with matching labels kube-system pod": DrainRow(
        (build_pod("bar", RC, "kube-system", metadata={**SYSTEM, "creationTimestamp": "2020-12-18T16:30:00Z"}),),
        "UnmovableKubeSystemPod",
        others=(build_budget(1, **{"k8s-app": "bar"}),),
    ),
}


def build_node(name: str) -> Json:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    metadata = {"name": name, "creationTimestamp": BEFORE, "labels": {"kubernetes.io/hostname": name}}
    status = {"capacity": offers, "allocatable": offers, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def build_owners() -> list[Json]:
    """Build the owners of the pods in both namespaces."""
    kinds = {"rs": "ReplicaSet", "rc": "ReplicationController", "ds": "DaemonSet", "job": "Job", "ss": "StatefulSet"}
    versions = {"rc": "v1", "job": "batch/v1"}
    made = []
    for name, kind in kinds.items():
        labels = {"app": "web"}
        spec = {"replicas": 5, "selector": labels if name == "rc" else {"matchLabels": labels}}
        for namespace in ("default", "kube-system"):
            metadata = {"name": name, "namespace": namespace, "uid": name}
            version = versions.get(name, "apps/v1")
            made.append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    return made


@pytest.mark.parametrize("name", TABLE)
def test_pods_to_move(name: str) -> None:
    row = TABLE[name]
    cluster = kschedctl.Cluster.from_objects(
        [build_node("node"), build_node("other"), *build_owners(), *row.pods, *row.others]
    )
    groups = [{"id": "g", "min": 0, "max": 5, "target": 2, "nodes": ["node", "other"]}]
    report = kschedctl.scale_down(cluster, groups, {"minReplicaCount": 0}, now=NOW)
    told = report.nodes["node"]
    if row.reason:
        assert told.blocking_pod is not None, told
        assert told.blocking_pod.reason == row.reason
    else:
        assert told.blocking_pod is None
        assert told.alone is not None
        assert (told.alone.removable, told.alone.pods) == (True, row.moves)
