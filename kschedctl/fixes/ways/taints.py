"""Fixes for taints, cordons and unready nodes: repair the node, correct or add a toleration, or remove the taint.

A taint that Kubernetes or a cloud provider sets as a node's condition is never tolerated: the node is to be repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.resource_names import is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint, tolerates
from kschedctl.fixes.trial.changes import Fix, build_node_edits, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import DEVICE_WORD
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode, collect_node_selection_keys
from kschedctl.fixes.ways.node_labels import is_typo
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import UNINITIALIZED, TaintToleration
from kschedctl.snapshot.nodes import HOSTNAME, NodeColumns

CONTROL_PLANE_TAINTS = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))
TYPO, UNCORDON, TOLERATE, UNTAINT = 10, 20, 45, 35
"""The costs of fixes of tolerations, cordons and taints."""
SET_BY_KUBERNETES, BY_PROVIDERS = "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"
"""Prefixes of taints that report a condition of the node and come back if removed. See Taints and Tolerations."""
STARTUP_SUFFIXES = ("/uninitialized", "/agent-not-ready", "/unregistered", "/startup")
"""Ends of taint keys that cloud providers, network and storage drivers and Karpenter remove once a node is set up."""
STARTS, INITIALIZE, REPAIR = 10, 10, 15
"""The costs of waiting for a starting node, of initializing all nodes, and of repairing a node."""


def iter_uncordon_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that uncordons the node, with the advice to find out first why it was cordoned."""
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    name = node.metadata.name
    describe = kubectl.render_command("describe", "node", name)
    yield Fix(
        kind=FixKind.UNCORDON,
        target=name,
        text=f"find out why node {name} is cordoned, then uncordon it",
        by="operator",
        edits=build_node_edits(node, _remove_cordon),
        cost=UNCORDON,
        # A comment, so that pasting the commands does not pass for a look at the node
        commands=(f"# first find out why: {describe}", kubectl.render_command("uncordon", name)),
        variant_of="uncordon",
        where=name,
        check_first=f"find out first why node {name} is cordoned: {describe}",
    )


def _remove_cordon(node: Node) -> Node:
    """Return the node without its cordon and the matching taint."""
    remaining_taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=remaining_taints))


