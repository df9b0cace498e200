"""Fixes for topology spread constraints: allow more skew, or count other domains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Row
from kschedctl.api.objects import Pod, Taint, TopologySpreadConstraint
from kschedctl.api.ownership import TEMPLATE_HASH, has_template_hash
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.fixes.trial.changes import Fix, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import neighbours
from kschedctl.fixes.ways.neighbours import find_domain_counts
from kschedctl.fixes.ways.node_labels import iter_other_topologies, iter_role_label_fixes
from kschedctl.fixes.ways.taints import reports_condition
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts, TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

CORRECT, ROLLOUT, HONOUR, MIN_DOMAINS, MORE_SKEW, ANYWAY = 10, 12, 15, 40, 45, 55
"""The costs of the fixes."""
UNEVEN_TEXT = "pods may be spread less evenly over {key}"
MOST_DOMAINS = 3
"""The most label values that are proposed for a node without the topology label."""


def iter_spread_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for a node that a hard spread constraint rejects.

    If the skew is too large, the constraints on the topology key are relaxed. If the node lacks the topology label, the
    constraints get another key or become preferences, or the node gets the label.
    """
    match rejection.fact:
        case TooSkewed(key=key) as fact:
            for index, constraint in _find_hard_constraints(trial_node.trial.pod, key):
                yield from _iter_relaxation_fixes(trial_node, index, constraint, fact)
        case TopologyLabelMissing(key=key):
            for index, constraint in _find_hard_constraints(trial_node.trial.pod, key):
                yield from _iter_topology_key_fixes(trial_node, index, constraint)
                yield _build_soft_constraint_fix(trial_node, index, constraint)
            for value in _find_values_of_emptiest_domains(trial_node, key):
                yield from iter_role_label_fixes(trial_node, key, value)


def _find_hard_constraints(pod: Pod, key: str) -> list[tuple[int, TopologySpreadConstraint]]:
    """Return the hard constraints on this topology key, each with its index in the pod's spec."""
    return [
        (index, constraint)
        for index, constraint in enumerate(pod.spec.topology_spread_constraints)
        if constraint.topology_key == key and constraint.when_unsatisfiable == HARD
    ]


def _find_values_of_emptiest_domains(trial_node: TrialNode, key: str) -> list[str]:
    """Return up to `MOST_DOMAINS` values of a node label, those of the least crowded domains first.

    The values are in no particular order if no pods were counted by this label.
    """
    column = trial_node.cycle.view.nodes.label(key)
    domain_counts = next((counts for counts in find_domain_counts(trial_node) if counts.column is column), None)
    if domain_counts is None:
        return list(column.values[:MOST_DOMAINS])
    least_crowded_codes = domain_counts.counts.argsort(kind="stable")[:MOST_DOMAINS].tolist()
    return [column.values[code] for code in least_crowded_codes]


def _get_domain_counts(trial_node: TrialNode, index: int) -> DomainCounts | None:
    """Return the domain counts of the pod's hard constraint at this index, or None if PreFilter computed none."""
    earlier_constraints = trial_node.trial.pod.spec.topology_spread_constraints[:index]
    hard_index = sum(constraint.when_unsatisfiable == HARD for constraint in earlier_constraints)
    domain_counts = find_domain_counts(trial_node)  # one for each hard constraint
    return domain_counts[hard_index] if hard_index < len(domain_counts) else None


def _iter_relaxation_fixes(
    trial_node: TrialNode, index: int, constraint: TopologySpreadConstraint, fact: TooSkewed
) -> Iterator[Fix]:
    """Yield fixes that relax the constraint at this index, if the pod would violate it on the tried node.

    Fixes that count fewer pods or domains come first. They are followed by fixes that lower minDomains, raise maxSkew,
    or turn the constraint into a preference.
    """
    counts = _get_domain_counts(trial_node, index)
    if counts is None:
        return
    skew = _find_skew_to_allow(trial_node, counts, constraint, fact)
    if skew <= constraint.max_skew:
        return
    yield from _iter_narrower_counting_fixes(trial_node, index, constraint, counts)

    key = constraint.topology_key
    loss_text = UNEVEN_TEXT.format(key=key)
    domain_count = max(int(counts.exists.sum()), 1)
    if constraint.min_domains is not None and constraint.min_domains > domain_count:
        text = f"lower minDomains from {constraint.min_domains} to {domain_count} for {key}"
        yield _build_constraint_field_fix(
            trial_node, index, FixKind.MIN_DOMAINS, text, MIN_DOMAINS, weakens=loss_text, min_domains=domain_count
        )
    text = f"raise maxSkew from {constraint.max_skew} to {skew} for {key}"
    yield _build_constraint_field_fix(
        trial_node, index, FixKind.MAX_SKEW, text, MORE_SKEW, weakens=loss_text, max_skew=skew
    )
    yield _build_soft_constraint_fix(trial_node, index, constraint)


