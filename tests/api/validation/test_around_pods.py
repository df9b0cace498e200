"""Check the API server's messages about PDBs, classes, claims and autoscalers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kschedctl.api.validation.around_pods import KINDS, validate_object

SPEC: dict[str, dict[str, Any]] = {
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
    "PriorityClass": {"value": 1000},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "StorageClass": {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}},
}
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def list_validation_errors(kind: str, document: dict[str, Any]) -> list[str]:
    """Return the errors of an object."""
    written = {"metadata": {"name": "a"}, **document}
    return [str(error) for error in validate_object(kind, msgspec.convert(written, KINDS[kind]))]


@pytest.mark.parametrize("kind", SPEC)
def test_valid_objects_have_no_errors(kind: str) -> None:
    assert list_validation_errors(kind, SPEC[kind]) == []


@pytest.mark.parametrize("kind", SPEC)
def test_names_are_validated(kind: str) -> None:
    assert list_validation_errors(kind, {**SPEC[kind], "metadata": {}}) == [
        "metadata.name: Required value: name or generateName is required"
    ]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minAvailable": "2"}, [f'spec.minAvailable: Invalid value: "2": {PERCENT}']),
        ({"maxUnavailable": -1}, ["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"]),
        ({"minAvailable": "150%"}, ['spec.minAvailable: Invalid value: "150%": must not be greater than 100%']),
        (
            {"minAvailable": 1, "maxUnavailable": "50%"},
            [
                'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"50%",'
                '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
            ],
        ),
        (
            {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "Always"},
            [
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Always": supported values: '
                '"AlwaysAllow", "IfHealthyBudget"'
            ],
        ),
        (
            {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is "
                "'In' or 'NotIn'"
            ],
        ),
    ],
)
def test_budgets(spec: dict[str, Any], words: list[str]) -> None:
    assert list_validation_errors("PodDisruptionBudget", {"spec": spec}) == words


@pytest.mark.parametrize(
    ("kind", "document", "words"),
    [
        (
            "PriorityClass",
            {"value": 1, "preemptionPolicy": "never"},
            'preemptionPolicy: Unsupported value: "never": supported values: "PreemptLowerPriority", "Never"',
        ),
        (
            "PriorityClass",
            {"value": 2_000_000_000},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        ("StorageClass", {}, "provisioner: Required value"),
        (
            "StorageClass",
            {"provisioner": "a", "volumeBindingMode": "Late"},
            'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"',
        ),
        (
            "StorageClass",
            {"provisioner": "a", "reclaimPolicy": "Recycle"},
            'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        ),
        (
            "StorageClass",
            {"provisioner": "a", "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone"}]}]},
            "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["ReadWriteOnce"]}},
            "spec.resources[storage]: Required value",
        ),
        (
            "HorizontalPodAutoscaler",
            {"spec": {**SPEC["HorizontalPodAutoscaler"]["spec"], "minReplicas": 5}},
            "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
        ),
        (
            "HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 3, "scaleTargetRef": {"name": "web"}}},
            "spec.scaleTargetRef.kind: Required value",
        ),
        (
            "HorizontalPodAutoscaler",
            {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}},
            "spec.maxReplicas: Required value: must be set and greater than 0",
        ),
    ],
)
def test_other_kinds(kind: str, document: dict[str, Any], words: str) -> None:
    assert list_validation_errors(kind, document) == [words]
