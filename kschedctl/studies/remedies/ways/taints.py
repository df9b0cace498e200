"""Taints and cordons: let the node take pods again, tolerate a taint, take it off.

A taint that says how a node is, is no permission to ask for: such a node is got ready, not tolerated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.resource_names import is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE, find_untolerated
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.studies.basics import kubectl
from kschedctl.studies.remedies.fixes.changes import Fix, on_node, on_pod
from kschedctl.studies.remedies.fixes.prices import Price
from kschedctl.studies.remedies.fixes.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.studies.remedies.ways.node_labels import is_typo
from kschedctl.studies.remedies.ways.unready_nodes import is_of_condition, repaired

OF_CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
OF_DEVICES = re.compile(r"(?:^|[^a-z])(?:gpu|tpu|npu|fpga|accelerator)s?(?:[^a-z]|$)", re.IGNORECASE)
"""Words by which taints keep nodes for pods that ask for their devices."""
TYPO, UNCORDON, TOLERATE, UNTAINT = 10, 20, 45, 35


def cordoned(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """The node's own mark and the taint that comes with it. Somebody cordoned it for a reason."""
    node = tried.cycle.view.nodes.objects[tried.at]
    name = node.metadata.name
    yield Fix(
        "Uncordon",
        name,
        f"uncordon node {name}, after finding out why it is cordoned",
        "operator",
        on_node(node, _uncordoned),
        UNCORDON,
        commands=(kubectl.run("describe", "node", name), kubectl.run("uncordon", name)),
        variant_of="uncordon",
        where=name,
    )


def _uncordoned(node: Node) -> Node:
    kept = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=kept))


def tainted(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """The first taint that the pod does not tolerate; the next ones are seen when that one is out of the way."""
    node = tried.cycle.view.nodes.objects[tried.at]
    taint = find_untolerated(node.spec.taints, tried.cycle.info.spec.tolerations, HARD_EFFECTS)
    if taint is None:
        return
    if taint.key == UNSCHEDULABLE.key:
        yield from cordoned(tried, refusal)
    elif is_of_condition(taint):
        yield repaired(tried, node)
    else:
        yield from _corrected(tried, taint)
        asks = _asks_for_devices(tried, node, taint)
        if asks is not False or _chooses_nodes(tried.trial.pod):
            yield _tolerate(tried, _of_all_effects(tried, taint), asks)
        if asks is None:
            yield _untaint(node, taint)


def _asks_for_devices(tried: TriedNode, node: Node, taint: Taint) -> bool | None:
    """Whether the pod asks for devices of the node, None where the taint does not keep it for pods that do."""
    offered = {name for name in node.status.allocatable if is_extended(name)}
    if taint.key not in offered and not OF_DEVICES.search(f"{taint.key}={taint.value}"):
        return None
    return bool(tried.trial.pod.spec.resource_claims) or not offered.isdisjoint(tried.cycle.info.incoming_requests)


def _chooses_nodes(pod: Pod) -> bool:
    """Whether it says on which nodes it wants to run: to let it in is what its author had in mind."""
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
    weakens, price = "", Price.CORRECTION if asks else None
    if asks is False:
        weakens, price = "it takes room from pods that ask for the devices of these nodes", Price.LOSS
    elif taint.key in OF_CONTROL_PLANES:
        weakens, price = "the pod may run on control-plane nodes", Price.LOSS
    return Fix("Tolerate", taint, text, "author", on_pod(tried.trial.pod, change), TOLERATE, weakens, price=price)


def _corrected(tried: TriedNode, taint: Taint) -> Iterator[Fix]:
    """A toleration of that key, or of one that it is probably a typo of, for another value or effect than there is."""
    own: Sequence[Toleration] = tried.cycle.info.spec.tolerations
    known = {taint.key for taints in tried.cycle.view.nodes.taint_sets[0] for taint in taints}
    for place, toleration in enumerate(own):
        near = toleration.key == taint.key or (toleration.key and is_typo(toleration.key, taint.key, known))
        if not near or toleration.operator in ("Gt", "Lt"):
            continue
        value = taint.value if toleration.operator != "Exists" else ""
        right = replace(toleration, key=taint.key, value=value, effect=taint.effect)

        def change(pod: Pod, wrong: Toleration = toleration, right: Toleration = right) -> Pod:
            tolerations = [right if toleration == wrong else toleration for toleration in pod.spec.tolerations]
            return replace(pod, spec=replace(pod.spec, tolerations=tuple(tolerations)))

        text = f"change the toleration of {toleration.key} to the taint {taint}"
        edits = on_pod(tried.trial.pod, change)
        yield Fix("Tolerate", (place, taint), text, "author", edits, TYPO, price=Price.CORRECTION)


def _untaint(node: Node, taint: Taint) -> Fix:
    name = node.metadata.name

    def change(read: Node) -> Node:
        kept = tuple(t for t in read.spec.taints if (t.key, t.effect) != (taint.key, taint.effect))
        return replace(read, spec=replace(read.spec, taints=kept))

    return Fix(
        "RemoveTaint",
        (name, taint),
        f"remove the taint {taint} from node {name}",
        "operator",
        on_node(node, change),
        UNTAINT,
        "pods that do not tolerate it may then run there too",
        commands=(kubectl.run("taint", "node", name, f"{taint.key}:{taint.effect}-"),),
        variant_of=taint,
        where=name,
    )


REMEDIES = {
    NodeUnschedulable: PluginRemedies((cordoned,), clears_with="taint", facts_tell_all=True),
    TaintToleration: PluginRemedies((tainted,), clears_with="taint", facts_tell_all=True),
}