def iter_taint_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for the node's first taint that the pod does not tolerate. Later taints are fixed in later trials.

    Cordons are removed, and nodes whose taint reports a condition are repaired. If no node was ever initialized, the
    fix is to initialize the nodes. Other taints are tolerated or removed, as `_iter_tolerable_taint_fixes` says.
    """
    nodes = trial_node.cycle.view.nodes
    node = nodes.objects[trial_node.known_row]
    taint = find_untolerated_taint(node.spec.taints, trial_node.cycle.info.spec.tolerations, HARD_EFFECTS)
    if taint is None:
        return
    if taint.key == UNSCHEDULABLE_TAINT.key:
        yield from iter_uncordon_fixes(trial_node, rejection)
    elif taint.key == UNINITIALIZED and is_no_node_initialized(nodes):
        yield build_initialization_fix(nodes)
    elif reports_condition(taint):
        yield build_node_repair_fix(trial_node, node)
    else:
        yield from _iter_tolerable_taint_fixes(trial_node, node, taint)


def _iter_tolerable_taint_fixes(trial_node: TrialNode, node: Node, taint: Taint) -> Iterator[Fix]:
    """Yield fixes for a taint that reserves the node: correct a toleration, add one, or remove the taint.

    A taint for devices is never removed, and is tolerated only if the pod requests the devices or selects its nodes by
    labels. No taint is removed if the pod selects its nodes or has a toleration to correct. The taint of control planes
    is only tolerated or removed if the pod selects its nodes or all nodes are control planes.
    """
    corrections = list(_iter_toleration_corrections(trial_node, taint))
    yield from corrections
    if taint.key in CONTROL_PLANE_TAINTS and not _may_run_on_control_planes(trial_node):
        return
    device_taint = _classify_device_taint(trial_node, node, taint)
    selects_nodes = _selects_nodes(trial_node.trial.pod)
    if device_taint is not _DeviceTaint.UNREQUESTED or selects_nodes:
        yield _build_toleration_fix(trial_node, _drop_effect_if_repeated(trial_node, taint), device_taint)
    if device_taint is _DeviceTaint.NONE and not corrections and not selects_nodes:
        yield _build_taint_removal_fix(node, taint)


def _may_run_on_control_planes(trial_node: TrialNode) -> bool:
    """Return whether it is acceptable that the pod runs on control planes.

    It is acceptable if the pod selects its nodes itself, or if all nodes are control planes, as in small clusters.
    """
    if _selects_nodes(trial_node.trial.pod):
        return True
    taint_sets, set_numbers = trial_node.cycle.view.nodes.taint_sets
    # One entry for each set of taints that nodes share
    is_set_of_control_plane = [any(taint.key in CONTROL_PLANE_TAINTS for taint in taints) for taints in taint_sets]
    return bool(np.array(is_set_of_control_plane, np.bool_)[set_numbers].all())


def _selects_only_tainted_nodes(trial_node: TrialNode, taint: Taint) -> bool:
    """Return whether the pod selects nodes by a label other than the hostname, and all selected nodes have the taint.

    If so, the toleration was probably forgotten. The hostname does not count, since a single node may be tainted for
    another reason.
    """
    view = trial_node.cycle.view
    keys = collect_node_selection_keys(trial_node.trial.pod.spec) - {HOSTNAME}
    selected = view.nodes.match_required_affinity(compile_required_node_affinity(trial_node.cycle.info.spec))
    if not keys or not selected.any():
        return False
    taint_sets, set_numbers = view.nodes.taint_sets
    has_taint = np.array(
        [any(_has_same_key_and_value(other, taint) for other in taints) for taints in taint_sets], np.bool_
    )
    return bool(has_taint[set_numbers][selected].all())


def _has_same_key_and_value(first: Taint, second: Taint) -> bool:
    """Return whether the taints have the same key and value."""
    return (first.key, first.value) == (second.key, second.value)


class _DeviceTaint(Enum):
    """The relation of a pod to the devices for which a taint reserves the node."""

    NONE = 0
    """The taint is not for devices."""
    REQUESTED = 1
    """The pod requests the devices."""
    UNREQUESTED = 2
    """The pod does not request the devices."""


def _classify_device_taint(trial_node: TrialNode, node: Node, taint: Taint) -> _DeviceTaint:
    """Classify the taint by whether it is for devices and whether the pod requests these.

    A taint is for devices if its key is an extended resource of the node, or if a word in it suggests so. A pod with
    resource claims counts as requesting the devices.
    """
    offered_devices = {name for name in node.status.allocatable if is_extended(name)}
    if taint.key not in offered_devices and not DEVICE_WORD.search(f"{taint.key}={taint.value}"):
        return _DeviceTaint.NONE
    requests_extended_resource = not offered_devices.isdisjoint(trial_node.cycle.info.incoming_requests)
    if trial_node.trial.pod.spec.resource_claims or requests_extended_resource:
        return _DeviceTaint.REQUESTED
    return _DeviceTaint.UNREQUESTED


def _selects_nodes(pod: Pod) -> bool:
    """Return whether the pod has a nodeSelector or required node affinity."""
    if pod.spec.node_selector:
        return True
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return node_affinity is not None and bool(node_affinity.required_during_scheduling_ignored_during_execution)


def _drop_effect_if_repeated(trial_node: TrialNode, taint: Taint) -> Taint:
    """Return the taint without its effect if the node has the same taint with another hard effect as well.

    A toleration of the result then covers both effects. Otherwise, the taint is returned unchanged.
    """
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    hard_taints = [other for other in node.spec.taints if other.effect in HARD_EFFECTS]
    same_count = sum(_has_same_key_and_value(other, taint) for other in hard_taints)
    return replace(taint, effect="") if same_count > 1 else taint


def _build_toleration_fix(trial_node: TrialNode, taint: Taint, device_taint: _DeviceTaint) -> Fix:
    """Build the fix that adds a toleration of the taint, or of all effects if the taint has no effect."""
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(taint.key, operator, taint.value, taint.effect)

    def change(pod: Pod) -> Pod:
        """Return the pod with the toleration."""
        return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))

    downside = _assess_toleration(trial_node, taint, device_taint)
    return Fix(
        kind=FixKind.TOLERATE,
        target=taint,
        text=f"tolerate the taint {str(taint).removesuffix(':')}",
        by="author",
        edits=build_pod_edits(trial_node.trial.pod, change),
        cost=TOLERATE,
        weakens=downside.weakens,
        price=downside.price,
    )


class _Downside(NamedTuple):
    """The harm that a toleration may do, and its price as a fix."""

    weakens: str
    """The consequence that the author may not want, as a clause; empty if there is none."""
    price: Price | None
    """None is the usual price of a fix that weakens a protection."""


def _assess_toleration(trial_node: TrialNode, taint: Taint, device_taint: _DeviceTaint) -> _Downside:
    """Assess the harm that may be done if the pod tolerates the taint, and the price of the fix.

    The toleration is a mere correction if the pod requests the devices of the tainted nodes, or selects only nodes with
    the taint.
    """
    if device_taint is _DeviceTaint.UNREQUESTED:
        return _Downside("the pod takes capacity from pods that need the devices of the tainted nodes", Price.LOSS)
    if taint.key in CONTROL_PLANE_TAINTS:
        return _Downside("the pod may run on control-plane nodes", Price.LOSS)
    if device_taint is _DeviceTaint.REQUESTED or _selects_only_tainted_nodes(trial_node, taint):
        return _Downside(weakens="", price=Price.CORRECTION)
    return _Downside("the pod may run on nodes that a taint reserves for other pods", price=None)


def _iter_toleration_corrections(trial_node: TrialNode, taint: Taint) -> Iterator[Fix]:
    """Yield fixes for tolerations that match no taint of any node and probably mean this taint.

    A toleration with another value is corrected only if all nodes selected by the pod have the taint. Tolerations that
    compare numbers are left out.
    """
    pod_tolerations: Sequence[Toleration] = trial_node.cycle.info.spec.tolerations
    taint_sets, _ = trial_node.cycle.view.nodes.taint_sets
    known_taints = dict.fromkeys(chain.from_iterable(taint_sets))
    for index, toleration in enumerate(pod_tolerations):
        if toleration.operator in ("Gt", "Lt") or any(tolerates(toleration, other) for other in known_taints):
            continue
        likeness = _classify_toleration_mistake(toleration, taint, known_taints)
        if likeness is None:
            continue
        if likeness is Likeness.OTHER_VALUE and not _selects_only_tainted_nodes(trial_node, taint):
            continue

        # Build the toleration that was probably meant.
        effect = _drop_effect_if_repeated(trial_node, taint).effect if toleration.effect else ""
        has_value = bool(taint.value) and (toleration.operator != "Exists" or likeness is Likeness.IN_KEY)
        if has_value:
            corrected = Toleration(taint.key, "Equal", taint.value, effect)
        else:
            corrected = Toleration(taint.key, "Exists", effect=effect)

        change_text = _describe_toleration_change(toleration, corrected, likeness)
        text = f"correct the toleration from {change_text}, the node's taint"
        edits = build_pod_edits(trial_node.trial.pod, partial(_replace_toleration, wrong=toleration, right=corrected))
        yield Fix(
            kind=FixKind.TOLERATE,
            target=(index, taint),
            text=text,
            by="author",
            edits=edits,
            cost=TYPO,
            price=Price.CORRECTION,
        )


def _describe_toleration_change(wrong: Toleration, right: Toleration, likeness: Likeness) -> str:
    """Describe the change from the wrong to the right toleration, by the keys if the wrong key held more than a key."""
    if likeness is not Likeness.IN_KEY:
        return f"{_format_toleration(wrong)} to {_format_toleration(right)}"
    value_text = f" and value {right.value}" if right.value else ""
    return f"key {wrong.key} to key {right.key}{value_text}"


def _replace_toleration(pod: Pod, wrong: Toleration, right: Toleration) -> Pod:
    """Return the pod with `right` in place of each toleration that equals `wrong`."""
    tolerations = [right if existing == wrong else existing for existing in pod.spec.tolerations]
    return replace(pod, spec=replace(pod.spec, tolerations=tuple(tolerations)))


class Likeness(Enum):
    """The ways in which a toleration resembles a taint that it does not tolerate."""

    TYPO = "typo"
    """Its key or value is misspelled, or it has a different effect or operator."""
    IN_KEY = "in key"
    """Its key holds the taint's value or effect, too."""
    OTHER_VALUE = "other value"
    """It has the taint's key, but a value that may mean another taint."""


