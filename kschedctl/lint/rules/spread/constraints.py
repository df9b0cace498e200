"""Rules about invalid and ineffective topology spread constraints that need nothing but the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.defaults import merge_constraint_label_keys
from kschedctl.api.json_values import object_at
from kschedctl.api.labels import NOTHING, Selector
from kschedctl.api.ownership import ADDED_LABELS, TEMPLATE_HASH
from kschedctl.api.validation.names import validate_label_selector
from kschedctl.api.validation.placement import validate_match_label_keys, validate_min_domains
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.node_requirements import MISTAKEN_LABELS
from kschedctl.lint.analysis.placement import HARD, SOFT, iter_pod_terms, iter_spread_constraints
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import (
    ERROR,
    NOTE,
    WARNING,
    FieldEdit,
    RemoveField,
    Rule,
    RuleProfile,
    for_each_workload,
    replace_label,
)
from kschedctl.scheduler.configuration.version_fields import SPREAD_LABEL_KEYS
from kschedctl.snapshot.nodes import ZONE

_MAX_COMPARED = 50


def find_constraints_without_selector(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with neither labelSelector nor matchLabelKeys."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if constraint.label_selector is None and not constraint.match_label_keys:
            yield workload.build_problem(path, "without labelSelector the constraint counts no pods and does nothing")


TS_NO_SELECTOR = Rule(
    "ts-no-selector",
    WARNING,
    find_constraints_without_selector,
    summary="Spread constraint without labelSelector",
    why="A missing selector matches no pods: every domain counts 0 and the constraint never refuses a node.",
    fix="Add labelSelector with the labels of the pods",
    source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/pull/117025",
)


def find_empty_selectors(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with an empty labelSelector, which counts all pods only since 1.38."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is not None and selector.selects_everything and not constraint.match_label_keys:
            message = "an empty labelSelector counts no pods; since 1.38 all: pods that schedule today may wait then"
            yield workload.build_problem((*path, "labelSelector"), message)


TS_EMPTY_SELECTOR = Rule(
    "ts-empty-selector",
    WARNING,
    find_empty_selectors,
    summary="Spread constraint with an empty labelSelector",
    why="Up to 1.37 it counts no pods and does nothing; since 1.38 it counts all pods of the namespace.",
    fix="Select the pods' own labels, or remove the constraint",
    source="https://github.com/kubernetes/kubernetes/pull/141340",
)


def find_selectors_without_own_pods(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose selector does not match the workload's own pods."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if (
            selector is None
            or selector == NOTHING
            or workload.is_selected_by(selector)
            or not workload.has_known_labels
        ):
            continue
        if not _find_matches_in_other_namespaces(context, workload, selector):
            message = f'selector "{selector}" does not match the pods\' own labels: they are not counted'
            yield workload.build_problem((*path, "labelSelector"), message)


TS_SELECTOR_NOT_SELF = Rule(
    "ts-selector-not-self",
    WARNING,
    find_selectors_without_own_pods,
    summary="Spread constraint whose selector does not match the pods themselves",
    why="Pods that are not counted spread across nothing: they may all go to one domain.",
    fix="Make labelSelector match the labels of the pod template",
    source=f"{doc.SPREAD}#implicit-conventions",
)


def find_selectors_for_other_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose selector only matches pods of other namespaces."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if (
            selector is None
            or selector == NOTHING
            or workload.is_selected_by(selector)
            or not workload.has_known_labels
        ):
            continue
        if matches := _find_matches_in_other_namespaces(context, workload, selector):
            message = f"it counts pods of namespace {workload.namespace} only, not those of {matches[0].subject}"
            yield workload.build_problem((*path, "labelSelector"), message)


TS_CROSS_NAMESPACE = Rule(
    "ts-cross-namespace",
    NOTE,
    find_selectors_for_other_namespaces,
    summary="Spread selector that only matches pods of other namespaces",
    why="Only pods of the pod's own namespace count, so the constraint does nothing.",
    fix="Use pod anti-affinity with namespaces, or put the workloads into one namespace",
    source=f"{doc.SPREAD}#implicit-conventions",
)


def _find_matches_in_other_namespaces(context: LintContext, workload: Workload, selector: Selector) -> list[Workload]:
    """Find the workloads of other namespaces that a selector matches. Return [] if it matches some in its own."""
    if context.select_workloads(workload.namespace, selector):
        return []
    return [
        other for namespace in context.workloads_by_namespace for other in context.select_workloads(namespace, selector)
    ]


def find_invalid_selectors(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose labelSelector the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        faults = validate_label_selector(constraint.label_selector, workload.get_path(*path, "labelSelector"))
        yield from workload.to_problems(faults)


TS_SELECTOR_INVALID = Rule(
    "ts-selector-invalid",
    ERROR,
    find_invalid_selectors,
    summary="Spread constraint with an invalid labelSelector",
    why="The API server refuses such pods; one that is stored already makes every attempt to schedule it fail.",
    fix="Correct the selector",
    source="https://github.com/kubernetes/kubernetes/issues/111791",
)


def find_wrong_topology_keys(workload: Workload) -> Iterator[Problem]:
    """Find topologyKeys that look like node labels but are not."""
    keys: list[tuple[Path, str]] = [(path, term.topology_key) for path, term in iter_pod_terms(workload)]
    for i, constraint in enumerate(workload.spec.topology_spread_constraints):
        keys.append((("topologySpreadConstraints", i), constraint.topology_key))
    for path, key in keys:
        if key in MISTAKEN_LABELS:
            meant = MISTAKEN_LABELS[key]
            yield workload.build_problem((*path, "topologyKey"), f"{key} is not a node label", f"Write {meant}", meant)


TS_WRONG_HOSTNAME_KEY = Rule(
    "ts-wrong-hostname-key",
    ERROR,
    for_each_workload(find_wrong_topology_keys),
    summary="topologyKey that looks like a node label but is not one",
    why="No node has the label: DoNotSchedule and required terms leave pods Pending, others do nothing.",
    fix="Write kubernetes.io/hostname or topology.kubernetes.io/zone",
    source=doc.LABELS,
    safe_fix=replace_label,
)


def find_invalid_min_domains(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with a minDomains that the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        yield from workload.to_problems(validate_min_domains(constraint, workload.get_path(*path)))


def _remove_soft_min_domains(problem: Problem) -> FieldEdit | None:
    """Return the edit that removes minDomains from a ScheduleAnyway constraint, or None for any other constraint.

    A minDomains below 1 in a DoNotSchedule constraint may stand for any other number, so it has no safe fix.
    """
    soft = object_at(problem.subject.document, *problem.path[:-1]).get("whenUnsatisfiable") == SOFT
    return RemoveField(problem.path) if soft and problem.path[-1] == "minDomains" else None


TS_MIN_DOMAINS_SOFT = Rule(
    "ts-min-domains-soft",
    ERROR,
    find_invalid_min_domains,
    summary="minDomains below 1, or together with ScheduleAnyway",
    why="The API server refuses the pods.",
    fix="Remove minDomains, or set whenUnsatisfiable: DoNotSchedule",
    source=f"{doc.SPREAD}; {doc.VALIDATION}",
    safe_fix=_remove_soft_min_domains,
)


def find_unreachable_skews(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose maxSkew is not below the number of replicas."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if workload.is_serving_replicas and constraint.max_skew >= workload.highest_replicas:
            message = f"maxSkew {constraint.max_skew} allows all {workload.highest_replicas} replicas in one domain"
            yield workload.build_problem((*path, "maxSkew"), message)


TS_SKEW_NEVER_BINDS = Rule(
    "ts-skew-never-binds",
    NOTE,
    find_unreachable_skews,
    summary="maxSkew not below the number of replicas",
    why="Such a skew cannot be exceeded: the constraint does nothing.",
    fix="Lower maxSkew; 1 is the usual value",
    source=doc.SPREAD,
)


def find_soft_zone_spread(workload: Workload) -> Iterator[Problem]:
    """Find serving workloads whose only spread constraint by zone is ScheduleAnyway."""
    by_zone = {
        c.when_unsatisfiable: i
        for i, c in enumerate(workload.spec.topology_spread_constraints)
        if c.topology_key == ZONE
    }
    if workload.is_serving_replicas and SOFT in by_zone and HARD not in by_zone:
        path = ("topologySpreadConstraints", by_zone[SOFT], "whenUnsatisfiable")
        yield workload.build_problem(
            path, "spreading across zones is only a preference: all replicas may end up in one zone"
        )


TS_ZONE_SOFT_ONLY = Rule(
    "ts-zone-soft-only",
    NOTE,
    for_each_workload(find_soft_zone_spread),
    summary="Spread across zones only as a preference",
    why="ScheduleAnyway only affects scores: when room is short, all replicas may share a zone, and fail with it.",
    fix="Set whenUnsatisfiable: DoNotSchedule if the workload must survive the loss of a zone",
    source=doc.SPREAD,
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_invalid_label_keys(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with matchLabelKeys that the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        labels = dict.fromkeys(_list_pod_label_keys(workload), "")
        options = context.validation_options
        created = merge_constraint_label_keys(constraint, labels) if options.selector_merge else constraint
        yield from workload.to_problems(validate_match_label_keys(created, workload.get_path(*path), options))


TS_MLK_WITHOUT_SELECTOR = Rule(
    "ts-mlk-without-selector",
    ERROR,
    find_invalid_label_keys,
    summary="matchLabelKeys without labelSelector, or with a key that is in it or is no label",
    why="The API server refuses the pods, where a template with the same key in both is still accepted.",
    fix="Add a labelSelector, and leave out of it the keys in matchLabelKeys",
    source=f"{doc.SPREAD}; {doc.VALIDATION}: ValidateMatchLabelKeysAndMismatchLabelKeys (v1.36)",
)


def find_missing_label_keys(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints of Deployments without pod-template-hash in matchLabelKeys."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if workload.kind != "Deployment" or not workload.is_serving_replicas or constraint.when_unsatisfiable != HARD:
            continue
        if TEMPLATE_HASH not in constraint.match_label_keys and workload.strategy.type != "Recreate":
            yield workload.build_problem(
                path, "pods of the old ReplicaSet count during a rollout, and the new ones end up uneven"
            )


TS_MLK_MISSING = Rule(
    "ts-mlk-missing",
    NOTE,
    find_missing_label_keys,
    summary="Hard spread of a Deployment without matchLabelKeys: [pod-template-hash]",
    why="In a rolling update the pods of the old ReplicaSet count too; when they are gone the new ones are uneven.",
    fix="Add matchLabelKeys: [pod-template-hash]",
    advised_field=SPREAD_LABEL_KEYS,
    source="https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/3243-respect-pod-topology-spread-after-rolling-upgrades",
)


def find_label_keys_not_on_pods(context: LintContext) -> Iterator[Problem]:
    """Find matchLabelKeys that the workload's pods do not have as labels."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        for i, key in enumerate(constraint.match_label_keys):
            if key not in _list_pod_label_keys(workload):
                yield workload.build_problem(
                    (*path, "matchLabelKeys", i), f"the pods have no label {key}: the key is ignored"
                )


