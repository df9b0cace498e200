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
from kschedctl.api.objects import (
    NodeAffinity as NodeAffinitySpec,
)
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import Fix, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import (
    NODE_NAME_FIELD,
    NodeRejection,
    PluginRemedies,
    TrialNode,
    find_missing_host_with_files,
)
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.fixes.ways.node_labels import (
    ANYWHERE,
    CORRECT,
    DROP,
    OTHER_HOST,
    WIDEN,
    build_role_label_removal_fix,
    describe_label_loss,
    find_similar_keys,
    is_misspelled,
    iter_role_label_fixes,
    iter_runtime_class_fixes,
    iter_selector_fixes,
)
from kschedctl.scheduler.framework.facts import Wanted
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityUnmet
from kschedctl.snapshot.nodes import HOSTNAME

SOFTEN = 55
Terms = tuple[NodeSelectorTerm, ...]


class LocatedRequirement(NamedTuple):
    """A node affinity requirement of the pod and its place."""

    term: int
    """The index of the required term that contains it."""
    field: bool
    """True if it is one of the term's matchFields rather than its matchExpressions."""
    requirement: SelectorRequirement
    """The requirement as the pod's spec has it."""

    @property
    def text(self) -> str:
        """The requirement as users read it, such as ``disktype In ssd``."""
        requirement = self.requirement
        match requirement.operator:
            case "In" if self.field:
                return f"node {' or '.join(requirement.values or ())}"
            case "Exists":
                return requirement.key
            case "DoesNotExist":
                return f"no {requirement.key}"
        return f"{requirement.key} {requirement.operator} {','.join(requirement.values or ())}"


def iter_node_affinity_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for a node that the pod's nodeSelector or required node affinity rejects.

    If the node lacks labels of the nodeSelector, all fixes are about these labels. Otherwise, fixes change the required
    terms, label the node, or make the terms preferred. Nothing is yielded for terms that the fixes may not drop.
    """
    fact = rejection.fact
    if isinstance(fact, NodeAffinityUnmet):
        for unmet in fact.selector:
            yield from iter_runtime_class_fixes(trial_node, unmet)
            yield from iter_selector_fixes(trial_node, unmet)
        if not fact.selector and _may_drop_terms(trial_node.trial):
            yield from _iter_affinity_term_fixes(trial_node, fact)
            yield _build_preferred_terms_fix(trial_node)
    elif (
        trial_node.stands_for_all_nodes
        and find_required_terms(trial_node.trial.pod)
        and _may_drop_terms(trial_node.trial)
    ):
        yield from _iter_field_removal_fixes(trial_node)
        yield _build_preferred_terms_fix(trial_node)


def find_missing_required_host(trial: RemedyTrial) -> str:
    """Return the missing host that the required terms name and whose files the pod used, or "" if there is none."""
    for term in find_required_terms(trial.pod):
        for requirement in (*term.match_fields, *term.match_expressions):
            if requirement.operator == "In" and requirement.values:
                host = find_missing_host_with_files(trial, requirement.key, requirement.values)
                if host:
                    return host
    return ""


def _may_drop_terms(trial: RemedyTrial) -> bool:
    """Return whether the pod's required terms may be given up.

    A DaemonSet pod needs its terms, because it belongs on one node. A pod that has files on a missing host also needs
    them.
    """
    return find_owner(trial.pod).kind != "DaemonSet" and not find_missing_required_host(trial)


def _iter_field_removal_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield a fix for each field requirement of the pod's required terms that drops the requirement."""
    for number, term in enumerate(find_required_terms(trial_node.trial.pod)):
        for requirement in term.match_fields:
            yield _build_requirement_removal_fix(
                trial_node, LocatedRequirement(number, field=True, requirement=requirement)
            )


def _iter_affinity_term_fixes(trial_node: TrialNode, fact: NodeAffinityUnmet) -> Iterator[Fix]:
    """Yield fixes for each term's first requirement that the node does not meet.

    They correct the label key or value in the term, label the node, allow the node's value, or drop the requirement.
    """
    for number, unmet_requirements in enumerate(fact.terms):
        if unmet_requirements:
            unmet = unmet_requirements[0]
            requirement = SelectorRequirement(unmet.key, unmet.operator, unmet.values or None)
            located = LocatedRequirement(number, unmet.field, requirement)
            is_label = not unmet.field  # otherwise, it is in matchFields
            if is_label:
                yield from _iter_label_mismatch_fixes(trial_node, located, unmet)
            if unmet.found is not None:
                yield from _iter_allowed_value_fixes(trial_node, located, unmet, unmet.found)
            yield _build_requirement_removal_fix(trial_node, located)