def _classify_toleration_mistake(
    toleration: Toleration, taint: Taint, known_taints: Collection[Taint]
) -> Likeness | None:
    """Return how the toleration resembles the taint, or None if it does not.

    - IN_KEY: the key also holds the taint's value or effect.
    - TYPO: key and value are swapped, the key is misspelled, or the key is right and the mistake is elsewhere.
    - OTHER_VALUE: the key is right, but the value may mean another known taint.

    >>> platform = Taint("applications", "platform-amd64", "NoSchedule")
    >>> _classify_toleration_mistake(Toleration("applications/platform-amd64", "Exists"), platform, [platform]).name
    'IN_KEY'
    >>> pools = [Taint("dedicated", value, "NoSchedule") for value in ("web", "db")]
    >>> _classify_toleration_mistake(Toleration("dedicated", "Equal", "cache"), pools[0], pools).name
    'OTHER_VALUE'
    """
    if not toleration.key:
        return None
    # The whole taint was written into the key.
    combined_keys = {f"{taint.key}:{taint.effect}", f"{taint.key}={taint.value}:{taint.effect}"}
    if taint.value:
        combined_keys |= {f"{taint.key}{separator}{taint.value}" for separator in "/=:"}
    if toleration.key.lower() in map(str.lower, combined_keys):
        return Likeness.IN_KEY

    # Key and value are swapped.
    if taint.value and (toleration.key, toleration.value) == (taint.value, taint.key):
        return Likeness.TYPO

    if toleration.key == taint.key:
        return _classify_mistake_besides_key(toleration, taint, known_taints)

    # The key is misspelled. Keys that differ only in their domains have the same name.
    known_keys = {known.key for known in known_taints}
    has_same_name = toleration.key.rpartition("/")[2].lower() == taint.key.rpartition("/")[2].lower()
    return Likeness.TYPO if has_same_name or is_typo(toleration.key, taint.key, known_keys) else None


