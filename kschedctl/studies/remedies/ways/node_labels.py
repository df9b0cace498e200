"""Labels of nodes: correct what the pod asks for, ask for less, or give a node the label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import (
    Affinity,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from kschedctl.scheduler.facts import NodeAffinityUnmet, Wanted
from kschedctl.snapshot.nodes import LabelColumn, NodeColumns
from kschedctl.studies.remedies.changes import Fix, on_node, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site

CORRECT, LABEL, SOFTEN, DROP = 10, 30, 55, 60
RENAMED = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old label -> new. Reference: Well-Known Labels, Annotations and Taints, k8s.io/docs."""
OWN_NAMES = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/")
"""Labels that tell how a node is: nobody gives it another."""
ANYWHERE = "the pod may run on nodes that it was kept from"
Terms = tuple[NodeSelectorTerm, ...]


def unmet(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """What the node lacks of the selector, one label after the other; then of each of the required terms."""
    fact = refusal.fact
    if not isinstance(fact, NodeAffinityUnmet):
        return
    for wanted in fact.selector:
        yield from _selector(site, wanted)
    if not fact.selector:
        yield from _terms(site, fact)


# -- spec.nodeSelector -----------------------------------------------------------------------------------------------


def _selector(site: Site, wanted: Wanted) -> Iterator[Fix]:
    pod, key, value = site.trial.pod, wanted.key, wanted.values[0]
    for right in near_keys(key, site.cycle.view.nodes):
        text = f"select nodes by the label {right} instead of {key}"
        change = _with_selector(_renamed(key, right))
        yield Fix("CorrectSelector", (key, right), text, "author", on_pod(pod, change), CORRECT)
    if wanted.found is not None:
        text = f"select nodes with {key}={wanted.found} instead of {value}"
        change = _with_selector(lambda found: {**found, key: wanted.found or ""})
        near = is_typo(value, wanted.found, site.cycle.view.nodes.label(key))
        kind, cost = ("CorrectSelector", CORRECT) if near else ("OtherSelector", DROP - 1)
        weakens = "" if near else ANYWHERE
        yield Fix(kind, (key, wanted.found), text, "author", on_pod(pod, change), cost, weakens)
    yield from _label_node(site, key, value)
    change = _with_selector(lambda found: {k: v for k, v in found.items() if k != key})
    text = f"do not select nodes by {key}={value}"
    yield Fix("DropSelector", key, text, "author", on_pod(pod, change), DROP, ANYWHERE)


def _with_selector(change: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, node_selector=change(pod.spec.node_selector)))


