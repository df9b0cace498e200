"""Fixes for required node affinity: correct its terms, require less, or label the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.fixes.trial.tried_node import (
    NODE_NAME_FIELD,
    NodeRefusal,
    PluginRemedies,
    TriedNode,
    find_missing_host_with_data,
)
from kschedctl.fixes.ways.node_labels import (
    ANYWHERE,
    CORRECT,
    DROP,
    OTHER_HOST,
    WIDEN,
    describe_loss,
    find_similar_keys,
    fix_runtime_class,
    fix_selector,
    is_misspelt,
    label_node,
    unlabel_node,
)
from kschedctl.scheduler.framework.facts import Wanted
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityUnmet
from kschedctl.snapshot.node_order import HOSTNAME

SOFTEN = 55
Terms = tuple[NodeSelectorTerm, ...]


class OwnRequirement(NamedTuple):
    """A requirement of the pod: of which term, whether on a ``field``, and how it is written."""

    term: int
    field: bool
    written: SelectorRequirement

    @property
    def text(self) -> str:
        """``disktype In ssd``."""
        own = self.written
        match own.operator:
            case "Exists":
                return own.key
            case "DoesNotExist":
                return f"no {own.key}"
        return f"{own.key} {own.operator} {','.join(own.values or ())}"


def fix_node_affinity(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes for the selector labels that the node lacks, then for the required terms."""
    fact = refusal.fact
    if isinstance(fact, NodeAffinityUnmet):
        for wanted in fact.selector:
            yield from fix_runtime_class(tried, wanted)
            yield from fix_selector(tried, wanted)
        if not fact.selector and _may_be_unpinned(tried.trial):
            yield from _fix_terms(tried, fact)
            yield _prefer_terms(tried)
    elif tried.row is None and find_required_terms(tried.trial.pod) and _may_be_unpinned(tried.trial):
        yield from _drop_conflicting_fields(tried)
        yield _prefer_terms(tried)


def find_host_of_terms(trial: RemedyTrial) -> str:
    """Return the host with files of the pod that its required terms name and that is gone, empty for none."""
    written = [
        each for term in find_required_terms(trial.pod) for each in (*term.match_fields, *term.match_expressions)
    ]
    named = [(each.key, each.values) for each in written if each.operator == "In" and each.values]
    return next(filter(None, (find_missing_host_with_data(trial, key, values) for key, values in named)), "")


def _may_be_unpinned(trial: RemedyTrial) -> bool:
    """Return whether the required terms may be given up: not those of a DaemonSet's pod, nor those of lost files."""
    return find_owner(trial.pod).kind != "DaemonSet" and not find_host_of_terms(trial)


