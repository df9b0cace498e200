"""NodeAffinity: node selectors and node affinity of the pod, and those that the profile adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.node_selector import (
    CompiledNodeSelector,
    CompiledPreferredTerms,
    NodeSelectorError,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred_terms,
    compile_required_node_affinity,
    compile_requirements,
)
from kschedctl.api.objects import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from kschedctl.api.objects import NodeAffinity as NodeAffinityTerms
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    Code,
    Fragment,
    Peers,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Status,
)
from kschedctl.scheduler.framework.arguments import Naming, PluginArgs
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.events import (
    NODE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    adapt_node_hint,
    node_actions,
)
from kschedctl.scheduler.framework.facts import Fact, LabelDemand, Wanted
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.framework.waking import ADD, UPDATE, WakeTrigger, join_words, treats_updated_nodes_as_new
from kschedctl.scheduler.plugins.helper.signing import encode
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_masks import allowed, matching
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
NAME_FIELD = "metadata.name"
TERMS_TOLD = 3
SYMBOLS = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}


class NodeAffinityUnmet(Fact, frozen=True):
    """What the node lacks of the pod's nodeSelector; where it lacks nothing of that, of each of its required terms."""

    selector: tuple[Wanted, ...] = ()
    terms: tuple[tuple[Wanted, ...], ...] = ()

    def words(self) -> str:
        """
        >>> NodeAffinityUnmet((Wanted("disk", "In", ("ssd",), "hdd"), Wanted("gpu", "In", ("yes",)))).words()
        'disk=ssd wanted, hdd found; gpu=yes wanted, no such label found'
        >>> NodeAffinityUnmet(terms=((Wanted("zone", "In", ("a", "b"), "c"), Wanted("pool", "Exists")),)).words()
        'zone In [a, b] wanted, c found and pool Exists wanted, no such label found'
        """
        if self.selector:
            return "; ".join(
                f"{wanted.key}={wanted.values[0]} wanted, {wanted.actual_text()} found" for wanted in self.selector
            )
        unmet = [" and ".join(wanted.words() for wanted in term) for term in self.terms]
        more = f"; or {_more_terms(len(unmet) - TERMS_TOLD)}" if len(unmet) > TERMS_TOLD else ""
        sentence = "; or ".join(filter(None, unmet[:TERMS_TOLD]))
        return f"{sentence}{more}" if sentence else "no required node affinity term can match"

    def demands(self) -> tuple[LabelDemand, ...]:
        """Each label of the nodeSelector; of the terms a label of which all of them want some values.

        >>> NodeAffinityUnmet(terms=((Wanted("zone", "In", ("a",)),), (Wanted("zone", "In", ("b",)),))).demands()
        (Demand(what='its node affinity', key='zone', values=('a', 'b'), claim=''),)
        """
        if self.selector:
            return tuple(LabelDemand("its nodeSelector", unmet.key, unmet.values) for unmet in self.selector)
        wanted = [{unmet.key: unmet.values for unmet in term if unmet.operator == "In"} for term in self.terms]
        keys = (
            key for key in dict.fromkeys(key for term in wanted for key in term) if all(key in term for term in wanted)
        )
        return tuple(
            LabelDemand("its node affinity", key, tuple(value for term in wanted for value in term[key]))
            for key in keys
        )


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has besides its own."""

    naming: ClassVar[Mapping[str, Naming]] = {"addedAffinity": NodeAffinityTerms}
    added_affinity: NodeAffinityTerms | None = None

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        affinity, path = self.added_affinity or NodeAffinityTerms(), "addedAffinity"
        if required_terms := affinity.required_during_scheduling_ignored_during_execution:
            at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
            for term in compile_node_selector(required_terms, at).terms:
                yield from term.errors
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
        try:
            compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution, at)
        except NodeSelectorError as error:
            yield error.what


class NodeAffinity(DeclaredPlugin[RequiredNodeAffinity, CompiledPreferredTerms]):
    """Rejects nodes that the required terms do not match, prefers those with the largest sum of matching weights.

    Upstream: pkg/scheduler/framework/plugins/nodeaffinity (v1.36). ``added`` is the profile's addedAffinity.
    """

    name = "NodeAffinity"
    facts = (NodeAffinityUnmet,)
    without = "nodeSelector and node affinity are ignored, and kubelets refuse the pods"
    next_step = NextStep("CompareLabels", "Compare its nodeSelector and required node affinity with the labels")
    default_weight = 2
    peers = Peers.EXTREMES
    args_type = NodeAffinityArgs
    reads = Reads.NODES

    def __init__(self, added: NodeAffinityTerms | None) -> None:
        required = added.required_during_scheduling_ignored_during_execution if added else None
        preferred = added.preferred_during_scheduling_ignored_during_execution if added else ()
        self.added_required = compile_node_selector(required) if required else None
        self.added_preferred = compile_preferred_terms(preferred) if preferred else None

    @classmethod
    def make(cls, args: NodeAffinityArgs, gates: FeatureGates) -> Self:
        return cls(args.added_affinity)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[RequiredNodeAffinity]:
        terms = _required_terms(info.spec)
        if terms is None and self.added_required is None and not info.spec.node_selector:
            return PRE_FILTER_SKIP
        state = compile_required_node_affinity(info.spec)
        names = _named_nodes(terms) if terms else None
        if names is not None and not names:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (REASON_CONFLICT,)))
        return PreFilterResult(node_names=names, state=state)

    def filter(
        self, info: PodInfo, view: Fork, state: RequiredNodeAffinity | None, delta: Delta
    ) -> Iterator[Rejection]:
        enforced = np.ones(len(view.nodes), np.bool_)
        if self.added_required is not None:
            enforced = matching(view.nodes, self.added_required)
            yield Rejection(~enforced, Code.UNRESOLVABLE, REASON_ENFORCED)
        required = state if state is not None else compile_required_node_affinity(info.spec)
        matched = allowed(view.nodes, required)
        yield Rejection(enforced & ~matched, Code.UNRESOLVABLE, REASON, lambda row: _unmet(info.spec, view, row))

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[CompiledPreferredTerms]:
        preferred = _preferred_terms(info.spec)
        if not preferred and self.added_preferred is None:
            return PRE_SCORE_SKIP
        try:
            return PreScoreResult(compile_preferred_terms(preferred))
        except NodeSelectorError as error:
            raise PluginError(str(error)) from None

    def score(self, info: PodInfo, view: Fork, state: CompiledPreferredTerms | None, rows: Rows) -> Scores:
        if state is None:
            state = self.pre_score(info, view, rows).state
        total = np.zeros(len(rows), np.int64)
        for terms in (self.added_preferred, state):
            if terms is not None:
                total += view.nodes.evaluate(terms.score, terms.keys, terms.names, np.int64).astype(np.int64)[rows]
        return total

    def normalize(self, state: CompiledPreferredTerms | None, scores: Scores) -> Scores:
        return normalize_by_max(scores)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        actions = node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates, broad=True)
        yield ClusterEventWithHint(NODE, actions, adapt_node_hint(self._after_node_change, gates))

    def _after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """A node that the pod's terms match, and that is new or was not matched."""
        node: Node = change.new
        if self.added_required is not None and not _matches(self.added_required, node):
            return False
        wanted = compile_required_node_affinity(info.spec)
        return _matches(wanted, node) and (change.old is None or not _matches(wanted, change.old))

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        wanted = _demanded(info, self.added_required is not None)
        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, f"a node is added, or changes, that has {wanted}")
            return
        yield WakeTrigger(NODE, ADD, f"a node is added with {wanted}")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"a node that did not match gets {wanted}")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        affinity = info.spec.affinity.node_affinity if info.spec.affinity else None
        return {"nodeAffinity": affinity and _signed(affinity), "nodeSelector": info.spec.node_selector}


