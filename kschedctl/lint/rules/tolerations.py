"""Tolerations that are broader than they should be, or invalid: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.tolerations import HARD_EFFECTS, tolerates
from kschedctl.api.validation.tolerations import toleration_seconds
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
_SPLIT = (
    "Set effect: NoExecute and tolerationSeconds, which is allowed with no other effect; tolerate NoSchedule in another"
)
_SYSTEM_CLASSES = {found.metadata.name for found in SYSTEM_CLASSES}
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoExecute")


def tolerate_all(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        if workload.kind == "DaemonSet" or _of_system(workload):
            continue
        wide = [i for i, toleration in enumerate(workload.spec.tolerations) if _everything(toleration)]
        if wide:
            effect = workload.spec.tolerations[wide[0]].effect if len(wide) == 1 else ""
            message = f"tolerates every {effect} taint: it also goes to nodes that are broken or not its own"
            yield workload.problem(("tolerations", wide[0]), " ".join(message.split()))


def _of_system(workload: Workload) -> bool:
    """Whether it may have to run before nodes are ready, or when they are not any more."""
    spec = workload.spec
    return "system" in workload.namespace or spec.host_network or spec.priority_class_name in _SYSTEM_CLASSES


def _everything(toleration: Toleration) -> bool:
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in ("", *HARD_EFFECTS)


def no_execute_forever(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        if workload.kind in ("DaemonSet", "Pod"):
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            said = _everything(toleration) and not _of_system(workload)
            if (
                toleration.toleration_seconds is None
                and not said
                and any(tolerates(toleration, t) for t in (NOT_READY, UNREACHABLE))
            ):
                message = "its pods stay on a dead node for ever and are not replaced"
                yield workload.problem(("tolerations", i), message, "" if toleration.effect else _SPLIT)


def empty_value(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for i, toleration in enumerate(workload.spec.tolerations):
            named = toleration.key and "node-role.kubernetes.io/" not in toleration.key
            equal = toleration.operator in (None, "", "Equal") and not toleration.value
            if named and equal and not toleration.key.startswith("node."):
                message = f"tolerates {toleration.key} where the taint has no value, and with no other"
                yield workload.problem(("tolerations", i), message)


def seconds_on_no_schedule(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for i, toleration in enumerate(workload.spec.tolerations):
            yield from workload.refused(toleration_seconds(toleration, workload.at_field("tolerations", i)))


RULES = (
    Rule(
        "tt-tolerate-all",
        WARNING,
        tolerate_all,
        summary="A toleration without key tolerates everything",
        why="The pods go to nodes that are not ready, under pressure, dedicated to others or control planes.",
        fix="Name the taint: key, operator and effect",
        source=doc.TAINTS,
    ),
    Rule(
        "tt-noexecute-forever",
        WARNING,
        no_execute_forever,
        summary="NoExecute toleration without tolerationSeconds",
        why="Pods that tolerate not-ready or unreachable without limit stay bound to a dead node and are not replaced.",
        fix="Set tolerationSeconds, 300 is what pods get by default",
        source=f"{doc.TAINTS}#taint-based-evictions",
    ),
    Rule(
        "tt-empty-value",
        NOTE,
        empty_value,
        summary="A toleration without a value, and without operator: Exists",
        why="The operator is Equal by default: such a toleration matches taints with the empty value alone.",
        fix="Set operator: Exists, or the value of the taint",
        source=doc.TAINTS,
    ),
    Rule(
        "tt-seconds-on-noschedule",
        ERROR,
        seconds_on_no_schedule,
        summary="tolerationSeconds without effect NoExecute",
        why="The API server refuses the pods: only evictions can be delayed.",
        fix="Remove tolerationSeconds, or set effect: NoExecute",
        source=f"{doc.TAINTS}; {doc.VALIDATION}",
    ),
)
