"""Fixes for taints, cordons and unready nodes: repair the node, correct or add a toleration, or remove the taint.

A taint that Kubernetes or a cloud provider sets as a node's condition is never tolerated: the node is to be repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import numpy as np
from msgspec.structs import replace

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.resource_names import is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated, tolerates
from kschedctl.fixes.trial.changes import Fix, on_node, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import DEVICE_WORD
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode, collect_node_selection_keys
from kschedctl.fixes.ways.node_labels import is_typo
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import UNINITIALIZED, TaintToleration
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.nodes import NodeColumns, match_required_affinity

OF_CONTROL_PLANES = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))
TYPO, UNCORDON, TOLERATE, UNTAINT = 10, 20, 45, 35


def uncordon(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the fix that uncordons the node. Somebody cordoned it for a reason."""
    node = tried.cycle.view.nodes.objects[tried.at]
    name = node.metadata.name
    yield Fix(
        FixKind.UNCORDON,
        name,
        f"uncordon node {name}, after finding out why it is cordoned",
        "operator",
        on_node(node, _uncordoned),
        UNCORDON,
        commands=(kubectl.render_command("describe", "node", name), kubectl.render_command("uncordon", name)),
        variant_of="uncordon",
        where=name,
        check_first=f"find out first why node {name} is cordoned",
    )


def _uncordoned(node: Node) -> Node:
    """Return the node without its cordon and the matching taint."""
    kept = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=kept))


