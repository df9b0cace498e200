"""NodeAffinity plugin: rejects and scores nodes by the pod's node selector and node affinity and by the profile's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
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
    ADD,
    NODE,
    UPDATE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    adapt_node_hint,
    join_words,
    resolve_node_actions,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.framework.facts import (
    EQUALITY_SIGNS,
    OPERATOR_SYMBOLS,
    CauseScope,
    Fact,
    LabelDemand,
    Wanted,
    describe_unmet,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.plugins.helper.signing import encode
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import match_node_selector
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"
NAME_FIELD = "metadata.name"
NO_POSSIBLE_TERM = "no required node affinity term can match"
MAX_TERMS_SHOWN = 3


class NodeAffinityUnmet(Fact, frozen=True):
    """The requirements of the pod's nodeSelector or required terms that the node does not meet.

    Required terms are listed only if the nodeSelector matches.
    """

    selector: tuple[Wanted, ...] = ()
    """The labels of the nodeSelector that the node lacks."""
    terms: tuple[tuple[Wanted, ...], ...] = ()
    """The unmet requirements of each required term."""

    names_node = True

    def describe(self) -> str:
        """Describe what the pod needs and what the node has, for at most MAX_TERMS_SHOWN terms.

        >>> NodeAffinityUnmet((Wanted("disk", "In", ("ssd",), "hdd"), Wanted("gpu", "In", ("yes",)))).describe()
        'the pod needs disk=ssd and gpu=yes, but the node has disk=hdd and no label gpu'
        >>> NodeAffinityUnmet(terms=((Wanted("zone", "In", ("a",), "c"),), (Wanted("pool", "Exists"),))).describe()
        'the pod needs either zone=a or a label pool, but the node has zone=c and no label pool'
        """
        needs = self._describe_needs("the node")
        return f"the pod {needs}" if needs else NO_POSSIBLE_TERM

    def describe_node(self) -> str:
        """Describe the labels of the node, or the whole fact if it is about no label.

        >>> NodeAffinityUnmet((Wanted("disk", "In", ("ssd",), "hdd"), Wanted("gpu", "In", ("yes",)))).describe_node()
        'disk=hdd, no label gpu'
        """
        unmet = self.selector or [requirement for term in self.terms for requirement in term]
        labels = dict.fromkeys(requirement.describe_label() for requirement in unmet if not requirement.field)
        return ", ".join(labels) or self.describe()

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe what the pod needs, what the named node has instead, and how many nodes do not match.

        >>> scope = CauseScope("w3", "", " (rules out all 12 nodes)", is_example=True, nodes="all 12 nodes")
        >>> NodeAffinityUnmet((Wanted("disk", "In", ("ssd",), "hdd"),)).describe_cause(scope)
        'needs disk=ssd, which rules out all 12 nodes (w3, for example, has disk=hdd)'
        """
        if scope.is_example and scope.nodes:
            needs = self._describe_needs(scope.describe_node(), scope.nodes)
            return needs or f"{NO_POSSIBLE_TERM}{scope.share}"
        needs = self._describe_needs(scope.describe_node())
        return f"{needs or NO_POSSIBLE_TERM}{scope.share}"

    def _describe_needs(self, node: str, share: str = "") -> str:
        """Describe the needs without their subject, the pod, as in "needs disk=ssd, but the node has disk=hdd".

        Return "" if no required term can match any node. `node` is the node as the subject of a clause. If `share` is
        given, such as "all 12 nodes", the text says that the needs rule out these nodes, and the node is only an
        example.
        """
        if self.selector:
            return describe_unmet((self.selector,), node=node, share=share)
        unmet_terms = [term for term in self.terms if term]  # a term without requirements matches no node
        if not unmet_terms:
            return ""
        omitted = len(unmet_terms) - MAX_TERMS_SHOWN
        others = _describe_omitted_terms(omitted) if omitted > 0 else ""
        return describe_unmet(unmet_terms[:MAX_TERMS_SHOWN], others, node, share)

    def list_label_demands(self) -> tuple[LabelDemand, ...]:
        """Return the labels that the pod demands of its node, with the acceptable values.

        These are the labels of the nodeSelector that the node lacks. If the nodeSelector matches, these are the labels
        for which every required term has an unmet In requirement.

        >>> zone_a, zone_b = Wanted("zone", "In", ("a",)), Wanted("zone", "In", ("b",))
        >>> NodeAffinityUnmet(terms=((zone_a,), (zone_b,))).list_label_demands()
        (LabelDemand(what='its node affinity', key='zone', values=('a', 'b'), claim=''),)
        """
        if self.selector:
            return tuple(LabelDemand("its nodeSelector", unmet.key, unmet.values) for unmet in self.selector)
        if not self.terms:
            return ()
        values_by_key_per_term: list[dict[str, tuple[str, ...]]] = []
        for term in self.terms:
            values_by_key_per_term.append({unmet.key: unmet.values for unmet in term if unmet.operator == "In"})
        demands = []
        for key in values_by_key_per_term[0]:
            if all(key in values_by_key for values_by_key in values_by_key_per_term):
                values = chain.from_iterable(values_by_key[key] for values_by_key in values_by_key_per_term)
                demands.append(LabelDemand("its node affinity", key, tuple(values)))
        return tuple(demands)


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that the profile adds to the affinity of every pod."""

    naming: ClassVar[Mapping[str, Naming]] = {"addedAffinity": NodeAffinityTerms}
    added_affinity: NodeAffinityTerms | None = None

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield all validation errors of the added required terms, and the first error of the added preferred terms."""
        affinity = self.added_affinity or NodeAffinityTerms()
        path = "addedAffinity"
        required_terms = affinity.required_during_scheduling_ignored_during_execution
        if required_terms:
            field_path = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
            for term in compile_node_selector(required_terms, field_path).terms:
                yield from term.errors
        field_path = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
        try:
            compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution, field_path)
        except NodeSelectorError as error:
            yield error.what


