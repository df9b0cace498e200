"""A pod, or the cluster around it, as a few words suppose it: ``priority=1000 cpu=500m node=general-a1``."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Toleration
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import is_counted
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, with_other_priority
from kschedctl.replay.edits import find_nodes
from kschedctl.scheduler.scheduler import Scheduler

WHERE = "as if"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SUPPOSABLE = "priority=NUMBER class=NAME cpu=500m memory=1Gi tolerate=KEY[=VALUE][:EFFECT] node=LIKE"
"""What may be said, in any order; amounts are the first container's request."""


def supposed(asked: TargetPod, words: str) -> TargetPod:
    """The pod, and the cluster around it, as the words have them: see SUPPOSABLE. Raises UsageError, InputError."""
    said = [_pair(word) for word in words.split()]
    for name, value in said:
        if name == "node":
            asked = _with_node(asked, value)
    for name, value in said:
        if name != "node":
            asked = asked._replace(pod=_changed(asked, name, value))
    return asked


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise UsageError(f'"{word}" is not NAME=VALUE', where=WHERE, hint=SUPPOSABLE)
    return name, value


def _changed(asked: TargetPod, name: str, value: str) -> Pod:
    match name:
        case "priority":
            return with_other_priority(asked, as_if_priority=_number(value))
        case "class":
            return with_other_priority(asked, as_if_priority_class=value)
        case "tolerate":
            return _tolerating(asked.pod, toleration(value))
    return _asking(asked.pod, name, value)


def _number(text: str) -> int:
    """Priorities are int32. Raises UsageError."""
    try:
        number = int(text[:20])
    except ValueError:
        raise UsageError(f'priority "{text}" is not a number', where=WHERE) from None
    if abs(number) >= 1 << 31:
        raise UsageError(f"priority {number} is out of the range of int32", where=WHERE)
    return number


def toleration(text: str) -> Toleration:
    """A toleration written like a taint of ``kubectl taint``; without a value any is tolerated, without an effect all.

    Raises UsageError.

    >>> toleration("gpu=a100:NoSchedule")
    Toleration(key='gpu', operator='Equal', value='a100', effect='NoSchedule', toleration_seconds=None)
    """
    pair, _, effect = text.partition(":")
    if effect not in ("", *EFFECTS):
        raise UsageError(f'"{effect}" is not a taint effect', where=WHERE, hint=", ".join(EFFECTS))
    key, equals, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _tolerating(pod: Pod, more: Toleration) -> Pod:
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, more)))


def _asking(pod: Pod, resource: str, amount: str) -> Pod:
    """The first container asks for so much, and for no less than it may use at most."""
    if not is_counted(resource):
        raise UsageError(f'"{resource}" is not a resource that scheduling knows', where=WHERE, hint=SUPPOSABLE)
    try:
        negative = parse(amount).mantissa < 0
    except ValueError as error:
        raise InputError(f"{resource}: {error}", where=WHERE) from None
    if negative:
        raise UsageError(f"{resource}: {amount} is negative", where=WHERE)
    if not pod.spec.containers:
        raise UsageError("the pod has no container", where=WHERE)
    first, *others = pod.spec.containers
    limits = {name: most for name, most in first.resources.limits.items() if name != resource}
    resources = replace(first.resources, requests={**first.resources.requests, resource: amount}, limits=limits)
    return replace(pod, spec=replace(pod.spec, containers=(replace(first, resources=resources), *others)))


def _with_node(asked: TargetPod, like: str) -> TargetPod:
    """One more node of that shape, as the remedy that adds one makes it; the last one in the order of nodes."""
    from kschedctl.fixes.trial.changes import edited, reader  # noqa: PLC0415 - little else needs remedies
    from kschedctl.fixes.trial.trials import changed_cluster, changed_view  # noqa: PLC0415
    from kschedctl.fixes.ways.new_nodes import more_like  # noqa: PLC0415

    scheduler, view = asked.scheduler, asked.scheduler.view
    (name,) = find_nodes(scheduler.cluster, (like,))
    fix = more_like(view, view.nodes.objects[view.nodes.index[name]])
    edits = edited([fix], reader(scheduler.cluster))
    supposed = Scheduler(changed_cluster(scheduler.cluster, edits, whole=True), scheduler.call_extender)
    supposed.view = changed_view(view, edits)  # quicker by seconds than columns of all nodes and pods anew
    return asked._replace(scheduler=supposed)