def _matches(wanted: RequiredNodeAffinity | CompiledNodeSelector, node: Node) -> bool:
    """Raises PluginError for terms that cannot be parsed."""
    try:
        return wanted.match(node.metadata.labels, node.metadata.name)
    except NodeSelectorError as error:
        raise PluginError(str(error)) from None


def _required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    return None if required is None else required.node_selector_terms


def _preferred_terms(spec: PodSpec) -> tuple[PreferredSchedulingTerm, ...]:
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    return node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else ()


def _named_nodes(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The nodes that the terms allow by name; None when some term does not speak of names."""
    names: set[str] = set()
    for term in terms:
        fields = [set(f.values or ()) for f in term.match_fields if f.key == NAME_FIELD and f.operator == "In"]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names)


def _unmet(spec: PodSpec, view: Fork, row: int) -> NodeAffinityUnmet:
    labels = view.nodes.objects[row].metadata.labels
    selector = tuple(
        Wanted(key, "In", (value,), labels.get(key))
        for key, value in spec.node_selector.items()
        if labels.get(key) != value
    )
    if selector:
        return NodeAffinityUnmet(selector)
    terms = _required_terms(spec) or ()
    return NodeAffinityUnmet(terms=tuple(tuple(_unmet_by(term, labels, view.nodes.names[row])) for term in terms))


def _unmet_by(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> Iterator[Wanted]:
    """What a term wants that a node has not."""
    for wanted in term.match_expressions:
        selector, errors = compile_requirements((wanted,), "")
        if errors or not selector.matches(labels):
            yield Wanted(wanted.key, wanted.operator, wanted.values or (), labels.get(wanted.key))
    for wanted in term.match_fields:
        alone = compile_node_selector(NodeSelector((NodeSelectorTerm(match_fields=(wanted,)),)))
        if not any(term.matches({}, name) for term in alone.terms):  # a faulty one matches nothing
            yield Wanted(wanted.key, wanted.operator, wanted.values or (), name, field=True)


def _signed(affinity: NodeAffinityTerms) -> tuple[list[str], list[str]]:
    """The required and the preferred terms, in no order."""
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else ()
    weighted = affinity.preferred_during_scheduling_ignored_during_execution
    preferred = sorted(encode((term.weight, _term(term.preference))).decode() for term in weighted)
    return sorted(encode(_term(term)).decode() for term in terms), preferred


def _term(term: NodeSelectorTerm) -> tuple[list[str], list[str]]:
    return _requirements(term.match_expressions), _requirements(term.match_fields)


def _requirements(requirements: Iterable[SelectorRequirement]) -> list[str]:
    return sorted(
        encode((requirement.key, requirement.operator, sorted(requirement.values or ()))).decode()
        for requirement in requirements
    )


def _demanded(info: PodInfo, added: bool) -> str:
    """What the pod demands of its node: labels, and one of several terms.

    The profile's own demands are told without their terms.
    """
    spec = info.spec
    parts = [f"label {key}={value}" for key, value in spec.node_selector.items()]
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is not None:
        terms = [_term_in_words(term) for term in required.node_selector_terms]
        more = [_more_terms(len(terms) - TERMS_TOLD)] if len(terms) > TERMS_TOLD else []
        parts.append(join_words([*filter(None, terms[:TERMS_TOLD]), *more], "or") or "what no node can have")
    if added:
        parts.append("what the profile's addedAffinity requires")
    return join_words(parts)


def _term_in_words(term: NodeSelectorTerm) -> str:
    expressions = (f"label {_in_words(expression)}" for expression in term.match_expressions)
    fields = (_in_words(match_field) for match_field in term.match_fields)
    return " and ".join((*expressions, *fields))


def _in_words(wanted: SelectorRequirement) -> str:
    values = wanted.values or ()
    if wanted.operator == "In" and len(values) == 1:
        return f"{wanted.key}={values[0]}"
    if wanted.operator in ("Gt", "Lt"):
        return f"{wanted.key} {SYMBOLS[wanted.operator]} {', '.join(values)}"
    listed_values = f" ({', '.join(values)})" if values else ""
    return f"{wanted.key} {SYMBOLS.get(wanted.operator, wanted.operator)}{listed_values}"


def _more_terms(number: int) -> str:
    """Return how many terms a sentence leaves out, as alternatives to the terms that it shows."""
    return "another term" if number == 1 else f"one of {number:,} more terms"
