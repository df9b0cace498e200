"""Check the API server's messages about objects with a pod template."""

from __future__ import annotations

import pytest
from written_manifests import SELECTOR, Json, build_workload, list_errors

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job", "CronJob")
SELECTED = tuple(kind for kind in KINDS if kind not in ("ReplicationController", "Job", "CronJob"))
NOT_MATCHING = "`selector` does not match template `labels`"


@pytest.mark.parametrize("kind", KINDS)
def test_valid_workload_has_no_errors(kind: str) -> None:
    assert list_errors(build_workload(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_templates_are_validated_like_pods(kind: str) -> None:
    at = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    said = ': Unsupported value: "Equals": supported values: "Equal", "Exists"'
    bad = build_workload(kind, {"tolerations": [{"key": "a", "operator": "Equals"}]})
    assert list_errors(bad) == [f"{at}.spec.tolerations[0].operator{said}"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_replicas_must_not_be_negative(kind: str) -> None:
    said = ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    assert list_errors(build_workload(kind, replicas=-1)) == said


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_selector_is_required(kind: str) -> None:
    labels = f'spec.template.metadata.labels: Invalid value: {{"app":"web"}}: {NOT_MATCHING}'
    assert list_errors(build_workload(kind, selector=None)) == ["spec.selector: Required value", labels]


@pytest.mark.parametrize("kind", SELECTED)
def test_selector_must_match_the_template_labels(kind: str) -> None:
    said = f'spec.template.metadata.labels: Invalid value: {{"app":"web"}}: {NOT_MATCHING}'
    assert list_errors(build_workload(kind, selector={"matchLabels": {"app": "db"}})) == [said]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("Deployment", "deployment"),
        ("ReplicaSet", "deployment"),
        ("StatefulSet", "statefulset"),
        ("DaemonSet", "daemonset"),
    ],
)
def test_selector_must_not_be_empty(kind: str, word: str) -> None:
    said = f"spec.selector: Invalid value: {{}}: empty selector is invalid for {word}"
    assert list_errors(build_workload(kind, selector={})) == [said]


def test_replication_controller_selector_defaults_to_labels() -> None:
    assert list_errors(build_workload("ReplicationController", selector={})) == []
    said = f'spec.template.metadata.labels: Invalid value: {{"app":"web"}}: {NOT_MATCHING}'
    assert list_errors(build_workload("ReplicationController", selector={"app": "db"})) == [said]


@pytest.mark.parametrize("kind", [*SELECTED, "ReplicationController"])
def test_restart_policy_of_replicated_pods_is_always(kind: str) -> None:
    said = 'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    assert list_errors(build_workload(kind, {"restartPolicy": "Never"})) == [said]


@pytest.mark.parametrize("policy", ["", "Always"])
def test_restart_policy_of_job_pods_is_not_always(policy: str) -> None:
    said = 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    assert list_errors(build_workload("Job", {"restartPolicy": policy})) == [said]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parallelism": -1}, ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        ({"completions": -1}, ["spec.completions: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"completionMode": "Index"},
            ['spec.completionMode: Unsupported value: "Index": supported values: "NonIndexed", "Indexed"'],
        ),
        ({"completionMode": "Indexed"}, ["spec.completions: Required value: when completion mode is Indexed"]),
        ({"manualSelector": True}, ["spec.selector: Required value", "spec.template.metadata.labels: "]),
    ],
    ids=["parallelism", "completions", "mode", "indexed", "selector"],
)
def test_jobs(spec: Json, said: list[str]) -> None:
    found = list_errors(build_workload("Job", **spec))
    assert [each[: len(start)] for each, start in zip(found, said, strict=True)] == said


def test_cron_jobs() -> None:
    found = build_workload("CronJob", selector=SELECTOR)
    del found["spec"]["schedule"]
    found["metadata"]["name"] = "n" * 53
    assert list_errors(found) == [
        "spec.schedule: Required value",
        'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"app":"web"}}: '
        "`selector` will be auto-generated",
        f'metadata.name: Invalid value: "{"n" * 53}": must be no more than 52 characters',
    ]


def test_stateful_sets_mount_their_claim_templates() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {}}
    mounting = {"containers": [{"name": "c", "image": "w", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
    assert list_errors(
        build_workload("StatefulSet", mounting, volumeClaimTemplates=[claim], podManagementPolicy="Serial")
    ) == [
        "spec.podManagementPolicy: Invalid value: \"Serial\": must be 'OrderedReady' or 'Parallel'",
        "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
    ]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({}, []),
        ({"type": "Recreate"}, []),
        (
            {"type": "Recreate", "rollingUpdate": {}},
            [".rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            {"type": "Rolling"},
            [
                ': Unsupported value: {"Type":"Rolling","RollingUpdate":null}: supported values: "Recreate", '
                '"RollingUpdate"'
            ],
        ),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            ['.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'],
        ),
        ({"rollingUpdate": {"maxSurge": "9999999999999999999%", "maxUnavailable": 0}}, []),
        ({"rollingUpdate": {"maxSurge": f"{10**100 - 1}%".zfill(5000), "maxUnavailable": 0}}, []),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "-5"}},  # counts as -5, which is not 0
            [
                '.rollingUpdate.maxUnavailable: Invalid value: "-5": a valid percent string must be a numeric string '
                "followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "9999999999999999999%"}},
            ['.rollingUpdate.maxUnavailable: Invalid value: "9999999999999999999%": must not be greater than 100%'],
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "101%"}},
            ['.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
        ),
        (
            {"rollingUpdate": {"maxSurge": "some"}},
            [
                '.rollingUpdate.maxSurge: Invalid value: "some": a valid percent string must be a numeric string '
                "followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        ),
    ],
    ids=[
        "default",
        "recreate",
        "both",
        "type",
        "stuck",
        "huge surge",
        "long surge",
        "negative",
        "huge",
        "too many",
        "no percentage",
    ],
)
def test_strategies(strategy: Json, said: list[str]) -> None:
    assert list_errors(build_workload("Deployment", strategy=strategy)) == [f"spec.strategy{each}" for each in said]


def test_templates_need_no_defaults_of_the_pod() -> None:
    """Host ports and requests are filled in when the pod is created, which is also when white space is checked."""
    port = {"containerPort": 80}
    container = {"name": "c", "image": " w", "ports": [port], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert list_errors(build_workload("Deployment", {"hostNetwork": True, "containers": [container]})) == []
