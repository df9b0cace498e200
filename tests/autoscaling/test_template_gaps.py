"""Check what the template of an empty node group lacks (label, resource or zone), each replayed."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.reports.cluster_autoscaler import TemplateGap

NOW = "2026-03-04T12:00:00Z"
TAG = "tag k8s.io/cluster-autoscaler/node-template/"
Json = dict[str, Any]


def build_required_affinity(**expression: Any) -> Json:
    terms = [{"matchExpressions": [expression]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "p"}},
}


def find_gaps(requests: Json, spec: Json, group: str = "empty", **template_spec: Any) -> tuple[TemplateGap, ...]:
    """Return the gaps of a group with machines of 16 CPUs, beside a group of one node with 4 CPUs in zone a."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a"}},
        "spec": {"providerID": "aws:///a/i-1"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:00Z"}],
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "labels": {"app": "p"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "8", **requests}}}], **spec},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }
    template = {
        "metadata": {"labels": {"kubernetes.io/os": "linux"}},
        "spec": template_spec,
        "status": {"allocatable": {"cpu": "16", "memory": "60Gi", "pods": "58", "nvidia.com/gpu": "0"}},
    }
    groups = [
        {"id": "full", "min": 1, "max": 1, "target": 1, "nodes": ["n1"]},
        {"id": group, "min": 0, "max": 3, "target": 0, "template": template},
    ]
    cluster = kschedctl.Cluster.from_objects([node, pod], assume_complete=True)
    return kschedctl.scale_up(cluster, groups, now=NOW).template_gaps


@pytest.mark.parametrize(
    ("requests", "spec", "lacks", "settings"),
    [
        ({}, {"nodeSelector": {"team": "ml"}}, ["label team=ml"], [f"{TAG}label/team=ml"]),
        (
            {},
            build_required_affinity(key="team", operator="In", values=["ml", "ai"]),
            ["label team=ml"],
            [f"{TAG}label/team=ml"],
        ),
        ({}, build_required_affinity(key="team", operator="Exists"), ["label team=true"], [f"{TAG}label/team=true"]),
        ({"nvidia.com/gpu": "2"}, {}, ["resource nvidia.com/gpu"], [f"{TAG}resources/nvidia.com/gpu=2"]),
        ({"ephemeral-storage": "1Ki"}, {}, ["resource ephemeral-storage"], [f"{TAG}resources/ephemeral-storage=1024"]),
        (
            {},
            {"topologySpreadConstraints": [SPREAD]},
            ["label topology.kubernetes.io/zone=a"],
            [f"{TAG}label/topology.kubernetes.io/zone=a"],
        ),
    ],
)
def test_gap_has_its_tag(requests: Json, spec: Json, lacks: list[str], settings: list[str]) -> None:
    (gap,) = find_gaps(requests, spec)
    assert (gap.group, gap.pods, gap.provider) == ("empty", ("d/p",), "AWS")
    assert (list(gap.lacks), list(gap.settings)) == (lacks, settings)


def test_cluster_api_gaps_have_annotations() -> None:
    (gap,) = find_gaps({"nvidia.com/gpu": "2"}, {"nodeSelector": {"a": "b"}}, "MachineDeployment/x/gpu")
    prefix = "annotation capacity.cluster-autoscaler.kubernetes.io/"
    assert gap.settings == (
        f"{prefix}labels=a=b",
        f"{prefix}gpu-type=nvidia.com/gpu",
        f"{prefix}gpu-count=2",
    )


@pytest.mark.parametrize(
    ("requests", "spec", "template_spec"),
    [
        ({"cpu": "80", "nvidia.com/gpu": "2"}, {}, {}),  # the machine is too small, too
        ({}, {"nodeSelector": {"kubernetes.io/os": "windows"}}, {}),  # a group of another kind
        ({}, {"nodeSelector": {"a": "b"}}, {"taints": [{"key": "x", "value": "y", "effect": "NoSchedule"}]}),
    ],
)
def test_gaps_that_no_tag_closes_are_not_reported(requests: Json, spec: Json, template_spec: Json) -> None:
    assert find_gaps(requests, spec, **template_spec) == ()
