"""Taints and cordons: tolerate them, take them off, let the node take pods again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE, find_untolerated
from kschedctl.studies.remedies import kubectl
from kschedctl.studies.remedies.changes import Fix, on_node, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site
from kschedctl.studies.remedies.ways.node_labels import is_typo

OF_CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
SET_BY_KUBERNETES = "node.kubernetes.io/"
"""Taints that say how a node is: one that is taken off comes back. Reference: Taints and Tolerations, k8s.io/docs."""
IN_PROVIDERS = "node.cloudprovider.kubernetes.io/"
TYPO, UNCORDON, TOLERATE, UNTAINT = 10, 20, 25, 35


def cordoned(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The node's own mark and the taint that comes with it."""
    node = site.cycle.view.nodes.objects[site.at]
    name = node.metadata.name
    yield Fix(
        "Uncordon",
        name,
        f"uncordon node {name}",
        "operator",
        on_node(node, _uncordoned),
        UNCORDON,
        commands=(kubectl.run("uncordon", name),),
        variant_of="uncordon",
        where=name,
    )
    yield _tolerate(site, UNSCHEDULABLE)


def _uncordoned(node: Node) -> Node:
    kept = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=kept))


def tainted(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The first taint that the pod does not tolerate; the next ones are seen when that one is out of the way."""
    node = site.cycle.view.nodes.objects[site.at]
    taint = find_untolerated(node.spec.taints, site.cycle.info.spec.tolerations, HARD_EFFECTS)
    if taint is None:
        return
    yield from _corrected(site, taint)
    if taint.key == UNSCHEDULABLE.key:
        yield from cordoned(site, refusal)
        return
    yield _tolerate(site, _of_all_effects(site, taint))
    if not taint.key.startswith((SET_BY_KUBERNETES, IN_PROVIDERS)):
        yield _untaint(node, taint)


def _of_all_effects(site: Site, taint: Taint) -> Taint:
    """The taint without its effect where the node has another one of that key and value: people tolerate both."""
    hard = [each for each in site.cycle.view.nodes.objects[site.at].spec.taints if each.effect in HARD_EFFECTS]
    alike = sum((each.key, each.value) == (taint.key, taint.value) for each in hard)
    return replace(taint, effect="") if alike > 1 else taint


def _tolerate(site: Site, taint: Taint) -> Fix:
    """The taint of its effect; of any, where it has none."""
    operator = "Equal" if taint.value else "Exists"
    made = Toleration(taint.key, operator, taint.value, taint.effect)

    def change(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, made)))

    text = f"tolerate the taint {str(taint).removesuffix(':')}"
    return Fix("Tolerate", taint, text, "author", on_pod(site.trial.pod, change), TOLERATE, weakened_by(taint))


def weakened_by(taint: Taint) -> str:
    """What is given up by who tolerates a taint that keeps pods away for a reason."""
    if taint.key in OF_CONTROL_PLANES:
        return "the pod may run on control-plane nodes"
    if taint.key == UNSCHEDULABLE.key:
        return "the pod may run on cordoned nodes"
    if taint.key.startswith((SET_BY_KUBERNETES, IN_PROVIDERS)):
        return f"the pod may run on nodes that are {taint.key.rpartition('/')[2]}"
    return ""


def _corrected(site: Site, taint: Taint) -> Iterator[Fix]:
    """A toleration of that key, or of one that it is probably a typo of, for another value or effect than there is."""
    own: Sequence[Toleration] = site.cycle.info.spec.tolerations
    known = {each.key for taints in site.cycle.view.nodes.taint_sets[0] for each in taints}
    for place, toleration in enumerate(own):
        near = toleration.key == taint.key or (toleration.key and is_typo(toleration.key, taint.key, known))
        if not near or toleration.operator in ("Gt", "Lt"):
            continue
        value = taint.value if toleration.operator != "Exists" else ""
        right = replace(toleration, key=taint.key, value=value, effect=taint.effect)

        def change(pod: Pod, wrong: Toleration = toleration, right: Toleration = right) -> Pod:
            tolerations = [right if each == wrong else each for each in pod.spec.tolerations]
            return replace(pod, spec=replace(pod.spec, tolerations=tuple(tolerations)))

        text = f"let the toleration of {toleration.key} be for the taint {taint}"
        edits = on_pod(site.trial.pod, change)
        yield Fix("Tolerate", (place, taint), text, "author", edits, TYPO, weakened_by(taint))


def _untaint(node: Node, taint: Taint) -> Fix:
    name = node.metadata.name

    def change(found: Node) -> Node:
        kept = tuple(t for t in found.spec.taints if (t.key, t.effect) != (taint.key, taint.effect))
        return replace(found, spec=replace(found.spec, taints=kept))

    return Fix(
        "RemoveTaint",
        (name, taint),
        f"take the taint {taint} off node {name}",
        "operator",
        on_node(node, change),
        UNTAINT,
        "pods that do not tolerate it may then run there too",
        commands=(kubectl.run("taint", "node", name, f"{taint.key}:{taint.effect}-"),),
        variant_of=taint,
        where=name,
    )