def _iter_narrower_counting_fixes(
    trial_node: TrialNode, index: int, constraint: TopologySpreadConstraint, counts: DomainCounts
) -> Iterator[Fix]:
    """Yield fixes that limit what the constraint counts: pods of the same revision, or nodes that the pod can use.

    A fix is left out if the constraint already has its setting.
    """
    key = constraint.topology_key
    if has_template_hash(trial_node.trial.pod) and TEMPLATE_HASH not in constraint.match_label_keys:
        text = f"spread across {key}, counting only pods of the same revision (matchLabelKeys: {TEMPLATE_HASH})"
        keys = (*constraint.match_label_keys, TEMPLATE_HASH)
        yield _build_constraint_field_fix(
            trial_node, index, FixKind.MATCH_LABEL_KEYS, text, ROLLOUT, match_label_keys=keys
        )
    if constraint.node_taints_policy != "Honor":
        counted_nodes = "nodes whose taints the pod tolerates"
        text = f"spread across {key}, counting only {counted_nodes} (nodeTaintsPolicy: Honor)"
        price = Price.CORRECTION if _is_emptiest_domain_tainted(trial_node, counts) else None
        yield _build_constraint_field_fix(
            trial_node, index, FixKind.NODE_TAINTS_POLICY, text, HONOUR, price=price, node_taints_policy="Honor"
        )
    if constraint.node_affinity_policy == "Ignore":
        counted_nodes = "nodes that match the pod's node selector and affinity"
        text = f"spread across {key}, counting only {counted_nodes} (nodeAffinityPolicy: Honor)"
        yield _build_constraint_field_fix(
            trial_node, index, FixKind.NODE_AFFINITY_POLICY, text, HONOUR, node_affinity_policy="Honor"
        )


def _is_emptiest_domain_tainted(trial_node: TrialNode, counts: DomainCounts) -> bool:
    """Return whether lasting taints keep the pod off all nodes of the domains with the fewest counted pods.

    Such domains should not count. A cordon or a fault is temporary, so that domains with these count again later.
    """
    # Nodes (N,) with lasting taints that the pod does not tolerate. Nodes with the same taints share a taint set.
    taint_sets, set_numbers = trial_node.cycle.view.nodes.taint_sets
    tolerations = trial_node.cycle.info.spec.tolerations
    lasting_sets = [[taint for taint in taints if not _is_temporary(taint)] for taints in taint_sets]
    is_set_untolerated = [
        find_untolerated_taint(taints, tolerations, HARD_EFFECTS) is not None for taints in lasting_sets
    ]
    is_untolerated = np.array(is_set_untolerated, np.bool_)[set_numbers]

    # Nodes (N,) of the domains with the fewest counted pods.
    is_domain_emptiest = counts.exists & (counts.counts == counts.counts[counts.exists].min(initial=0))
    codes = counts.column.codes
    is_in_emptiest = counts.eligible & (codes >= 0) & is_domain_emptiest[codes]
    return bool(is_in_emptiest.any()) and bool(is_untolerated[is_in_emptiest].all())


def _is_temporary(taint: Taint) -> bool:
    """Return whether the taint is a cordon or reports a condition of the node."""
    return taint.key == UNSCHEDULABLE_TAINT.key or reports_condition(taint)


def _find_skew_to_allow(
    trial_node: TrialNode, counts: DomainCounts, constraint: TopologySpreadConstraint, fact: TooSkewed
) -> int:
    """Return the skew that the constraint would have to allow for the pod to fit on the tried node.

    If the fact is about this constraint or an equally strict one, the larger of the computed skew and the fact's skew
    is returned.
    """
    skew = _compute_skew(trial_node, counts, trial_node.known_row)
    if fact.max_skew == constraint.max_skew:  # the fact is about this constraint or an equally strict one
        return max(skew, fact.skew)  # the skew of the fact includes nominated pods
    return skew


def _compute_skew(trial_node: TrialNode, counts: DomainCounts, row: Row) -> int:
    """Return the skew of the domain of the node in this row once the pod is there. Nominated pods are not counted."""
    pod_counts, minimum = counts.compute_counts_and_minimum(None)
    return int(pod_counts[row] + counts.constraint.selects(trial_node.cycle.info) - minimum[row])


def _build_soft_constraint_fix(trial_node: TrialNode, index: int, constraint: TopologySpreadConstraint) -> Fix:
    """Build the fix that turns the constraint at this index into a preference. A preference cannot have minDomains."""
    key = constraint.topology_key
    text = f"prefer to spread across {key} instead of requiring it (whenUnsatisfiable: ScheduleAnyway)"
    loss_text = UNEVEN_TEXT.format(key=key)
    return _build_constraint_field_fix(
        trial_node,
        index,
        FixKind.SCHEDULE_ANYWAY,
        text,
        ANYWAY,
        weakens=loss_text,
        when_unsatisfiable="ScheduleAnyway",
        min_domains=None,
    )


def _iter_topology_key_fixes(trial_node: TrialNode, index: int, constraint: TopologySpreadConstraint) -> Iterator[Fix]:
    """Yield fixes that spread over another topology key, if no node has the label of the constraint's key."""
    for new_key, price in iter_other_topologies(constraint.topology_key, trial_node):
        text = f"spread across {new_key} instead of {constraint.topology_key}"
        yield _build_constraint_field_fix(
            trial_node, index, FixKind.CORRECT_TOPOLOGY_KEY, text, CORRECT, price=price, topology_key=new_key
        )


def _build_constraint_field_fix(
    trial_node: TrialNode,
    index: int,
    kind: FixKind,
    text: str,
    cost: int,
    *,
    weakens: str = "",
    price: Price | None = None,
    **fields: object,
) -> Fix:
    """Build the fix that sets the keyword arguments `fields` of the pod's constraint at this index.

    `text` describes the fix, `cost` ranks it, and `weakens` says what the pod gives up. `price` is None for the usual
    price of the kind of fix.
    """

    def change(pod: Pod) -> Pod:
        """Return the pod with the changed constraint."""
        constraints = list(pod.spec.topology_spread_constraints)
        constraints[index] = replace(constraints[index], **fields)
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=tuple(constraints)))

    target = (index, *fields.items())
    return Fix(
        kind=kind,
        target=target,
        text=text,
        by="author",
        edits=build_pod_edits(trial_node.trial.pod, change),
        cost=cost,
        weakens=weakens,
        price=price,
    )


REMEDIES = {
    PodTopologySpread: PluginRemedies((iter_spread_fixes, neighbours.iter_neighbour_removal_fixes), indirect=True)
}
