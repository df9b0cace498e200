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


def build_shape(
    cpu: str = "1000m", memory: str = "2000", offers: Json | None = None, requested: Json | None = None, **more: str
) -> Shape:
    return Shape({"cpu": cpu, "memory": memory, "pods": "100", **more}, offers or {}, {}, requested or {})


def build_labelled_shape(labels: Json) -> Shape:
    return build_shape()._replace(labels=labels)


def build_shape_with_memory(amount: str) -> Shape:
    return build_shape(memory=amount)


GPU = "nvidia.com/gpu"
POD, LIKE, HALF = {"cpu": 500, "memory": 1000}, {"cpu": 501, "memory": 1001}, {"cpu": "500m", "memory": "1000"}
SIMILAR = {
    "TestIdenticalNodesSimilar": (build_shape(), build_shape(), True),
    "TestNodesSimilarVariousRequirements: cpu": (build_shape(), build_shape("1001m"), False),
    "TestNodesSimilarVariousRequirements: slightly other allocatable": (
        build_shape(),
        build_shape(offers={"cpu": "999m"}),
        True,
    ),
    "TestNodesSimilarVariousRequirements: much less allocatable": (
        build_shape(),
        build_shape(offers={"cpu": "500m"}),
        False,
    ),
    "TestNodesSimilarVariousRequirements: a GPU": (build_shape(), build_shape(**{GPU: "1"}), False),
    "TestNodesSimilarVariousRequirementsAndPods: same free": (
        build_shape(requested=POD),
        build_shape(offers=HALF),
        False,
    ),
    "TestNodesSimilarVariousRequirementsAndPods: same pods": (
        build_shape(requested=POD),
        build_shape(requested=POD),
        True,
    ),
    "TestNodesSimilarVariousRequirementsAndPods: similar": (
        build_shape(requested=POD),
        build_shape(offers={"cpu": "999m"}, requested=LIKE),
        True,
    ),
    "TestNodesSimilarVariousMemoryRequirements: within": (
        build_shape_with_memory("1000"),
        build_shape_with_memory("986"),
        True,
    ),
    "TestNodesSimilarVariousMemoryRequirements: beyond": (
        build_shape_with_memory("1000"),
        build_shape_with_memory("984"),
        False,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM5XLarge: within": (
        build_shape_with_memory("16116152Ki"),
        build_shape_with_memory("15944120Ki"),
        True,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM5XLarge: beyond": (
        build_shape_with_memory("16116152Ki"),
        build_shape_with_memory("16438475Ki"),
        False,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM516XLarge: within": (
        build_shape_with_memory("259970052Ki"),
        build_shape_with_memory("257217528Ki"),
        True,
    ),
    "TestNodesSimilarVariousLargeMemoryRequirementsM516XLarge: beyond": (
        build_shape_with_memory("259970052Ki"),
        build_shape_with_memory("265169453Ki"),
        False,
    ),
    "TestNodesSimilarVariousLabels: one lacks one": (
        build_labelled_shape(POOH),
        build_labelled_shape({"test-label": "test-value"}),
        False,
    ),
    "TestNodesSimilarVariousLabels: the same": (build_labelled_shape(POOH), build_labelled_shape(POOH), True),
    "TestNodesSimilarVariousLabels: host names": (
        build_labelled_shape({**POOH, HOSTNAME: "node1"}),
        build_labelled_shape({**POOH, HOSTNAME: "node2"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: zones": (
        build_labelled_shape({**POOH, ZONE: "mars-olympus-mons1-b"}),
        build_labelled_shape({**POOH, ZONE: "us-houston1-a"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: fluentd": (
        build_labelled_shape({**POOH, FLUENTD: "true"}),
        build_labelled_shape({**POOH, FLUENTD: "false"}),
        True,
    ),
    "TestNodesSimilarVariousLabels: fluentd on one": (
        build_labelled_shape({**POOH, FLUENTD: "true"}),
        build_labelled_shape(POOH),
        True,
    ),
    "TestNodesSimilarVariousLabels: ignored": (
        build_labelled_shape({**POOH, "example.com/ready": "true"}),
        build_labelled_shape({**POOH, "example.com/ready": "false"}),
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


def group_pods(pods: list[Pod]) -> list[list[str]]:
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
    assert group_pods(pods) == [["p1"], ["p2_1", "p2_2"], ["p3_1", "p3_2"], ["p4_1", "p4_2"]]


def test_equivalence_group_size_limiting() -> None:
    """Upstream: TestEquivalenceGroupSizeLimiting."""
    pods = [
        build_pod(f"p{at}", 3000, "rc", labels={"uniqueLabel": f"l{at}"}) for at in range(MAX_GROUPS_PER_CONTROLLER + 1)
    ]
    assert sorted(group_pods(pods)) == sorted([f"p{at}"] for at in range(MAX_GROUPS_PER_CONTROLLER + 1))


def test_equivalence_group_ignores_daemon_sets() -> None:
    """Upstream: TestEquivalenceGroupIgnoresDaemonSets."""
    assert group_pods([build_pod(name, 3000, "ds", "DaemonSet") for name in ("p1", "p2")]) == [["p1"], ["p2"]]
