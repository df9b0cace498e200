"""Check priorities and PriorityClasses: upstream's rules of admission, its messages, and the cases of its own tests."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.api.objects import ObjectMeta, Pod, PodMeta, PodSpec, PriorityClass
from kschedctl.api.priority import admit_priority, resolve_priority, validate_priority_class
from kschedctl.errors import InputError

DEFAULT = PriorityClass(ObjectMeta("default1"), 1000, global_default=True)
DEFAULT_2 = PriorityClass(ObjectMeta("default2"), 2000, global_default=True)
ORDINARY = PriorityClass(ObjectMeta("nondefault1"), 2000)
NEVER = PriorityClass(ObjectMeta("patient"), 3000, preemption_policy="Never")
PREEMPTING = PriorityClass(ObjectMeta("pushy"), 3000, preemption_policy="PreemptLowerPriority")


def build_pod(name: str = "", **spec: Any) -> Pod:
    return Pod(metadata=PodMeta("web", "shop"), spec=PodSpec(priority_class_name=name, **spec))


@pytest.mark.parametrize(
    ("given", "classes", "name", "priority", "policy"),
    [
        (build_pod("default1"), [DEFAULT, ORDINARY], "default1", 1000, "PreemptLowerPriority"),
        (build_pod("nondefault1"), [DEFAULT, ORDINARY], "nondefault1", 2000, "PreemptLowerPriority"),
        (build_pod(), [DEFAULT, ORDINARY], "default1", 1000, "PreemptLowerPriority"),
        (build_pod(), [DEFAULT_2, DEFAULT], "default1", 1000, "PreemptLowerPriority"),
        (build_pod(), [], "", 0, "PreemptLowerPriority"),
        (build_pod(), [ORDINARY], "", 0, "PreemptLowerPriority"),
        (build_pod("system-cluster-critical"), [], "system-cluster-critical", 2_000_000_000, "PreemptLowerPriority"),
        (build_pod("system-node-critical"), [], "system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        (build_pod(priority=0), [ORDINARY], "", 0, "PreemptLowerPriority"),
        (build_pod(priority=1000), [DEFAULT], "default1", 1000, "PreemptLowerPriority"),
        (build_pod("patient", priority=3000), [NEVER], "patient", 3000, "Never"),
        (
            build_pod("pushy", preemption_policy="PreemptLowerPriority"),
            [PREEMPTING],
            "pushy",
            3000,
            "PreemptLowerPriority",
        ),
    ],
)
def test_admitted(given: Pod, classes: list[PriorityClass], name: str, priority: int, policy: str) -> None:
    spec = admit_priority(given, classes).spec
    assert (spec.priority_class_name, spec.priority, spec.preemption_policy) == (name, priority, policy)


NOT_THE_PRIORITY = (
    "the integer value of priority ({}) must not be provided in pod spec; "
    "priority admission controller computed {} from the given PriorityClass name"
)
NOT_THE_POLICY = (
    "the string value of PreemptionPolicy ({}) must not be provided in pod spec; "
    "priority admission controller computed {} from the given PriorityClass name"
)


@pytest.mark.parametrize(
    ("given", "classes", "message"),
    [
        (build_pod("missing"), [DEFAULT, ORDINARY], "no PriorityClass with name missing was found"),
        (build_pod("default1", priority=1000), [], "no PriorityClass with name default1 was found"),
        (build_pod("default1", priority=999), [DEFAULT], NOT_THE_PRIORITY.format(999, 1000)),
        (build_pod(priority=7), [], NOT_THE_PRIORITY.format(7, 0)),
        (build_pod(priority=0), [DEFAULT], NOT_THE_PRIORITY.format(0, 1000)),
        (
            build_pod("pushy", preemption_policy="Never"),
            [PREEMPTING],
            NOT_THE_POLICY.format("Never", "PreemptLowerPriority"),
        ),
        (
            build_pod("default1", preemption_policy="Never"),
            [DEFAULT],
            NOT_THE_POLICY.format("Never", "PreemptLowerPriority"),
        ),
        (build_pod(preemption_policy="Never"), [], NOT_THE_POLICY.format("Never", "PreemptLowerPriority")),
    ],
)
def test_denied(given: Pod, classes: list[PriorityClass], message: str) -> None:
    with pytest.raises(InputError) as error:
        admit_priority(given, classes)
    assert str(error.value) == f"Pod shop/web: {message}"


def test_pods_of_a_cluster_are_not_denied() -> None:
    assert resolve_priority(build_pod("missing"), [DEFAULT]).spec.priority is None
    assert resolve_priority(build_pod("default1", priority=7), [DEFAULT]).spec.priority == 7
    assert resolve_priority(build_pod(), [DEFAULT_2, DEFAULT]).spec.priority == 1000


RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
)


@pytest.mark.parametrize(
    ("name", "value", "more", "errors"),
    [
        ("urgent", 1_000_000_000, {}, []),
        ("lowest", -(2**31), {}, []),
        ("patient", 0, {"preemption_policy": "Never"}, []),
        ("system-cluster-critical", 2_000_000_000, {}, []),
        ("system-node-critical", 2_000_001_000, {}, []),
        (
            "urgent",
            1_000_000_001,
            {},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        ("too-low", -(2**31) - 1, {}, ["value: Invalid value: -2147483649: must be at least -2147483648"]),
        ("system-mine", 5, {}, [RESERVED + "system-mine is not a known system priority class"]),
        (
            "system-cluster-critical",
            5,
            {},
            [RESERVED + "value of system-cluster-critical PriorityClass must be 2000000000"],
        ),
        (
            "system-node-critical",
            2_000_001_000,
            {"global_default": True},
            [RESERVED + "globalDefault of system-node-critical PriorityClass must be false"],
        ),
        ("empty-policy", 5, {"preemption_policy": ""}, ["preemptionPolicy: Required value"]),
        (
            "odd-policy",
            5,
            {"preemption_policy": "Sometimes"},
            ['preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"'],
        ),
    ],
)
def test_class_errors(name: str, value: int, more: dict[str, Any], errors: list[str]) -> None:
    assert list(map(str, validate_priority_class(PriorityClass(ObjectMeta(name), value, **more)))) == errors