def _drop_conflicting_fields(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes that drop a field requirement, for terms whose fields name no common node."""
    for number, term in enumerate(find_required_terms(tried.trial.pod)):
        for written in term.match_fields:
            yield _drop_requirement(tried, OwnRequirement(number, True, written))


def _fix_terms(tried: TriedNode, fact: NodeAffinityUnmet) -> Iterator[Fix]:
    """Yield fixes for the first requirement of each term that the node does not meet."""
    for number, lacks in enumerate(fact.terms):
        if lacks:
            wanted = lacks[0]
            written = SelectorRequirement(wanted.key, wanted.operator, wanted.values or None)
            own = OwnRequirement(number, wanted.field, written)
            if not wanted.field:
                yield from _fix_label(tried, own, wanted)
            if wanted.found is not None:
                yield from _allow_value(tried, own, wanted, wanted.found)
            yield _drop_requirement(tried, own)


def _fix_label(tried: TriedNode, own: OwnRequirement, wanted: Wanted) -> Iterator[Fix]:
    """Yield fixes that correct the required label, or change the node's labels to match."""
    for right in find_similar_keys(wanted.key, tried):
        text = f"require the label {right} instead of {wanted.key}"
        edits = on_pod(tried.trial.pod, _with_requirement(own, replace(own.written, key=right)))
        yield Fix(FixKind.CORRECT_NODE_AFFINITY, (own.term, wanted.key, right), text, "author", edits, CORRECT)
    match wanted.operator:
        case "In" if wanted.values:
            yield from label_node(tried, wanted.key, wanted.values[0])
        case "Exists":
            yield from label_node(
                tried, wanted.key, next(iter(tried.cycle.view.nodes.label(wanted.key).values), "true")
            )
        case "DoesNotExist":
            yield from unlabel_node(tried, wanted.key)


def _allow_value(tried: TriedNode, own: OwnRequirement, wanted: Wanted, name: str) -> Iterator[Fix]:
    """Yield the fix that allows the node's value, in place of a misspelt value or in addition to the required ones."""
    nodes, values = tried.cycle.view.nodes, wanted.values
    known = nodes.names if wanted.field else nodes.label(wanted.key).values
    near = ""
    if wanted.operator == "In":
        near = next((v for v in values if is_misspelt(wanted.key, v, name, known)), "")
    allowed: tuple[str, ...] = ()
    match wanted.operator:
        case "In" if wanted.field:
            allowed = (name,)  # the API allows for one name
        case "In":
            allowed = tuple(name if v == near else v for v in values) if near else (*values, name)
        case "NotIn":
            allowed = tuple(v for v in values if v != name)
        case "Gt" | "Lt" if name.lstrip("-").isdigit():
            allowed = (str(int(name) + (-1 if wanted.operator == "Gt" else 1)),)
    if allowed:
        asked = own._replace(written=replace(own.written, values=allowed))
        edits = on_pod(tried.trial.pod, _with_requirement(own, asked.written))
        target, text = (
            (own.term, wanted.key, wanted.operator, allowed),
            f"require {asked.text} of nodes instead of {own.text}",
        )
        if near:
            yield Fix(FixKind.CORRECT_NODE_AFFINITY, target, text, "author", edits, CORRECT)
        else:
            weakens, price = _describe_loss(own.written)
            cost = OTHER_HOST if wanted.key in (HOSTNAME, NODE_NAME_FIELD) else WIDEN
            yield Fix(
                FixKind.WIDEN_NODE_AFFINITY, target, text, "author", edits, cost, weakens, (), target[:3], name, price
            )


def _describe_loss(written: SelectorRequirement) -> tuple[str, Price | None]:
    """Return what is given up without the requirement, and its price."""
    values = (written.values or ()) if written.operator == "In" else ()
    return next((effect for value in values if (effect := describe_loss(written.key, value))[1]), (ANYWHERE, None))


def _drop_requirement(tried: TriedNode, own: OwnRequirement) -> Fix:
    """Build the fix that drops the requirement."""
    edits = on_pod(tried.trial.pod, _with_requirement(own, None))
    text = f"do not require nodes with {own.text}"
    target = (own.term, own.field, own.written.key, own.written.operator, own.written.values)
    weakens, price = _describe_loss(own.written)
    return Fix(FixKind.DROP_NODE_AFFINITY, target, text, "author", edits, DROP, weakens, price=price)


def _prefer_terms(tried: TriedNode) -> Fix:
    """Build the fix that turns required terms into preferred ones."""

    def change(pod: Pod) -> Pod:
        wishes = [PreferredSchedulingTerm(100, term) for term in find_required_terms(pod) if not term.match_fields]
        return _with_terms(pod, (), wishes)

    text = "prefer the nodes of its required node affinity instead of requiring them"
    written = [expression for term in find_required_terms(tried.trial.pod) for expression in term.match_expressions]
    weakens, price = next(
        (effect for requirement in written if (effect := _describe_loss(requirement))[1]), (ANYWHERE, None)
    )
    edits = on_pod(tried.trial.pod, change)
    return Fix(FixKind.SOFTEN_NODE_AFFINITY, "all", text, "author", edits, SOFTEN, weakens, price=price)


def _with_requirement(own: OwnRequirement, new: SelectorRequirement | None) -> Callable[[Pod], Pod]:
    """Return a change that replaces or drops one requirement, and terms that become empty."""
    part = "match_fields" if own.field else "match_expressions"

    def change(pod: Pod) -> Pod:
        terms = list(find_required_terms(pod))
        if own.term >= len(terms):
            return pod
        terms_before = list(getattr(terms[own.term], part))
        place = next((i for i, term in enumerate(terms_before) if _is_same(term, own.written)), None)
        if place is None:
            return pod
        terms_before[place : place + 1] = [] if new is None else [new]
        terms[own.term] = replace(terms[own.term], **{part: tuple(terms_before)})
        if not terms[own.term].match_expressions and not terms[own.term].match_fields:
            terms = []  # a term that requires nothing would match nothing: as one of several it allows all nodes
        return _with_terms(pod, tuple(terms))

    return change


def _is_same(one: SelectorRequirement, other: SelectorRequirement) -> bool:
    """Return whether two requirements are equal."""
    return (one.key, one.operator, one.values or ()) == (other.key, other.operator, other.values or ())


def find_required_terms(pod: Pod) -> Terms:
    """Return the pod's required node affinity terms."""
    own = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = own.required_during_scheduling_ignored_during_execution if own else None
    return terms.node_selector_terms if terms else ()


def _with_terms(pod: Pod, terms: Terms, preferred: Sequence[PreferredSchedulingTerm] = ()) -> Pod:
    """Return the pod with these required terms and additional preferred ones."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
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


REMEDIES = {NodeAffinity: PluginRemedies((fix_node_affinity,), facts_tell_all=True)}