def fix_taint(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the fixes for the first taint that the pod does not tolerate; later taints come in later trials."""
    nodes = tried.cycle.view.nodes
    node = nodes.objects[tried.at]
    taint = find_untolerated(node.spec.taints, tried.cycle.info.spec.tolerations, HARD_EFFECTS)
    if taint is None:
        return
    if taint.key == UNSCHEDULABLE_TAINT.key:
        yield from uncordon(tried, refusal)
    elif taint.key == UNINITIALIZED and is_no_node_initialized(nodes):
        yield initialize_nodes(nodes)
    elif is_of_condition(taint):
        yield repair_node(tried, node)
    else:
        corrections = list(_correct_tolerations(tried, taint))
        yield from corrections
        asks, chooses = _asks_for_devices(tried, node, taint), _chooses_nodes(tried.trial.pod)
        if taint.key in OF_CONTROL_PLANES and not _may_run_on_control_planes(tried):
            return
        if asks is not False or chooses:
            yield _tolerate(tried, _of_all_effects(tried, taint), asks)
        if asks is None and not corrections and not chooses:
            yield _untaint(node, taint)


def _may_run_on_control_planes(tried: TriedNode) -> bool:
    """Return whether the pod chooses nodes, or the cluster has control planes only, as small clusters do."""
    nodes = tried.cycle.view.nodes
    kept = [any(taint.key in OF_CONTROL_PLANES for taint in taints) for taints in nodes.taint_sets[0]]
    return _chooses_nodes(tried.trial.pod) or all(kept[number] for number in np.unique(nodes.taint_sets[1]).tolist())


def _is_pool_chosen(tried: TriedNode, taint: Taint) -> bool:
    """Return whether the pod selects nodes by a label, and every node that it selects has the taint.

    The toleration was forgotten then. A hostname is no pool: its node may be tainted for a reason of its own.
    """
    view = tried.cycle.view
    keys = collect_node_selection_keys(tried.trial.pod.spec) - {HOSTNAME}
    selected = match_required_affinity(view.nodes, compile_required_node_affinity(tried.cycle.info.spec))
    if not keys or not selected.any():
        return False
    taint_sets, taint_set = view.nodes.taint_sets
    has_taint = np.array([any(_is_alike(own, taint) for own in taints) for taints in taint_sets], np.bool_)
    return bool(has_taint[taint_set][selected].all())


def _is_alike(one: Taint, other: Taint) -> bool:
    return (one.key, one.value) == (other.key, other.value)


def _asks_for_devices(tried: TriedNode, node: Node, taint: Taint) -> bool | None:
    """Return whether the pod requests devices of the node, or None if the taint is not about devices."""
    offered = {name for name in node.status.allocatable if is_extended(name)}
    if taint.key not in offered and not DEVICE_WORD.search(f"{taint.key}={taint.value}"):
        return None
    return bool(tried.trial.pod.spec.resource_claims) or not offered.isdisjoint(tried.cycle.info.incoming_requests)


def _chooses_nodes(pod: Pod) -> bool:
    """Return whether the pod has a nodeSelector or required node affinity."""
    own = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return bool(pod.spec.node_selector or (own and own.required_during_scheduling_ignored_during_execution))


def _of_all_effects(tried: TriedNode, taint: Taint) -> Taint:
    """The taint without its effect where the node has another one of that key and value: people tolerate both."""
    hard = [other for other in tried.cycle.view.nodes.objects[tried.at].spec.taints if other.effect in HARD_EFFECTS]
    alike = sum((other.key, other.value) == (taint.key, taint.value) for other in hard)
    return replace(taint, effect="") if alike > 1 else taint


def _tolerate(tried: TriedNode, taint: Taint, asks: bool | None) -> Fix:
    """The taint of its effect; of any, where it has none. ``asks``: for devices for which the node is kept."""
    operator = "Equal" if taint.value else "Exists"
    made = Toleration(taint.key, operator, taint.value, taint.effect)

    def change(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, made)))

    text = f"tolerate the taint {str(taint).removesuffix(':')}"
    weakens, price = "", Price.CORRECTION if asks or _is_pool_chosen(tried, taint) else None
    if asks is False:
        weakens, price = "it takes room from pods that ask for the devices of these nodes", Price.LOSS
    elif taint.key in OF_CONTROL_PLANES:
        weakens, price = "the pod may run on control-plane nodes", Price.LOSS
    return Fix(FixKind.TOLERATE, taint, text, "author", on_pod(tried.trial.pod, change), TOLERATE, weakens, price=price)


def _correct_tolerations(tried: TriedNode, taint: Taint) -> Iterator[Fix]:
    """Yield corrections of tolerations that tolerate no taint of any node and that probably mean this taint."""
    own: Sequence[Toleration] = tried.cycle.info.spec.tolerations
    known = dict.fromkeys(taint for taints in tried.cycle.view.nodes.taint_sets[0] for taint in taints)
    for place, toleration in enumerate(own):
        if toleration.operator in ("Gt", "Lt") or any(tolerates(toleration, other) for other in known):
            continue
        likeness = _likeness(toleration, taint, known)
        if likeness is None or (likeness is Likeness.OTHER_VALUE and not _is_pool_chosen(tried, taint)):
            continue
        meant = _of_all_effects(tried, taint)
        effect = meant.effect if toleration.effect else ""
        has_value = bool(taint.value) and (toleration.operator != "Exists" or likeness is Likeness.IN_KEY)
        operator = "Equal" if has_value else "Exists"
        right = Toleration(taint.key, operator, taint.value if has_value else "", effect)

        def change(pod: Pod, wrong: Toleration = toleration, right: Toleration = right) -> Pod:
            tolerations = [right if toleration == wrong else toleration for toleration in pod.spec.tolerations]
            return replace(pod, spec=replace(pod.spec, tolerations=tuple(tolerations)))

        if likeness is Likeness.IN_KEY:
            what = (
                f"the toleration of key {toleration.key} to key {right.key}" + f" and value {right.value}" * has_value
            )
        else:
            what = f"the toleration of {_written(toleration)} to {_written(right)}"
        text = f"correct {what}, the taint of the node"
        edits = on_pod(tried.trial.pod, change)
        yield Fix(FixKind.TOLERATE, (place, taint), text, "author", edits, TYPO, price=Price.CORRECTION)


class Likeness(Enum):
    """The ways in which a toleration that tolerates no taint resembles one."""

    TYPO = "its key or value is misspelt, or its effect or operator is another"
    IN_KEY = "its key holds the taint's value or effect, too"
    OTHER_VALUE = "it has the taint's key, but a value that may mean another taint"


def _likeness(toleration: Toleration, taint: Taint, known: Collection[Taint]) -> Likeness | None:
    """Return how the toleration resembles the taint, None if it does not.

    >>> platform = Taint("applications", "platform-amd64", "NoSchedule")
    >>> _likeness(Toleration("applications/platform-amd64", "Exists"), platform, [platform]).name
    'IN_KEY'
    >>> pools = [Taint("dedicated", value, "NoSchedule") for value in ("web", "db")]
    >>> _likeness(Toleration("dedicated", "Equal", "cache"), pools[0], pools).name
    'OTHER_VALUE'
    """
    if not toleration.key:
        return None
    in_key = {f"{taint.key}{separator}{taint.value}" for separator in "/=:"} if taint.value else set()
    in_key |= {f"{name}:{taint.effect}" for name in (taint.key, f"{taint.key}={taint.value}")}
    if toleration.key.lower() in map(str.lower, in_key):
        return Likeness.IN_KEY
    if taint.value and (toleration.key, toleration.value) == (taint.value, taint.key):
        return Likeness.TYPO
    if toleration.key == taint.key:
        values = [other.value for other in known if other.key == taint.key]
        is_only_value = set(values) <= {taint.value}
        is_value_alike = toleration.operator == "Exists" or toleration.value in ("", taint.value)
        if is_only_value or is_value_alike or is_typo(toleration.value, taint.value, values):
            return Likeness.TYPO
        return Likeness.OTHER_VALUE
    keys = {other.key for other in known}
    same_name = toleration.key.rpartition("/")[2].lower() == taint.key.rpartition("/")[2].lower()
    return Likeness.TYPO if same_name or is_typo(toleration.key, taint.key, keys) else None


def _written(toleration: Toleration) -> str:
    """
    >>> _written(Toleration("dedicated", "Equal", "db", "NoSchedule")), _written(Toleration("gpu", "Exists"))
    ('dedicated=db:NoSchedule', 'gpu')
    """
    value = f"={toleration.value}" if toleration.operator != "Exists" and toleration.value else ""
    return f"{toleration.key}{value}{':' * bool(toleration.effect)}{toleration.effect}"


def _untaint(node: Node, taint: Taint) -> Fix:
    """Build the fix that removes the taint from the node."""
    name = node.metadata.name

    def change(read: Node) -> Node:
        kept = tuple(t for t in read.spec.taints if (t.key, t.effect) != (taint.key, taint.effect))
        return replace(read, spec=replace(read.spec, taints=kept))

    return Fix(
        FixKind.REMOVE_TAINT,
        (name, taint),
        f"remove the taint {taint} from node {name}",
        "operator",
        on_node(node, change),
        UNTAINT,
        "pods that do not tolerate it may then run there too",
        commands=(kubectl.render_command("taint", "node", name, f"{taint.key}:{taint.effect}-"),),
        variant_of=taint,
        where=name,
    )


REMEDIES = {
    NodeUnschedulable: PluginRemedies((uncordon,), clears_with="taint", facts_tell_all=True),
    TaintToleration: PluginRemedies((fix_taint,), clears_with="taint", facts_tell_all=True),
}


SET_BY_KUBERNETES, BY_PROVIDERS = "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"
"""Taints that say how a node is: one that is taken off comes back. Reference: Taints and Tolerations, k8s.io/docs."""
WHILE_STARTING = ("/uninitialized", "/agent-not-ready", "/unregistered", "/startup")
"""How keys of taints end that cloud providers, CNI and CSI drivers and Karpenter take off a node once it is set up."""
STARTS, INITIALIZE, REPAIR = 10, 10, 15


def is_of_condition(taint: Taint) -> bool:
    """Return whether the taint reports a condition of the node other than a cordon."""
    own = taint.key.startswith((SET_BY_KUBERNETES, BY_PROVIDERS)) or taint.key.endswith(WHILE_STARTING)
    return own and taint.key != UNSCHEDULABLE_TAINT.key


def is_fault(taint: Taint) -> bool:
    """Return whether the taint says that the node has a fault, rather than that it is only starting."""
    return is_of_condition(taint) and not taint.key.endswith(WHILE_STARTING)


def without_condition_taints(node: Node) -> Node:
    """Return the node without taints that report its condition."""
    kept = tuple(taint for taint in node.spec.taints if not is_of_condition(taint))
    return replace(node, spec=replace(node.spec, taints=kept))


def repair_node(tried: TriedNode, node: Node) -> Fix:
    """Build the fix that waits for a starting node, or repairs a node that is not ready."""
    name = node.metadata.name
    taints = [taint for taint in node.spec.taints if is_of_condition(taint)]
    states = dict.fromkeys(taint.key.rpartition("/")[2] for taint in taints)
    starting = any(taint.key.endswith(WHILE_STARTING) for taint in taints)
    what = f"wait until node {name} is set up" if starting else f"get node {name} ready again"
    kind, cost = (FixKind.WAIT, STARTS) if starting else (FixKind.REPAIR_NODE, REPAIR)
    commands = (kubectl.render_command("describe", "node", name),)
    text, edits = f"{what} ({', '.join(states)})", on_node(node, without_condition_taints)
    return Fix(kind, name, text, "operator", edits, cost, commands=commands, variant_of="node", where=name)


def is_no_node_initialized(nodes: NodeColumns) -> bool:
    """Return whether every node still has the taint that the cloud controller manager removes."""
    taint_sets, taint_set = nodes.taint_sets
    has_taint = [any(taint.key == UNINITIALIZED for taint in taints) for taints in taint_sets]
    return bool(len(taint_set)) and bool(np.array(has_taint, np.bool_)[taint_set].all())


def initialize_nodes(nodes: NodeColumns) -> Fix:
    """Return the fix that gets the cloud controller manager running, which then initializes all nodes."""

    def initialized(node: Node) -> Node:
        kept = tuple(taint for taint in node.spec.taints if taint.key != UNINITIALIZED)
        return replace(node, spec=replace(node.spec, taints=kept))

    edits = tuple(edit for node in nodes.objects for edit in on_node(node, initialized))
    have = {1: "the only node still has", 2: "both nodes still have"}.get(
        len(nodes), f"all {len(nodes):,} nodes still have"
    )
    text = f"get the cloud controller manager running: {have} the taint {UNINITIALIZED}, which it removes"
    commands = (kubectl.render_command("describe", "node", nodes.names[0]),)
    return Fix(FixKind.START_CLOUD_CONTROLLER, "", text, "operator", edits, INITIALIZE, commands=commands)