TS_MLK_KEY_NOT_ON_POD = Rule(
    "ts-mlk-key-not-on-pod",
    WARNING,
    find_label_keys_not_on_pods,
    summary="matchLabelKeys names a label that the pods do not have",
    why="Such a key is silently ignored.",
    fix="Add the label to the pod template, or correct the key",
    source=doc.SPREAD,
)


def _list_pod_label_keys(workload: Workload) -> set[str]:
    """Return the keys of the labels that the workload's pods have once they are created."""
    return {*workload.labels, *ADDED_LABELS.get(workload.kind, ())}


def find_constraints_counting_other_workloads(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints that also count a workload which differs in one label.

    Both workloads have the constraint. If they do not, ``ts-inconsistent-group`` reports it.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is None or constraint.when_unsatisfiable != HARD or not workload.is_selected_by(selector):
            continue
        distinguishing = set(constraint.match_label_keys)
        others = context.select_coexisting_workloads(workload.subject, workload.namespace, selector)
        for other in others[:_MAX_COMPARED]:
            differing = _list_differing_labels(workload, other)
            has_same_constraint = constraint in other.spec.topology_spread_constraints
            if len(differing) == 1 and has_same_constraint and not distinguishing & {*differing, TEMPLATE_HASH}:
                message = f"it counts the pods of {other.subject} too, which differ in {differing[0]} alone"
                yield workload.build_problem((*path, "labelSelector"), message)
                break


TS_COUNTS_OTHERS = Rule(
    "ts-counts-others",
    WARNING,
    find_constraints_counting_other_workloads,
    summary="Hard spread of two workloads, such as blue and green, that count each other's pods",
    why="Where the one has its pods decides where the other may go: a rollout or a scale-down of one leaves pods "
    "of the other Pending, or all in one domain.",
    fix="Add the label in which they differ to labelSelector, or to matchLabelKeys",
    source=f"{doc.SPREAD}#consistency",
)


def _list_differing_labels(workload: Workload, other: Workload) -> list[str]:
    """Return the labels whose values differ. Return [] if the label keys differ or the workloads have one name."""
    if workload.labels.keys() != other.labels.keys() or str(workload.subject) == str(other.subject):
        return []
    return [key for key in workload.labels if workload.labels[key] != other.labels[key]]