def _renamed(key: str, right: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {right if k == key else k: v for k, v in found.items()}


def near_keys(key: str, nodes: NodeColumns) -> list[str]:
    """The labels that nodes have and that are probably meant: a stable one, another case or prefix, a typo."""
    known = dict.fromkeys(label for node in nodes.objects for label in node.metadata.labels)
    if key in known:
        return []
    stable = [new for old, new in RENAMED.items() if key in (old, new)] + [o for o, n in RENAMED.items() if n == key]
    same = [each for each in known if each.lower() == key.lower() or _name(each) == _name(key)]
    near = get_close_matches(key, known, n=2, cutoff=0.8)
    return list(dict.fromkeys(each for each in (*stable, *same, *near) if each in known))


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower()


def is_typo(wrong: str, right: str, known: LabelColumn) -> bool:
    """Whether one value is probably meant where another is written, which no node has."""
    if wrong in known.values:
        return False
    return wrong.lower() == right.lower() or bool(get_close_matches(wrong, [right], cutoff=0.7))


def _label_node(site: Site, key: str, value: str) -> Iterator[Fix]:
    if key.startswith(OWN_NAMES) or key in RENAMED:
        return
    node = site.cycle.view.nodes.objects[site.at]
    name = node.metadata.name
    before = node.metadata.labels.get(key)

    def change(found: Node) -> Node:
        return replace(found, metadata=replace(found.metadata, labels={**found.metadata.labels, key: value}))

    instead = f" instead of {before}" if before is not None else ""
    yield Fix(
        "LabelNode",
        (name, key, value),
        f"label node {name} with {key}={value}{instead}",
        "operator",
        on_node(node, change),
        LABEL,
        f"node {name} is no longer one with {key}={before}" if before is not None else "",
        commands=(f"kubectl label node {name} {key}={value}{' --overwrite' * (before is not None)}",),
        variant_of=(key, value),
        where=name,
    )


# -- required terms of the node affinity -----------------------------------------------------------------------------


def _terms(site: Site, fact: NodeAffinityUnmet) -> Iterator[Fix]:
    pod = site.trial.pod
    for number, lacks in enumerate(fact.terms):
        if lacks:
            yield from _term(site, number, lacks[0])
    yield Fix(
        "SoftenNodeAffinity",
        "all",
        "prefer the nodes of its required node affinity instead of requiring them",
        "author",
        on_pod(pod, _softened),
        SOFTEN,
        ANYWHERE,
    )


def _term(site: Site, number: int, wanted: Wanted) -> Iterator[Fix]:
    """The first thing that the node lacks of a term."""
    pod, nodes = site.trial.pod, site.cycle.view.nodes
    if wanted.field:
        return
    old = SelectorRequirement(wanted.key, wanted.operator, wanted.values or None)
    for right in near_keys(wanted.key, nodes):
        text = f"require the label {right} instead of {wanted.key}"
        edits = on_pod(pod, _with_requirement(number, old, replace(old, key=right)))
        yield Fix("CorrectNodeAffinity", (number, wanted.key, right), text, "author", edits, CORRECT)
    if wanted.operator == "In" and wanted.found is not None:
        column = nodes.label(wanted.key)
        near = next((value for value in wanted.values if is_typo(value, wanted.found, column)), "")
        values = (
            tuple(wanted.found if v == near else v for v in wanted.values) if near else (*wanted.values, wanted.found)
        )
        text = f"require {wanted.key}={wanted.found}" + (f" instead of {near}" if near else " or what it requires")
        edits = on_pod(pod, _with_requirement(number, old, replace(old, values=values)))
        kind, cost, weakens = (
            ("CorrectNodeAffinity", CORRECT, "") if near else ("WidenNodeAffinity", DROP - 1, ANYWHERE)
        )
        yield Fix(kind, (number, wanted.key, values), text, "author", edits, cost, weakens)
    if wanted.operator == "In" and wanted.values:
        yield from _label_node(site, wanted.key, wanted.values[0])
    text = f"do not require {_in_words(wanted)} of nodes"
    edits = on_pod(pod, _with_requirement(number, old, None))
    yield Fix("DropNodeAffinity", (number, old.key, old.operator, old.values), text, "author", edits, DROP, ANYWHERE)


def _in_words(wanted: Wanted) -> str:
    match wanted.operator:
        case "Exists":
            return wanted.key
        case "DoesNotExist":
            return f"no {wanted.key}"
    return f"{wanted.key} {wanted.operator} {','.join(wanted.values)}"


def _with_requirement(number: int, old: SelectorRequirement, new: SelectorRequirement | None) -> Callable[[Pod], Pod]:
    """One expression of a required term in another form, or left out; a term of which nothing is left goes."""

    def change(pod: Pod) -> Pod:
        terms = list(_required(pod))
        if number >= len(terms):
            return pod
        found = list(terms[number].match_expressions)
        place = next((i for i, each in enumerate(found) if _same(each, old)), None)
        if place is None:
            return pod
        found[place : place + 1] = [] if new is None else [new]
        terms[number] = replace(terms[number], match_expressions=tuple(found))
        if not terms[number].match_expressions and not terms[number].match_fields:
            terms = []  # a term that requires nothing would match nothing: as one of several it allows all nodes
        return _with_terms(pod, tuple(terms))

    return change


def _same(one: SelectorRequirement, other: SelectorRequirement) -> bool:
    return (one.key, one.operator, one.values or ()) == (other.key, other.operator, other.values or ())


def _required(pod: Pod) -> Terms:
    own = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    return required.node_selector_terms if required else ()


def _with_terms(pod: Pod, terms: Terms, preferred: Sequence[PreferredSchedulingTerm] = ()) -> Pod:
    """The pod with these required terms, none for all nodes, and with more preferred ones."""
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    own = affinity.node_affinity
    own = replace(
        own,
        required_during_scheduling_ignored_during_execution=NodeSelector(terms) if terms else None,
        preferred_during_scheduling_ignored_during_execution=(
            *own.preferred_during_scheduling_ignored_during_execution,
            *preferred,
        ),
    )
    empty = own == type(own)()
    left: Affinity | None = replace(affinity, node_affinity=None if empty else own)
    return replace(pod, spec=replace(pod.spec, affinity=None if left == Affinity() else left))


def _softened(pod: Pod) -> Pod:
    return _with_terms(
        pod, (), [PreferredSchedulingTerm(100, term) for term in _required(pod) if not term.match_fields]
    )