class NodeAffinity(DeclaredPlugin[RequiredNodeAffinity, CompiledPreferredTerms]):
    """Plugin that rejects nodes that the required terms of node affinity do not match.

    Its scores prefer nodes with the largest sum of weights of matching preferred terms.

    Upstream: pkg/scheduler/framework/plugins/nodeaffinity (v1.36). `added` is the profile's addedAffinity.
    """

    name = "NodeAffinity"
    facts = (NodeAffinityUnmet,)
    without = "nodeSelector and node affinity are ignored, and kubelets reject the pods"
    fixes = "node_affinity"
    next_step = NextStep("CompareLabels", "Compare its nodeSelector and required node affinity with the labels")
    default_weight = 2
    peers = Peers.EXTREMES
    args_type = NodeAffinityArgs
    reads = Reads.NODES

    def __init__(self, added: NodeAffinityTerms | None) -> None:
        added = added or NodeAffinityTerms()
        required = added.required_during_scheduling_ignored_during_execution
        preferred = added.preferred_during_scheduling_ignored_during_execution
        self.added_required = compile_node_selector(required) if required else None
        self.added_preferred = compile_preferred_terms(preferred) if preferred else None

    @classmethod
    def make(cls, args: NodeAffinityArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments, which may have an addedAffinity. The feature gates do not matter."""
        return cls(args.added_affinity)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[RequiredNodeAffinity]:
        """Compile the required terms, and narrow the nodes if every term selects nodes by name.

        Filter is skipped if neither the pod nor the profile requires anything. The pod is rejected as unresolvable if
        every term selects by name but no term allows any name.
        """
        terms = _get_required_terms(info.spec)
        if terms is None and self.added_required is None and not info.spec.node_selector:
            return PRE_FILTER_SKIP
        state = compile_required_node_affinity(info.spec)
        node_names = _find_allowed_node_names(terms) if terms else None
        allows_no_name = node_names is not None and not node_names
        if allows_no_name:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (REASON_CONFLICT,)))
        return PreFilterResult(node_names=node_names, state=state)

    def filter(
        self, info: PodInfo, view: Fork, state: RequiredNodeAffinity | None, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield a rejection of the nodes that the profile's required terms do not match, then one for the pod's terms.

        If PreFilter did not run, the pod's terms are compiled here.
        """
        matches_profile = np.ones(len(view.nodes), np.bool_)
        if self.added_required is not None:
            matches_profile = match_node_selector(view.nodes, self.added_required)
            yield Rejection(~matches_profile, Code.UNRESOLVABLE, REASON_ENFORCED)
        required = state if state is not None else compile_required_node_affinity(info.spec)
        matches_pod = view.nodes.match_required_affinity(required)
        yield Rejection(
            matches_profile & ~matches_pod,
            Code.UNRESOLVABLE,
            REASON,
            lambda row: _build_node_affinity_unmet_fact(info.spec, view, row),
        )

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[CompiledPreferredTerms]:
        """Compile the preferred terms, or skip Score if neither the pod nor the profile has any.

        Raises PluginError for terms that cannot be parsed.
        """
        preferred = _get_preferred_terms(info.spec)
        if not preferred and self.added_preferred is None:
            return PRE_SCORE_SKIP
        try:
            return PreScoreResult(compile_preferred_terms(preferred))
        except NodeSelectorError as error:
            raise PluginError(str(error)) from None

    def score(self, info: PodInfo, view: Fork, state: CompiledPreferredTerms | None, rows: Rows) -> Scores:
        """Return the total weight of the preferred terms that match each node in `rows`.

        These are the pod's terms and the terms that the profile adds. If PreScore did not run, the pod's terms are
        compiled here. PluginError is then raised for terms that cannot be parsed.
        """
        if state is None:
            state = self.pre_score(info, view, rows).state
        total = np.zeros(len(rows), np.int64)
        for terms in (self.added_preferred, state):
            if terms is not None:
                total += view.nodes.weigh_preferred_terms(terms)[rows]
        return total

    def normalize(self, state: CompiledPreferredTerms | None, scores: Scores) -> Scores:
        """Scale the scores so that the highest one is 100."""
        return normalize_by_max(scores)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the node events after which a rejected pod may become schedulable, with their hint."""
        actions = resolve_node_actions(
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates, all_updates_before_1_32=True
        )
        yield ClusterEventWithHint(NODE, actions, adapt_node_hint(self._is_schedulable_after_node_change, gates))

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node now matches the required terms, and is new or did not match the pod's terms before.

        The profile's added terms are compared only with the node as it is now. Raises PluginError for terms that cannot
        be parsed.
        """
        node: Node = change.new
        if self.added_required is not None and not _matches_node(self.added_required, node):
            return False
        required = compile_required_node_affinity(info.spec)
        if not _matches_node(required, node):
            return False
        return change.old is None or not _matches_node(required, change.old)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        demands = _describe_node_demands(info, has_added_affinity=self.added_required is not None)
        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, f"a node with {demands} is added or changes")
            return
        yield WakeTrigger(NODE, ADD, f"a node with {demands} is added")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"the labels of a node change so that it has {demands}")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the pod's node affinity in a canonical form and its nodeSelector, as part of its signature."""
        affinity = info.spec.affinity.node_affinity if info.spec.affinity else None
        signed_affinity = None if affinity is None else _canonicalize_affinity(affinity)
        return {"nodeAffinity": signed_affinity, "nodeSelector": info.spec.node_selector}