def _classify_mistake_besides_key(toleration: Toleration, taint: Taint, known_taints: Collection[Taint]) -> Likeness:
    """Return OTHER_VALUE if the value of a toleration with the taint's key may mean another known taint, else TYPO."""
    if toleration.operator == "Exists" or toleration.value in ("", taint.value):
        return Likeness.TYPO  # the value is missing, or the effect differs
    known_values = [known.value for known in known_taints if known.key == taint.key]
    has_other_values = any(value != taint.value for value in known_values)
    if has_other_values and not is_typo(toleration.value, taint.value, known_values):
        return Likeness.OTHER_VALUE
    return Likeness.TYPO


def _format_toleration(toleration: Toleration) -> str:
    """Format a toleration as users write taints.

    >>> _format_toleration(Toleration("dedicated", "Equal", "db", "NoSchedule"))
    'dedicated=db:NoSchedule'
    >>> _format_toleration(Toleration("gpu", "Exists"))
    'gpu'
    """
    text = toleration.key
    if toleration.operator != "Exists" and toleration.value:
        text += f"={toleration.value}"
    if toleration.effect:
        text += f":{toleration.effect}"
    return text


def _build_taint_removal_fix(node: Node, taint: Taint) -> Fix:
    """Build the fix that removes the taint from the node, by key and effect."""
    name = node.metadata.name

    def change(current: Node) -> Node:
        """Return the node without the taint."""
        remaining_taints = tuple(
            other for other in current.spec.taints if (other.key, other.effect) != (taint.key, taint.effect)
        )
        return replace(current, spec=replace(current.spec, taints=remaining_taints))

    return Fix(
        kind=FixKind.REMOVE_TAINT,
        target=(name, taint),
        text=f"remove the taint {taint} from node {name}",
        by="operator",
        edits=build_node_edits(node, change),
        cost=UNTAINT,
        weakens="pods that do not tolerate the taint may run on the node, too",
        commands=(kubectl.render_command("taint", "node", name, f"{taint.key}:{taint.effect}-"),),
        variant_of=taint,
        where=name,
    )


