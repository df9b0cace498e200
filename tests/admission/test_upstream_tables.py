"""Check admission plugins against upstream's own tests, by their names (v1.36).

plugin/pkg/admission/{limitranger,priority,runtimeclass,podnodeselector,podtolerationrestriction}.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from upstream_objects import (
    CPU,
    DISK,
    MEMORY,
    NONE,
    Json,
    build_limits,
    build_pod,
    build_resources,
    is_admitted,
    request,
)

from kschedctl.admission import classes, limit_ranger, node_selector, tolerations
from kschedctl.admission.request import NotAdmittedError

CONTAINER, POD = "Container", "Pod"
FITS = {
    "ctr-min-cpu-request": (build_pod(1, build_resources({CPU: "100m"}, NONE)), CONTAINER, {"min": {CPU: "50m"}}),
    "ctr-min-memory-request-limit": (
        build_pod(1, build_resources({MEMORY: "60Mi"}, {MEMORY: "100Mi"})),
        CONTAINER,
        {"min": {MEMORY: "50Mi"}},
    ),
    "ctr-max-cpu-request-limit": (
        build_pod(1, build_resources({CPU: "500m"}, {CPU: "1"})),
        CONTAINER,
        {"max": {CPU: "2"}},
    ),
    "ctr-max-cpu-limit": (build_pod(1, build_resources(NONE, {CPU: "1"})), CONTAINER, {"max": {CPU: "2"}}),
    "ctr-max-cpu-ratio": (
        build_pod(1, build_resources({CPU: "500m"}, {CPU: "750m"})),
        CONTAINER,
        {"maxLimitRequestRatio": {CPU: "1.5"}},
    ),
    "pod-min-cpu-request": (build_pod(2, build_resources({CPU: "75m"}, NONE)), POD, {"min": {CPU: "100m"}}),
    "pod-init-min-memory-request": (
        build_pod(2, build_resources({MEMORY: "60Mi"}, NONE), build_resources({MEMORY: "100Mi"}, NONE)),
        POD,
        {"min": {MEMORY: "100Mi"}},
    ),
    "pod-max-cpu-limit": (build_pod(2, build_resources(NONE, {CPU: "1"})), POD, {"max": {CPU: "2"}}),
    "pod-init-max-cpu-limit": (
        build_pod(
            2, build_resources(NONE, {CPU: "1"}), build_resources(NONE, {CPU: "2"}), build_resources(NONE, {CPU: "2"})
        ),
        POD,
        {"max": {CPU: "2"}},
    ),
    "pod-max-mem-ratio": (
        build_pod(3, build_resources({MEMORY: "300Mi"}, {MEMORY: "450Mi"})),
        POD,
        {"max": {MEMORY: "2Gi"}, "maxLimitRequestRatio": {MEMORY: "1.5"}},
    ),
    "ctr-2-max-local-ephemeral-storage-limit": (
        build_pod(2, build_resources(NONE, {DISK: "500Mi"})),
        CONTAINER,
        {"max": {DISK: "600Mi"}},
    ),
    "pod-min-local-ephemeral-storage-request": (
        build_pod(2, build_resources({DISK: "60Mi"}, NONE)),
        POD,
        {"min": {DISK: "100Mi"}},
    ),
    "pod-level-resources-with-min-max": (
        build_pod(
            3,
            build_resources({CPU: "100m", MEMORY: "60Mi"}, {CPU: "200m", MEMORY: "100Mi"}),
            resources=build_resources({CPU: "200m", MEMORY: "180Mi"}, {CPU: "400m", MEMORY: "200Mi"}),
        ),
        POD,
        {"max": {CPU: "400m", MEMORY: "200Mi"}},
    ),
    "pod-level-requests-with-min": (
        build_pod(
            3,
            build_resources({CPU: "50m", MEMORY: "60Mi"}, NONE),
            resources=build_resources({CPU: "160m", MEMORY: "200Mi"}, NONE),
        ),
        POD,
        {"min": {CPU: "160m", MEMORY: "200Mi"}},
    ),
    "pod-level-limits-with-max": (
        build_pod(
            3,
            build_resources(NONE, {CPU: "50m", MEMORY: "60Mi"}),
            resources=build_resources(NONE, {CPU: "160m", MEMORY: "200Mi"}),
        ),
        POD,
        {"max": {CPU: "160m", MEMORY: "200Mi"}},
    ),
}
"""TestPodLimitFunc, successCases. The LimitRange is taken as it is written, without the defaults of the API."""
DOES_NOT = {
    "ctr-min-cpu-request": (build_pod(1, build_resources({CPU: "40m"}, NONE)), CONTAINER, {"min": {CPU: "50m"}}),
    "ctr-min-cpu-no-request-limit": (build_pod(1, build_resources(NONE, NONE)), CONTAINER, {"min": {CPU: "50m"}}),
    "ctr-max-cpu-request-limit": (
        build_pod(1, build_resources({CPU: "500m"}, {CPU: "2500m"})),
        CONTAINER,
        {"max": {CPU: "2"}},
    ),
    "ctr-max-cpu-limit": (build_pod(1, build_resources(NONE, {CPU: "2500m"})), CONTAINER, {"max": {CPU: "2"}}),
    "ctr-max-cpu-no-request-limit": (build_pod(1, build_resources(NONE, NONE)), CONTAINER, {"max": {CPU: "2"}}),
    "ctr-max-cpu-ratio": (
        build_pod(1, build_resources({CPU: "1250m"}, {CPU: "2500m"})),
        CONTAINER,
        {"maxLimitRequestRatio": {CPU: "1"}},
    ),
    "pod-min-memory-request-limit": (
        build_pod(1, build_resources({MEMORY: "60Mi"}, {MEMORY: "100Mi"})),
        POD,
        {"min": {MEMORY: "100Mi"}},
    ),
    "pod-max-cpu-request-limit": (build_pod(3, build_resources({CPU: "500m"}, {CPU: "1"})), POD, {"max": {CPU: "2"}}),
    "pod-max-mem-limit": (build_pod(3, build_resources(NONE, {MEMORY: "500Mi"})), POD, {"max": {MEMORY: "1Gi"}}),
    "pod-init-max-mem-limit": (
        build_pod(1, build_resources(NONE, {MEMORY: "500Mi"}), build_resources(NONE, {MEMORY: "1.5Gi"})),
        POD,
        {"max": {MEMORY: "1Gi"}},
    ),
    "pod-max-mem-ratio": (
        build_pod(3, build_resources({MEMORY: "250Mi"}, {MEMORY: "500Mi"})),
        POD,
        {"max": {MEMORY: "2Gi"}, "maxLimitRequestRatio": {MEMORY: "1.5"}},
    ),
    "ctr-1-max-local-ephemeral-storage-limit": (
        build_pod(1, build_resources(NONE, {DISK: "2Gi"})),
        CONTAINER,
        {"max": {DISK: "1Gi"}},
    ),
}
"""TestPodLimitFunc, errorCases."""


@pytest.mark.parametrize(
    ("obj", "kind", "item", "admitted"),
    [*((*case, True) for case in FITS.values()), *((*case, False) for case in DOES_NOT.values())],
    ids=[*FITS, *(f"{name}, refused" for name in DOES_NOT)],
)
def test_pod_limit_func(obj: Json, kind: str, item: Json, admitted: bool) -> None:
    asked = request(json.loads(json.dumps(obj)), build_limits(kind, **item))
    assert is_admitted(asked, limit_ranger.add_default_resources, limit_ranger.check_limit_range_bounds) == admitted


@pytest.mark.parametrize(
    ("given", "merged", "told"),
    [
        (
            build_resources(NONE, NONE),
            build_resources({CPU: "50m", MEMORY: "5Mi"}, {CPU: "75m", MEMORY: "10Mi"}),
            "cpu, memory request for container foo-0; cpu, memory limit for container foo-0",
        ),
        (
            build_resources({MEMORY: "512Mi"}, NONE),
            build_resources({CPU: "50m", MEMORY: "512Mi"}, {CPU: "75m", MEMORY: "10Mi"}),
            "cpu request for container foo-0; cpu, memory limit for container foo-0",
        ),
        (
            build_resources({CPU: "100m", MEMORY: "512Mi"}, {CPU: "200m", MEMORY: "1G"}),
            build_resources({CPU: "100m", MEMORY: "512Mi"}, {CPU: "200m", MEMORY: "1G"}),
            None,
        ),
    ],
    ids=["empty-resources", "limit-memory", "all resources enumerated"],
)
def test_merge_pod_resource_requirements(given: Json, merged: Json, told: str | None) -> None:
    """TestMergePodResourceRequirements."""
    defaults = {"default": {CPU: "75m", MEMORY: "10Mi"}, "defaultRequest": {CPU: "50m", MEMORY: "5Mi"}}
    asked = request(build_pod(1, given), build_limits(CONTAINER, **defaults))
    limit_ranger.add_default_resources(asked)
    assert asked.containers[0]["resources"] == merged
    assert asked.annotations.get(limit_ranger.ANNOTATION) == (f"LimitRanger plugin set: {told}" if told else None)


def build_priority_class(name: str, value: int, **fields: Any) -> Json:
    return {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


DEFAULT_1, DEFAULT_2 = (build_priority_class(f"default{i}", 1000 * i, globalDefault=True) for i in (1, 2))
OTHER = build_priority_class("nondefault1", 2000)
NEVER = build_priority_class("nopreemptionpolicy", 2000, preemptionPolicy="PreemptLowerPriority")
CRITICAL = 2_000_000_000


@pytest.mark.parametrize(
    ("priority_classes", "spec", "wanted"),
    [
        ([DEFAULT_1, OTHER], {"priorityClassName": "default1"}, 1000),
        ([DEFAULT_1], NONE, 1000),
        ([DEFAULT_1, DEFAULT_2], NONE, 1000),
        ([OTHER], NONE, 0),
        ([], {"priorityClassName": "system-cluster-critical"}, CRITICAL),
        ([DEFAULT_1, OTHER], {"priorityClassName": "non-existing"}, None),
        ([], {"priorityClassName": "default1", "priority": 1000}, None),
        ([OTHER], {"priority": 0}, 0),
        ([DEFAULT_2], {"priority": 2000}, 2000),
        ([], {"priorityClassName": "system-cluster-critical", "priority": CRITICAL}, CRITICAL),
        ([NEVER], {"priorityClassName": "nopreemptionpolicy"}, 2000),
        ([NEVER], {"priorityClassName": "nopreemptionpolicy", "preemptionPolicy": "PreemptLowerPriority"}, 2000),
        ([NEVER], {"priorityClassName": "nopreemptionpolicy", "preemptionPolicy": "Never"}, None),
    ],
    ids=[
        "Pod with priority class",
        "Pod without priority class",
        "multiple default classes resolves to the minimum value among them",
        "pod without priority class and no default class",
        "pod with a system priority class",
        "Pod with non-existing priority class",
        "pod with integer priority",
        "pod with priority that matches computed priority",
        "pod with priority that matches default priority",
        "pod with priority that matches resolved priority",
        "pod with nil preemtpion policy",
        "pod with preemtpion policy that matches resolved preemtpion policy",
        "pod with preemtpion policy that does't matches resolved preemtpion policy",
    ],
)
def test_priority(priority_classes: list[Json], spec: Json, wanted: int | None) -> None:
    """TestPodAdmission and TestDefaultPriority."""
    asked = request(build_pod(1, build_resources(NONE, NONE), **spec), *priority_classes)
    assert is_admitted(asked, classes.set_priority) == (wanted is not None)
    if wanted is not None:
        assert asked.spec["priority"] == wanted


BAR = {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}
BUZZ = {**BAR, "key": "fizz", "value": "buzz"}
FIXED = {CPU: "100m", MEMORY: "1"}


@pytest.mark.parametrize(
    ("fields", "spec", "wanted"),
    [
        ({"overhead": {"podFixed": FIXED}}, NONE, {"overhead": FIXED}),
        ({"overhead": {"podFixed": {CPU: "10", MEMORY: "10G"}}}, {"overhead": FIXED}, None),
        ({"overhead": {"podFixed": FIXED}}, {"overhead": FIXED}, {"overhead": FIXED}),
        (NONE, {"nodeSelector": {"foo": "bar"}}, {"nodeSelector": {"foo": "bar"}}),
        ({"scheduling": {"nodeSelector": {"foo": "conflict"}}}, {"nodeSelector": {"foo": "bar"}}, None),
        ({"scheduling": {"nodeSelector": {"foo": "bar"}}}, NONE, {"nodeSelector": {"foo": "bar"}}),
        (
            {"scheduling": {"nodeSelector": {"foo": "bar", "fizz": "buzz"}}},
            {"nodeSelector": {"foo": "bar"}},
            {"nodeSelector": {"foo": "bar", "fizz": "buzz"}},
        ),
        ({"scheduling": {"tolerations": [BAR, BUZZ]}}, {"tolerations": [BAR]}, {"tolerations": [BAR, BUZZ]}),
        (NONE, {"overhead": FIXED}, None),
    ],
    ids=[
        "overhead, no container requirements",
        "overhead, pod with differing overhead already set",
        "overhead, pod with same overhead already set",
        "scheduling, nil scheduling",
        "scheduling, conflict node selector",
        "scheduling, nil node selector",
        "scheduling, node selector with different key value",
        "scheduling, multiple tolerations",
        "No Overhead in RunntimeClass, Overhead set in pod",
    ],
)
def test_runtime_class(fields: Json, spec: Json, wanted: Json | None) -> None:
    """TestSetOverhead, TestSetScheduling and TestValidate."""
    found = {
        "kind": "RuntimeClass",
        "apiVersion": "node.k8s.io/v1",
        "metadata": {"name": "foo"},
        "handler": "bar",
        **fields,
    }
    asked = request(
        build_pod(1, build_resources(NONE, NONE), runtimeClassName="foo", **json.loads(json.dumps(spec))), found
    )
    assert is_admitted(asked, classes.apply_runtime_class, classes.check_overhead_matches_class) == (wanted is not None)
    assert wanted is None or {name: asked.spec[name] for name in wanted} == wanted


def build_namespace(**annotations: Any) -> Json:
    prefix = "scheduler.alpha.kubernetes.io/"
    texts = {
        f"{prefix}{name}": each if isinstance(each, str) else json.dumps(each) for name, each in annotations.items()
    }
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "test", "annotations": texts}}


@pytest.mark.parametrize(
    ("annotation", "own", "merged"),
    [
        (None, NONE, NONE),
        (" infra = false ", NONE, {"infra": "false"}),
        ("", NONE, NONE),
        ("infra=true", {"env": "test"}, {"infra": "true", "env": "test"}),
        ("infra=true", {"infra": "false"}, None),
        ("infra=false, env = test", {"env": "dev", "color": "blue"}, None),
    ],
    ids=[
        "No node selectors",
        "TestNamespace node selector with whitespaces and no conflicts",
        "Empty namespace node selector and no conflicts",
        "TestNamespace and pod node selector, no conflicts",
        "Conflicting pod and namespace node selector, one label",
        "Conflicting pod and namespace node selector, multiple labels",
    ],
)
def test_pod_node_selector(annotation: str | None, own: Json, merged: Json | None) -> None:
    """TestPodAdmission, its rows without a configuration of the cluster."""
    found = build_namespace() if annotation is None else build_namespace(**{"node-selector": annotation})
    asked = request(build_pod(1, build_resources(NONE, NONE), nodeSelector=dict(own)), found)
    assert is_admitted(asked, node_selector.add_node_selector, node_selector.check_node_selector) == (
        merged is not None
    )
    assert merged is None or (asked.spec.get("nodeSelector") or {}) == merged


ONE = {"key": "testKey", "operator": "Equal", "value": "testValue", "effect": "NoSchedule"}
TWO = {**ONE, "value": "testValue1"}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
BURSTABLE, GUARANTEED = build_resources({CPU: "500m"}, {CPU: "1"}), build_resources({CPU: "1"}, {CPU: "1"})


@pytest.mark.parametrize(
    ("resources", "added", "allowed", "own", "merged"),
    [
        (build_resources(NONE, NONE), [ONE], None, [ONE], [ONE]),
        (build_resources(NONE, NONE), [ONE], None, [], [ONE]),
        (build_resources(NONE, NONE), [ONE], None, [TWO], [ONE, TWO]),
        (build_resources(NONE, NONE), [ONE], [ONE], [], [ONE]),
        (build_resources(NONE, NONE), [ONE], [TWO], [], None),
        (BURSTABLE, [ONE], [], [], [PRESSURE, ONE]),
        (build_resources(NONE, NONE), [], [], [ONE, TWO], [ONE, TWO]),
        (GUARANTEED, [ONE], [], [], [PRESSURE, ONE]),
    ],
    ids=[
        "namespace tolerations",
        "no pod tolerations",
        "duplicate key pod and namespace tolerations",
        "merged pod tolerations satisfy whitelist",
        "merged pod tolerations conflict with the whitelist",
        "added memoryPressure/DiskPressure for Burstable pod",
        "Pod with duplicate key tolerations should not be modified",
        "added memoryPressure/DiskPressure for Guaranteed pod",
    ],
)
def test_pod_toleration_restriction(
    resources: Json, added: list[Json], allowed: list[Json] | None, own: list[Json], merged: list[Json] | None
) -> None:
    """TestPodAdmission, its rows without a configuration of the cluster. Tolerations may be in any order."""
    whitelist = {} if allowed is None else {"tolerationsWhitelist": allowed}
    found = build_namespace(defaultTolerations=added, **whitelist)
    asked = request(build_pod(1, resources, tolerations=list(own)), found)
    assert is_admitted(asked, tolerations.add_namespace_tolerations) == (merged is not None)
    if merged is not None:
        assert sorted(asked.spec["tolerations"], key=str) == sorted(merged, key=str)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("tru", "unexpected end of JSON input"),
        ("nil", "invalid character 'i' in literal null (expecting 'u')"),
        ("t'ue", r"invalid character '\'' in literal true (expecting 'r')"),
        ("nullx", "invalid character 'x' after top-level value"),
        ("false\n[]", "invalid character '[' after top-level value"),
        ("null\N{NO-BREAK SPACE}", "invalid character 'Â' after top-level value"),
        ("web", "invalid character 'w' looking for beginning of value"),
    ],
)
def test_invalid_json_of_a_toleration_annotation(annotation: str, message: str) -> None:
    """The messages are those of Go's encoding/json: `eof`, `error` and `quoteChar` in scanner.go."""
    asked = request(build_pod(1, {}), build_namespace(defaultTolerations=annotation))
    with pytest.raises(NotAdmittedError) as raised:
        tolerations.add_namespace_tolerations(asked)
    assert str(raised.value) == message