def _matches_node(terms: RequiredNodeAffinity | CompiledNodeSelector, node: Node) -> bool:
    """Return whether the terms match the node's labels and name. Raises PluginError for terms that cannot be parsed."""
    try:
        return terms.match(node.metadata.labels, node.metadata.name)
    except NodeSelectorError as error:
        raise PluginError(str(error)) from None


def _get_required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the required terms of the pod's node affinity, or None if it has none."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return None
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if required is None else required.node_selector_terms


def _get_preferred_terms(spec: PodSpec) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the preferred terms of the pod's node affinity, or an empty tuple if it has none."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return ()
    return spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution


def _find_allowed_node_names(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """Return the node names that at least one term allows.

    A term with several requirements on the name allows the names that are in all of them. Return None if some term does
    not restrict the name.
    """
    names: set[str] = set()
    for term in terms:
        name_sets = [
            set(field.values or ()) for field in term.match_fields if field.key == NAME_FIELD and field.operator == "In"
        ]
        if not name_sets:
            return None
        names |= set.intersection(*name_sets)
    return frozenset(names)


def _build_node_affinity_unmet_fact(spec: PodSpec, view: Fork, row: int) -> NodeAffinityUnmet:
    """Build the fact about the labels of the pod's nodeSelector that the node lacks.

    If the nodeSelector matches, the fact is about the unmet requirements of each required term instead.
    """
    labels, name = view.nodes.objects[row].metadata.labels, view.nodes.names[row]
    unmet_labels = tuple(
        Wanted(key, "In", (value,), labels.get(key))
        for key, value in spec.node_selector.items()
        if labels.get(key) != value
    )
    if unmet_labels:
        return NodeAffinityUnmet(unmet_labels)
    required_terms = _get_required_terms(spec) or ()
    unmet_terms = [tuple(_iter_unmet_requirements(term, labels, name)) for term in required_terms]
    return NodeAffinityUnmet(terms=tuple(unmet_terms))


def _iter_unmet_requirements(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> Iterator[Wanted]:
    """Yield the requirements of the term that a node with these labels and this name does not meet.

    No node meets an invalid requirement.
    """
    for requirement in term.match_expressions:
        selector, errors = compile_requirements((requirement,), "")
        if errors or not selector.matches(labels):
            yield Wanted(requirement.key, requirement.operator, requirement.values or (), labels.get(requirement.key))
    for requirement in term.match_fields:
        single_field = compile_node_selector(NodeSelector((NodeSelectorTerm(match_fields=(requirement,)),)))
        if not any(term.matches({}, name) for term in single_field.terms):
            yield Wanted(requirement.key, requirement.operator, requirement.values or (), name, field=True)


def _canonicalize_affinity(affinity: NodeAffinityTerms) -> tuple[list[str], list[str]]:
    """Return the required terms and the preferred terms, both encoded as strings and sorted.

    Affinities that differ only in the order of terms, requirements or values have equal results.
    """
    node_selector = affinity.required_during_scheduling_ignored_during_execution
    required_terms = node_selector.node_selector_terms if node_selector else ()
    required = [encode(_canonicalize_term(term)).decode() for term in required_terms]
    preferred = [
        encode((term.weight, _canonicalize_term(term.preference))).decode()
        for term in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    return sorted(required), sorted(preferred)


def _canonicalize_term(term: NodeSelectorTerm) -> tuple[list[str], list[str]]:
    """Return the matchExpressions and the matchFields of a term, both encoded as strings and sorted."""
    return _canonicalize_requirements(term.match_expressions), _canonicalize_requirements(term.match_fields)


def _canonicalize_requirements(requirements: Iterable[SelectorRequirement]) -> list[str]:
    """Encode the requirements as sorted strings. The order of requirements and of their values does not matter."""
    encoded_requirements = []
    for requirement in requirements:
        values = sorted(requirement.values or ())
        encoded_requirements.append(encode((requirement.key, requirement.operator, values)).decode())
    return sorted(encoded_requirements)


def _describe_node_demands(info: PodInfo, *, has_added_affinity: bool) -> str:
    """Describe the node labels and terms that the pod demands, in words that follow "a node with".

    At most MAX_TERMS_SHOWN required terms are described, and further terms are counted. If `has_added_affinity` is
    true, the profile's addedAffinity is mentioned as well.
    """
    demands = [f"label {key}={value}" for key, value in info.spec.node_selector.items()]
    terms = _get_required_terms(info.spec)
    if terms is not None:
        alternatives = [text for text in map(_describe_term, terms[:MAX_TERMS_SHOWN]) if text]
        if len(terms) > MAX_TERMS_SHOWN:
            alternatives.append(_describe_omitted_terms(len(terms) - MAX_TERMS_SHOWN))
        demands.append(join_words(alternatives, "or") or "labels that no node can have")
    if has_added_affinity:
        demands.append("what the profile's addedAffinity requires")
    return join_words(demands)


def _describe_term(term: NodeSelectorTerm) -> str:
    """Describe the requirements of a term, or return an empty string for a term without requirements."""
    expressions = (f"label {describe_requirement(expression)}" for expression in term.match_expressions)
    fields = (describe_requirement(match_field) for match_field in term.match_fields)
    return " and ".join((*expressions, *fields))


def describe_requirement(requirement: SelectorRequirement) -> str:
    """Describe a requirement, such as `zone=a`, `zone!=a`, `zone in (a, b)` or `cores > 4`."""
    key, operator, values = requirement.key, requirement.operator, requirement.values or ()
    if operator in EQUALITY_SIGNS and len(values) == 1:
        return f"{key}{EQUALITY_SIGNS[operator]}{values[0]}"
    symbol = OPERATOR_SYMBOLS.get(operator, operator)
    if operator in ("Gt", "Lt"):
        return f"{key} {symbol} {', '.join(values)}"
    return f"{key} {symbol} ({', '.join(values)})" if values else f"{key} {symbol}"


def _describe_omitted_terms(number: int) -> str:
    """Return a phrase for a number of terms that a sentence does not describe, as the last alternative."""
    return "another term" if number == 1 else f"one of {number:,} more terms"