def _iter_label_mismatch_fixes(trial_node: TrialNode, located: LocatedRequirement, unmet: Wanted) -> Iterator[Fix]:
    """Yield fixes that correct the requirement's label key in the pod, or that add or remove the label of the node.

    The node's labels are changed only for the operators In, Exists and DoesNotExist.
    """
    for similar_key in find_similar_keys(unmet.key, trial_node):
        text = f"require the label {similar_key} instead of {unmet.key}"
        edits = build_pod_edits(
            trial_node.trial.pod, _build_requirement_change(located, replace(located.requirement, key=similar_key))
        )
        yield Fix(
            kind=FixKind.CORRECT_NODE_AFFINITY,
            target=(located.term, unmet.key, similar_key),
            text=text,
            by="author",
            edits=edits,
            cost=CORRECT,
        )
    match unmet.operator:
        case "In" if unmet.values:
            # The label can have one value only, and any listed value meets the requirement
            yield from iter_role_label_fixes(trial_node, unmet.key, unmet.values[0])
        case "Exists":
            existing_values = trial_node.cycle.view.nodes.label(unmet.key).values
            yield from iter_role_label_fixes(trial_node, unmet.key, next(iter(existing_values), "true"))
        case "DoesNotExist":
            if removal_fix := build_role_label_removal_fix(trial_node, unmet.key):
                yield removal_fix


def _iter_allowed_value_fixes(
    trial_node: TrialNode, located: LocatedRequirement, unmet: Wanted, node_value: str
) -> Iterator[Fix]:
    """Yield the fix that allows the node's value, instead of a misspelled value or in addition to the other values.

    Nothing is yielded if no values of this operator accept the node.
    """
    misspelled_value = _find_misspelled_value(trial_node, unmet, node_value)
    allowed = _compute_allowed_values(unmet, node_value, misspelled_value)
    if not allowed:
        return
    corrected = located._replace(requirement=replace(located.requirement, values=allowed))
    edits = build_pod_edits(trial_node.trial.pod, _build_requirement_change(located, corrected.requirement))
    target = (located.term, unmet.key, unmet.operator, allowed)
    if misspelled_value:
        text = f"require {corrected.text} instead of {located.text}"
        yield Fix(kind=FixKind.CORRECT_NODE_AFFINITY, target=target, text=text, by="author", edits=edits, cost=CORRECT)
        return

    match unmet.operator:
        case "In" if not unmet.field:
            text = f"also allow nodes with {unmet.key}={node_value}"
        case "NotIn":
            text = f"no longer exclude nodes with {unmet.key}={node_value}"
        case _:
            text = f"require {corrected.text} instead of {located.text}"
    weakens, price = _price_requirement_loss(located.requirement)
    yield Fix(
        kind=FixKind.WIDEN_NODE_AFFINITY,
        target=target,
        text=text,
        by="author",
        edits=edits,
        cost=OTHER_HOST if unmet.key in (HOSTNAME, NODE_NAME_FIELD) else WIDEN,
        weakens=weakens,
        variant_of=(located.term, unmet.key, unmet.operator),
        where=node_value,
        price=price,
    )


def _find_misspelled_value(trial_node: TrialNode, unmet: Wanted, node_value: str) -> str:
    """Return the value of an In requirement that is probably a misspelling of the node's value, or an empty string."""
    if unmet.operator != "In":
        return ""
    nodes = trial_node.cycle.view.nodes
    known_values = nodes.names if unmet.field else nodes.label(unmet.key).values
    return next((value for value in unmet.values if is_misspelled(unmet.key, value, node_value, known_values)), "")


def _compute_allowed_values(unmet: Wanted, node_value: str, misspelled_value: str) -> tuple[str, ...]:
    """Return the requirement's values, changed so that it accepts the node, or () if this is impossible.

    For In and NotIn, the node's value is added or removed, or it replaces the misspelled value if there is one. For Gt
    and Lt, the bound is moved to the number next to the node's value.
    """
    values = unmet.values
    is_number = node_value.lstrip("-").isdigit()
    match unmet.operator:
        case "In" if unmet.field:
            allowed = [node_value]  # the API allows only one node name
        case "In" if misspelled_value:
            allowed = [node_value if value == misspelled_value else value for value in values]
        case "In":
            allowed = [*values, node_value]
        case "NotIn":
            allowed = [value for value in values if value != node_value]
        case "Gt" if is_number:
            allowed = [str(int(node_value) - 1)]
        case "Lt" if is_number:
            allowed = [str(int(node_value) + 1)]
        case _:
            allowed = []
    return tuple(allowed)


def _price_requirement_loss(requirement: SelectorRequirement) -> tuple[str, Price | None]:
    """Describe what the pod gives up without the requirement, and return the price of that loss.

    Some values have a price of their own, such as the platform that the pod's image is built for. For all others, the
    price is None, which stands for the fix's usual price.
    """
    if requirement.operator == "In":
        for value in requirement.values or ():
            loss, price = describe_label_loss(requirement.key, value)
            if price is not None:
                return loss, price
    return ANYWHERE, None


