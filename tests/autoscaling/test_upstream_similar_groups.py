"""Check similar node groups and equivalent pods against upstream's tables, under their names.

Upstream: processors/nodegroupset/compare_nodegroups_test.go and core/scaleup/equivalence/groups_test.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import Node, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.autoscaling.cluster_autoscaler.estimator import MAX_GROUPS_PER_CONTROLLER, group_equivalent_pods
from kschedctl.autoscaling.cluster_autoscaler.expanders import TemplateShape, build_similarity_check
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions

Json = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "failure-domain.beta.kubernetes.io/zone"
FLUENTD = "beta.kubernetes.io/fluentd-ds-ready"
POOH = {"test-label": "test-value", "character": "winnie the pooh"}


class Shape(NamedTuple):
    """A node with its capacity, allocatable where it differs, labels, and the requests of its pods."""

    has: Mapping[str, str]
    offers: Mapping[str, str]
    labels: Mapping[str, str]
    requested: Mapping[str, int]

    @property
    def template(self) -> TemplateShape:
        status = {"capacity": dict(self.has), "allocatable": {**self.has, **self.offers}}
        labels = dict(self.labels)
        return TemplateShape(
            convert_builtins({"metadata": {"name": "n", "labels": labels}, "status": status}, Node), self.requested
        )


def shape(
    cpu: str = "1000m", memory: str = "2000", offers: Json | None = None, requested: Json | None = None, **more: str
) -> Shape:
    return Shape({"cpu": cpu, "memory": memory, "pods": "100", **more}, offers or {}, {}, requested or {})


def labelled(labels: Json) -> Shape:
    return shape()._replace(labels=labels)


def memory_of(amount: str) -> Shape:
    return shape(memory=amount)


GPU = "nvidia.com/gpu"
POD, LIKE, HALF = {"cpu": 500, "memory": 1000}, {"cpu": 501, "memory": 1001}, {"cpu": "500m", "memory": "1000"}
SIMILAR = {
    "TestIdenticalNodesSimilar": (shape(), shape(), True),
    "TestNodesSimilarVariousRequirements: cpu": (shape(), shape("1001m"), False),
    "TestNodesSimilarVariousRequirements: slightly other allocatable": (shape(), shape(offers={"cpu": "999m"}), True),
    "TestNodesSimilarVariousRequirements: much less allocatable": (shape(), shape(offers={"cpu": "500m"}), False),
    "TestNodesSimilarVariousRequirements: a GPU": (shape(), shape(**{GPU: "1"}), False),
    "TestNodesSimilarVariousRequirementsAndPods: same free": (shape(requested=POD), shape(offers=HALF), False),
    "TestNodesSimilarVariousRequirementsAndPods: same pods": (shape(requested=POD), shape(requested=POD), True),
    "TestNodesSimilarVariousRequirementsAndPods: similar": (
        shape(requested=POD),
        shape(offers={"cpu": "999m"}, requested=LIKE),
        True,
    ),
    "TestNodesSimilarVariousMemoryRequirements: within": (memory_of("1000"), memory_of("986"), True),
    "TestNodesSimilarVariousMemoryRequirements: beyond": (memory_of("1000"), memory_of("984"), False),
    "TestNodesSimilarVariousLargeMemoryRequirementsM5XLarge: within": (
        memory_of("16116152Ki"),
        memory_of("15944120Ki"),
        True,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM5XLarge: beyond": (
        memory_of("16116152Ki"),
        memory_of("16438475Ki"),
        False,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM516XLarge: within": (
        memory_of("259970052Ki"),
        memory_of("257217528Ki"),
        True,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM516XLarge: beyond": (
        memory_of("259970052Ki"),
        memory_of("265169453Ki"),
        False,
    ),
    "TestNodesSimilarVariousLabels: one lacks one": (labelled(POOH), labelled({"test-label": "test-value"}), False),
    "TestNodesSimilarVariousLabels: the same": (labelled(POOH), labelled(POOH), True),
    "TestNodesSimilarVariousLabels: host names": (
        labelled({**POOH, HOSTNAME: "node1"}),
        labelled({**POOH, HOSTNAME: "node2"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: zones": (
        labelled({**POOH, ZONE: "mars-olympus-mons1-b"}),
        labelled({**POOH, ZONE: "us-houston1-a"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: fluentd": (
        labelled({**POOH, FLUENTD: "true"}),
        labelled({**POOH, FLUENTD: "false"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: fluentd on one": (labelled({**POOH, FLUENTD: "true"}), labelled(POOH), True),
    "TestNodesSimilarVariousLabels: ignored": (
        labelled({**POOH, "example.com/ready": "true"}),
        labelled({**POOH, "example.com/ready": "false"}),
        True,
    ),
}


@pytest.mark.parametrize("name", SIMILAR)
def test_similar(name: str) -> None:
    one, other, wanted = SIMILAR[name]
    alike = build_similarity_check(AutoscalerOptions(balancing_ignore_labels=("example.com/ready",)))
    assert alike(one.template, other.template) is wanted
    assert alike(other.template, one.template) is wanted


def build_pod(name: str, cpu: int, owner: str = "", kind: str = "ReplicationController", **more: Any) -> Pod:
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    return convert_builtins(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": more.pop("labels", {}),
                "ownerReferences": [reference] if owner else [],
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}], **more},
        },
        Pod,
    )


def grouped(pods: list[Pod]) -> list[list[str]]:
    """Group the pods as in a cluster with these pods."""
    held = list(PodTable.from_pods(pods))
    return [[member.metadata.name for member in group.pods] for group in group_equivalent_pods(held)]


def test_group_pods_by_scheduling_properties() -> None:
    """Upstream: TestGroupSchedulablePodsForNode, except for flexVolumes of different names in the pods of a controller,
    because volumes that scheduling does not read are not kept here."""
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "path"}}]}}
    pods = [
        build_pod("p1", 1500),
        *(build_pod(f"p2_{at}", 3000, "rc1") for at in (1, 2)),
        *(build_pod(f"p3_{at}", 100, "rc2") for at in (1, 2)),
        *(build_pod(f"p4_{at}", 100, "rc3", volumes=[{"name": f"kube-api-access-{at}", **token}]) for at in (1, 2)),
    ]
    assert grouped(pods) == [["p1"], ["p2_1", "p2_2"], ["p3_1", "p3_2"], ["p4_1", "p4_2"]]


def test_equivalence_group_size_limiting() -> None:
    """Upstream: TestEquivalenceGroupSizeLimiting."""
    pods = [
        build_pod(f"p{at}", 3000, "rc", labels={"uniqueLabel": f"l{at}"}) for at in range(MAX_GROUPS_PER_CONTROLLER + 1)
    ]
    assert sorted(grouped(pods)) == sorted([f"p{at}"] for at in range(MAX_GROUPS_PER_CONTROLLER + 1))


def test_equivalence_group_ignores_daemon_sets() -> None:
    """Upstream: TestEquivalenceGroupIgnoresDaemonSets."""
    assert grouped([build_pod(name, 3000, "ds", "DaemonSet") for name in ("p1", "p2")]) == [["p1"], ["p2"]]
