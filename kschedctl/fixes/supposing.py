"""Hypothetical changes of a pod or its cluster, written in words such as `priority=1000 cpu=500m node=general-a1`."""

from __future__ import annotations

import re

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Toleration
from kschedctl.api.quantity import parse_quantity
from kschedctl.api.resource_names import CPU, is_counted, is_in_bytes
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, change_priority
from kschedctl.replay.edits import find_node_names
from kschedctl.scheduler.scheduler import Scheduler

WHERE = "as if"
"""The place that error messages name."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SUPPOSABLE = "priority=NUMBER class=NAME cpu=QUANTITY memory=QUANTITY tolerate=KEY[=VALUE][:EFFECT] node=NODE"
"""The accepted words, in any order. Amounts are the first container's requests."""


def apply_suppositions(target: TargetPod, words: str) -> TargetPod:
    """Return the target after applying the changes in `words`, such as `priority=1000`, to the pod and its cluster.

    `SUPPOSABLE` describes the words. Raises UsageError if a word is not understood, and InputError if a value is
    invalid.
    """
    pairs = [_parse_supposition(word) for word in words.split()]
    # Nodes come first, since they replace the cluster in which the pod is changed.
    for name, value in pairs:
        if name == "node":
            target = _add_node_like(target, value)
    for name, value in pairs:
        if name != "node":
            target = target._replace(pod=_change_pod_property(target, name, value))
    return target


def _parse_supposition(word: str) -> tuple[str, str]:
    """Split a word of the form NAME=VALUE into name and value. Raises UsageError if one of them is missing."""
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise UsageError(f'"{word}" must have the form NAME=VALUE', where=WHERE, hint=SUPPOSABLE)
    return name, value


def _change_pod_property(target: TargetPod, name: str, value: str) -> Pod:
    """Return the pod with the property of this name set: `priority`, `class`, `tolerate`, or a resource to request.

    Raises UsageError if the value does not suit the property, and InputError if an amount is malformed.
    """
    match name:
        case "priority":
            return change_priority(target, as_if_priority=_parse_priority(value))
        case "class":
            return change_priority(target, as_if_priority_class=value)
        case "tolerate":
            return _add_toleration(target.pod, parse_toleration(value))
    return _set_first_container_request(target.pod, name, value)


def _parse_priority(text: str) -> int:
    """Parse a priority. Raises UsageError if the text is not a 32-bit integer."""
    try:
        number = int(text[:20])  # longer texts are out of range anyway, and slow to parse
    except ValueError:
        raise UsageError(f'priority "{text}" is not a number', where=WHERE) from None
    if abs(number) >= 1 << 31:
        raise UsageError(f"priority {number} is out of range: it must be a 32-bit integer", where=WHERE)
    return number


def parse_toleration(text: str) -> Toleration:
    """Parse a toleration that is written like a taint for `kubectl taint`. Raises UsageError if the text is malformed.

    Without a value, any value is tolerated, and without an effect, all effects are tolerated.

    >>> parse_toleration("gpu=a100:NoSchedule")
    Toleration(key='gpu', operator='Equal', value='a100', effect='NoSchedule', toleration_seconds=None)
    """
    pair, _, effect = text.partition(":")
    if effect not in ("", *EFFECTS):
        raise UsageError(f'"{effect}" is not a taint effect', where=WHERE, hint=", ".join(EFFECTS))
    key, equals, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _add_toleration(pod: Pod, added: Toleration) -> Pod:
    """Return the pod with one more toleration."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, added)))


def _set_first_container_request(pod: Pod, resource: str, amount: str) -> Pod:
    """Return the pod with its first container requesting `amount` of `resource`, and without a limit on it.

    Raises UsageError if the scheduler does not count the resource, the amount is negative, or the pod has no container.
    Raises InputError if the amount is malformed.
    """
    if not is_counted(resource):
        raise UsageError(f'"{resource}" is not a resource that the scheduler counts', where=WHERE, hint=SUPPOSABLE)
    try:
        is_negative = parse_quantity(amount).mantissa < 0
    except ValueError:
        example = _suggest_quantity(resource, amount)
        raise InputError(f'{resource}: "{amount}" is not a quantity, write {example}', where=WHERE) from None
    if is_negative:
        raise UsageError(f"{resource}: {amount} is negative", where=WHERE)
    if not pod.spec.containers:
        raise UsageError("the pod has no containers", where=WHERE)
    first, *others = pod.spec.containers
    limits = {name: limit for name, limit in first.resources.limits.items() if name != resource}
    resources = replace(first.resources, requests={**first.resources.requests, resource: amount}, limits=limits)
    return replace(pod, spec=replace(pod.spec, containers=(replace(first, resources=resources), *others)))


def _suggest_quantity(resource: str, amount: str) -> str:
    """Return valid amounts of a resource to write instead of a malformed one.

    >>> _suggest_quantity("memory", "8GB"), _suggest_quantity("cpu", "banana")
    ('8G or 8Gi', '500m or 2')
    """
    with_byte_unit = re.fullmatch(r"(\d+) ?([kmgtp])i?b?", amount, re.IGNORECASE)
    if is_in_bytes(resource) and with_byte_unit:
        number, letter = with_byte_unit[1], with_byte_unit[2].upper()
        return f"{number}{letter.replace('K', 'k')} or {number}{letter}i"
    if is_in_bytes(resource):
        return "512Mi or 8G"
    return "500m or 2" if resource == CPU else "a number such as 2"


def _add_node_like(target: TargetPod, model_name: str) -> TargetPod:
    """Return the target with a scheduler whose cluster has one more node like the named node.

    Raises UsageError if the named node does not exist.
    """
    from kschedctl.fixes.trial.changes import apply_fixes, build_object_reader  # noqa: PLC0415 - little else needs remedies
    from kschedctl.fixes.trial.trials import apply_edits_to_cluster, fork_with_edits  # noqa: PLC0415
    from kschedctl.fixes.ways.new_nodes import build_added_nodes_fix  # noqa: PLC0415

    scheduler, view = target.scheduler, target.scheduler.view
    (name,) = find_node_names(scheduler.cluster, (model_name,))
    fix = build_added_nodes_fix(view, view.nodes.get_node(name))
    edits = apply_fixes([fix], build_object_reader(scheduler.cluster))
    changed_cluster = apply_edits_to_cluster(scheduler.cluster, edits, with_pods_and_nodes=True)
    changed_scheduler = Scheduler(changed_cluster, scheduler.call_extender)
    changed_scheduler.view = fork_with_edits(view, edits)  # saves the seconds that building all columns again takes
    return target._replace(scheduler=changed_scheduler)