def _build_requirement_removal_fix(trial_node: TrialNode, located: LocatedRequirement) -> Fix:
    """Build the fix that drops the requirement from its term of the pod's required node affinity."""
    edits = build_pod_edits(trial_node.trial.pod, _build_requirement_change(located, new_requirement=None))
    text = f"remove {located.text} from the required node affinity"
    target = (
        located.term,
        located.field,
        located.requirement.key,
        located.requirement.operator,
        located.requirement.values,
    )
    weakens, price = _price_requirement_loss(located.requirement)
    return Fix(
        kind=FixKind.DROP_NODE_AFFINITY,
        target=target,
        text=text,
        by="author",
        edits=edits,
        cost=DROP,
        weakens=weakens,
        price=price,
    )


def _build_preferred_terms_fix(trial_node: TrialNode) -> Fix:
    """Build the fix that turns the required terms into preferred terms. Terms with field requirements are dropped."""

    def change(pod: Pod) -> Pod:
        """Return the pod with preferred terms of the highest weight instead of required terms."""
        preferred_terms = [
            PreferredSchedulingTerm(weight=100, preference=term)
            for term in find_required_terms(pod)
            if not term.match_fields
        ]
        return _set_affinity_terms(pod, terms=(), preferred=preferred_terms)

    # The first requirement whose loss has a price of its own decides the price.
    losses = [
        _price_requirement_loss(requirement)
        for term in find_required_terms(trial_node.trial.pod)
        for requirement in term.match_expressions
    ]
    weakens, price = next(((loss, price) for loss, price in losses if price is not None), (ANYWHERE, None))
    text = "make the pod's required node affinity a preference"
    edits = build_pod_edits(trial_node.trial.pod, change)
    return Fix(
        kind=FixKind.SOFTEN_NODE_AFFINITY,
        target="all",
        text=text,
        by="author",
        edits=edits,
        cost=SOFTEN,
        weakens=weakens,
        price=price,
    )


def _build_requirement_change(
    located: LocatedRequirement, new_requirement: SelectorRequirement | None
) -> Callable[[Pod], Pod]:
    """Return a function that replaces the requirement in a pod, or drops it if `new_requirement` is None.

    If the term becomes empty, all terms are dropped, as an empty term would match no node. The pod stays as it is if it
    does not have the requirement.
    """
    field_name = "match_fields" if located.field else "match_expressions"

    def change(pod: Pod) -> Pod:
        """Return the pod with the changed term."""
        terms = list(find_required_terms(pod))
        if located.term >= len(terms):
            return pod
        requirements = list(getattr(terms[located.term], field_name))
        index = next(
            (i for i, other in enumerate(requirements) if _are_requirements_equal(other, located.requirement)), None
        )
        if index is None:
            return pod
        if new_requirement is None:
            del requirements[index]
        else:
            requirements[index] = new_requirement

        changed_term = replace(terms[located.term], **{field_name: tuple(requirements)})
        if not changed_term.match_expressions and not changed_term.match_fields:
            return _set_affinity_terms(pod, terms=())
        terms[located.term] = changed_term
        return _set_affinity_terms(pod, tuple(terms))

    return change


def _are_requirements_equal(first: SelectorRequirement, second: SelectorRequirement) -> bool:
    """Return whether the requirements are equal. Missing values (None) equal an empty list of values."""
    return (first.key, first.operator, first.values or ()) == (second.key, second.operator, second.values or ())


def find_required_terms(pod: Pod) -> Terms:
    """Return the pod's required node affinity terms, or () if the pod has no required node affinity."""
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    selector = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    return selector.node_selector_terms if selector else ()


def _set_affinity_terms(pod: Pod, terms: Terms, preferred: Sequence[PreferredSchedulingTerm] = ()) -> Pod:
    """Return the pod with its required node affinity terms replaced and preferred terms added.

    Parts of the affinity that become empty are removed. The pod stays as it is if it has no node affinity.
    """
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    old = affinity.node_affinity
    node_affinity: NodeAffinitySpec | None = replace(
        old,
        required_during_scheduling_ignored_during_execution=NodeSelector(terms) if terms else None,
        preferred_during_scheduling_ignored_during_execution=(
            *old.preferred_during_scheduling_ignored_during_execution,
            *preferred,
        ),
    )

    # Leave out what is empty now.
    if node_affinity == NodeAffinitySpec():
        node_affinity = None
    new_affinity: Affinity | None = replace(affinity, node_affinity=node_affinity)
    if new_affinity == Affinity():
        new_affinity = None
    return replace(pod, spec=replace(pod.spec, affinity=new_affinity))


REMEDIES = {NodeAffinity: PluginRemedies((iter_node_affinity_fixes,), facts_reveal_every_effect=True)}