def reports_condition(taint: Taint) -> bool:
    """Return whether the taint reports a condition of the node, such as not-ready, or says that the node is starting.

    A cordon is not a condition.
    """
    if taint.key == UNSCHEDULABLE_TAINT.key:
        return False
    return taint.key.startswith((SET_BY_KUBERNETES, BY_PROVIDERS)) or taint.key.endswith(STARTUP_SUFFIXES)


def reports_fault(taint: Taint) -> bool:
    """Return whether the taint reports a fault of the node, and not just that the node is starting."""
    return reports_condition(taint) and not taint.key.endswith(STARTUP_SUFFIXES)


def remove_condition_taints(node: Node) -> Node:
    """Return the node without the taints that report a condition or say that the node is starting."""
    remaining_taints = tuple(taint for taint in node.spec.taints if not reports_condition(taint))
    return replace(node, spec=replace(node.spec, taints=remaining_taints))


def build_node_repair_fix(trial_node: TrialNode, node: Node) -> Fix:
    """Build the fix that repairs the node. If a taint says that the node is starting, the fix waits for it instead."""
    name = node.metadata.name
    taints = [taint for taint in node.spec.taints if reports_condition(taint)]
    states = dict.fromkeys(taint.key.rpartition("/")[2] for taint in taints)
    if any(taint.key.endswith(STARTUP_SUFFIXES) for taint in taints):
        kind, cost = FixKind.WAIT, STARTS
        instruction = f"wait until node {name} is set up"
    else:
        kind, cost = FixKind.REPAIR_NODE, REPAIR
        instruction = f"make node {name} ready again"
    return Fix(
        kind=kind,
        target=name,
        text=f"{instruction} ({', '.join(states)})",
        by="operator",
        edits=build_node_edits(node, remove_condition_taints),
        cost=cost,
        commands=(kubectl.render_command("describe", "node", name),),
        variant_of="node",
        where=name,
    )


def is_no_node_initialized(nodes: NodeColumns) -> bool:
    """Return whether there are nodes and all still have the taint that the cloud controller manager removes."""
    taint_sets, set_numbers = nodes.taint_sets
    is_set_uninitialized = [any(taint.key == UNINITIALIZED for taint in taints) for taints in taint_sets]
    return bool(len(set_numbers)) and bool(np.array(is_set_uninitialized, np.bool_)[set_numbers].all())


def build_initialization_fix(nodes: NodeColumns) -> Fix:
    """Build the fix that starts the cloud controller manager. The manager then removes its taint from all nodes."""

    def remove_taint(node: Node) -> Node:
        """Return the node without the taint."""
        remaining_taints = tuple(taint for taint in node.spec.taints if taint.key != UNINITIALIZED)
        return replace(node, spec=replace(node.spec, taints=remaining_taints))

    edits = tuple(edit for node in nodes.objects for edit in build_node_edits(node, remove_taint))
    match len(nodes):
        case 1:
            nodes_have = "the only node still has"
        case 2:
            nodes_have = "both nodes still have"
        case _:
            nodes_have = f"all {len(nodes):,} nodes still have"
    text = f"start the cloud controller manager: {nodes_have} the taint {UNINITIALIZED}, which it removes"
    commands = (kubectl.render_command("describe", "node", nodes.names[0]),)
    return Fix(
        kind=FixKind.START_CLOUD_CONTROLLER,
        target="",
        text=text,
        by="operator",
        edits=edits,
        cost=INITIALIZE,
        commands=commands,
    )


REMEDIES = {
    NodeUnschedulable: PluginRemedies((iter_uncordon_fixes,), clears_with="taint", facts_reveal_every_effect=True),
    TaintToleration: PluginRemedies((iter_taint_fixes,), clears_with="taint", facts_reveal_every_effect=True),
}
