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
from kschedctl.lint.analysis.placement import HARD, SOFT, iter_pod_affinity_terms, iter_spread_constraints
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
    build_label_replacement,
    for_each_workload,
)
from kschedctl.scheduler.configuration.version_fields import SPREAD_LABEL_KEYS
from kschedctl.snapshot.nodes import ZONE

_MAX_COMPARED = 50


def find_constraints_without_selector(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with neither labelSelector nor matchLabelKeys."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if constraint.label_selector is None and not constraint.match_label_keys:
            yield workload.build_problem(path, "without labelSelector, the constraint counts no pods and has no effect")


TS_NO_SELECTOR = Rule(
    "ts-no-selector",
    WARNING,
    find_constraints_without_selector,
    summary="Spread constraint without labelSelector",
    why="A missing labelSelector matches no pods: every domain counts 0 pods, and the constraint never rejects a node.",
    fix="Add a labelSelector with the labels of the pods",
    source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/pull/117025",
)


def find_empty_spread_selectors(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with an empty labelSelector, which counts all pods only since 1.38.

    Constraints with matchLabelKeys are left out.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is not None and selector.selects_everything and not constraint.match_label_keys:
            message = (
                "an empty labelSelector counts no pods up to 1.37, but all pods from 1.38 on: pods that are scheduled "
                "today may stay Pending then"
            )
            yield workload.build_problem((*path, "labelSelector"), message)


TS_EMPTY_SELECTOR = Rule(
    "ts-empty-selector",
    WARNING,
    find_empty_spread_selectors,
    summary="Spread constraint with an empty labelSelector",
    why="Up to 1.37, the constraint counts no pods and has no effect. From 1.38 on, it counts all pods of the "
    "namespace.",
    fix="Select the pods' own labels, or remove the constraint",
    source="https://github.com/kubernetes/kubernetes/pull/141340",
)


def find_selectors_not_matching_own_pods(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose selector does not match the workload's own pods.

    Selectors that match pods of another namespace are left to ``ts-cross-namespace``.
    """
    for workload, path, selector in _iter_selectors_not_matching_own_pods(context):
        if not _find_matches_in_other_namespaces(context, workload, selector):
            message = f'selector "{selector}" does not match the pods\' own labels, so they are not counted'
            yield workload.build_problem((*path, "labelSelector"), message)


TS_SELECTOR_NOT_SELF = Rule(
    "ts-selector-not-self",
    WARNING,
    find_selectors_not_matching_own_pods,
    summary="Spread constraint whose labelSelector does not match the pods themselves",
    why="The constraint does not spread pods that it does not count: all of them may be placed in one domain.",
    fix="Make labelSelector match the labels of the pod template",
    source=f"{doc.SPREAD}#implicit-conventions",
)


def _iter_selectors_not_matching_own_pods(context: LintContext) -> Iterator[tuple[Workload, Path, Selector]]:
    """Yield each spread constraint's selector that does not match the workload's own pods.

    Each selector comes with the workload and the path of the constraint. Missing and invalid selectors are left out,
    and so are workloads whose labels are not known.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is None or selector == NOTHING or not workload.has_known_labels:
            continue
        if not workload.is_selected_by(selector):
            yield workload, path, selector


def find_selectors_for_other_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints whose selector only matches pods in other namespaces."""
    for workload, path, selector in _iter_selectors_not_matching_own_pods(context):
        matches = _find_matches_in_other_namespaces(context, workload, selector)
        if matches:
            message = (
                f"the constraint counts only pods in namespace {workload.namespace}, not those of {matches[0].subject}"
            )
            yield workload.build_problem((*path, "labelSelector"), message)


TS_CROSS_NAMESPACE = Rule(
    "ts-cross-namespace",
    NOTE,
    find_selectors_for_other_namespaces,
    summary="Topology spread constraint whose selector only matches pods in other namespaces",
    why="Only pods in the pod's own namespace are counted, so the constraint has no effect.",
    fix="Use pod anti-affinity with namespaces, or put the workloads into one namespace",
    source=f"{doc.SPREAD}#implicit-conventions",
)


def _find_matches_in_other_namespaces(context: LintContext, workload: Workload, selector: Selector) -> list[Workload]:
    """Return the workloads of other namespaces that a selector matches.

    Returns [] if the selector matches a workload in the constraint's own namespace.
    """
    if context.select_workloads(workload.namespace, selector):
        return []
    return [
        other for namespace in context.workloads_by_namespace for other in context.select_workloads(namespace, selector)
    ]


def find_invalid_selectors(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with a labelSelector that the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        errors = validate_label_selector(constraint.label_selector, workload.get_path(*path, "labelSelector"))
        yield from workload.to_problems(errors)


TS_SELECTOR_INVALID = Rule(
    "ts-selector-invalid",
    ERROR,
    find_invalid_selectors,
    summary="Spread constraint with an invalid labelSelector",
    why="The API server rejects the pods. If such a pod is already stored, every attempt to schedule it fails.",
    fix="Correct the labelSelector",
    source="https://github.com/kubernetes/kubernetes/issues/111791",
)


def find_wrong_topology_keys(workload: Workload) -> Iterator[Problem]:
    """Find topologyKeys that are often mistaken for node labels, in affinity terms and spread constraints.

    The problem suggests the right label.
    """
    keys: dict[Path, str] = {path: term.topology_key for path, term in iter_pod_affinity_terms(workload)}
    for i, constraint in enumerate(workload.spec.topology_spread_constraints):
        keys["topologySpreadConstraints", i] = constraint.topology_key
    for path, key in keys.items():
        if key in MISTAKEN_LABELS:
            label = MISTAKEN_LABELS[key]
            yield workload.build_problem((*path, "topologyKey"), f"{key} is not a node label", f"Write {label}", label)


TS_WRONG_HOSTNAME_KEY = Rule(
    "ts-wrong-hostname-key",
    ERROR,
    for_each_workload(find_wrong_topology_keys),
    summary="topologyKey that is probably a misspelled kubernetes.io/hostname or topology.kubernetes.io/zone",
    why="No node has a label with this key. Constraints with DoNotSchedule and required affinity terms leave pods "
    "Pending; other constraints and terms have no effect.",
    fix="Write kubernetes.io/hostname or topology.kubernetes.io/zone",
    source=doc.LABELS,
    safe_fix=build_label_replacement,
)


def find_invalid_min_domains(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with a minDomains that the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        yield from workload.to_problems(validate_min_domains(constraint, workload.get_path(*path)))


def _remove_soft_min_domains(problem: Problem) -> FieldEdit | None:
    """Return the edit that removes minDomains from a ScheduleAnyway constraint, or None for any other constraint.

    A minDomains below 1 in a DoNotSchedule constraint has no safe fix, as any other number may be meant.
    """
    *constraint_path, field = problem.path
    is_soft = object_at(problem.subject.document, *constraint_path).get("whenUnsatisfiable") == SOFT
    return RemoveField(problem.path) if is_soft and field == "minDomains" else None


TS_MIN_DOMAINS_SOFT = Rule(
    "ts-min-domains-soft",
    ERROR,
    find_invalid_min_domains,
    summary="minDomains below 1 or together with ScheduleAnyway",
    why="The API server rejects the pods.",
    fix="Remove minDomains, or set whenUnsatisfiable: DoNotSchedule",
    source=f"{doc.SPREAD}; {doc.VALIDATION}",
    safe_fix=_remove_soft_min_domains,
)


def find_ineffective_max_skews(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints of serving workloads whose maxSkew allows all replicas in one domain."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if workload.is_serving_replicas and constraint.max_skew >= workload.highest_replicas:
            message = f"maxSkew {constraint.max_skew} allows all {workload.highest_replicas} replicas in one domain"
            yield workload.build_problem((*path, "maxSkew"), message)


TS_SKEW_NEVER_BINDS = Rule(
    "ts-skew-never-binds",
    NOTE,
    find_ineffective_max_skews,
    summary="maxSkew is at least the number of replicas",
    why="The skew can never exceed maxSkew, so the constraint has no effect.",
    fix="Lower maxSkew; the usual value is 1",
    source=doc.SPREAD,
)


def find_soft_zone_spread(workload: Workload) -> Iterator[Problem]:
    """Report a serving workload that spreads across zones only by soft constraints (ScheduleAnyway)."""
    index_by_policy = {
        constraint.when_unsatisfiable: i
        for i, constraint in enumerate(workload.spec.topology_spread_constraints)
        if constraint.topology_key == ZONE
    }
    if workload.is_serving_replicas and SOFT in index_by_policy and HARD not in index_by_policy:
        path = ("topologySpreadConstraints", index_by_policy[SOFT], "whenUnsatisfiable")
        message = "spreading across zones is only a preference: all replicas may be placed in one zone"
        yield workload.build_problem(path, message)


TS_ZONE_SOFT_ONLY = Rule(
    "ts-zone-soft-only",
    NOTE,
    for_each_workload(find_soft_zone_spread),
    summary="Zone spread that is only a preference (ScheduleAnyway)",
    why="ScheduleAnyway only affects scores: if room is short, all replicas may run in one zone and fail with it.",
    fix="Set whenUnsatisfiable: DoNotSchedule if the workload must survive the loss of a zone",
    source=doc.SPREAD,
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_invalid_match_label_keys(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints with matchLabelKeys that the API server rejects."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        labels = dict.fromkeys(_list_pod_label_keys(workload), "")
        options = context.validation_options
        created_constraint = constraint
        if options.selector_merge:
            created_constraint = merge_constraint_label_keys(constraint, labels)
        errors = validate_match_label_keys(created_constraint, workload.get_path(*path), options)
        yield from workload.to_problems(errors)


TS_MLK_WITHOUT_SELECTOR = Rule(
    "ts-mlk-without-selector",
    ERROR,
    find_invalid_match_label_keys,
    summary="matchLabelKeys without labelSelector, with a key that is also in labelSelector, or with an invalid key",
    why="The API server rejects the pods. If a key is in both fields, the API server still accepts the workload, but "
    "not its pods.",
    fix="Add a labelSelector without the keys in matchLabelKeys",
    source=f"{doc.SPREAD}; {doc.VALIDATION}: ValidateMatchLabelKeysAndMismatchLabelKeys (v1.36)",
)


def find_constraints_without_template_hash(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints of Deployments whose matchLabelKeys lack pod-template-hash.

    Without this key, pods of the old ReplicaSet are counted during a rollout. Deployments with a single replica or with
    strategy Recreate are left out.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        if workload.kind != "Deployment" or not workload.is_serving_replicas or constraint.when_unsatisfiable != HARD:
            continue
        if TEMPLATE_HASH not in constraint.match_label_keys and workload.strategy.type != "Recreate":
            message = (
                "during a rollout, the constraint also counts the pods of the old ReplicaSet, so the new pods may end "
                "up unevenly spread"
            )
            yield workload.build_problem(path, message)


TS_MLK_MISSING = Rule(
    "ts-mlk-missing",
    NOTE,
    find_constraints_without_template_hash,
    summary="DoNotSchedule spread constraint of a Deployment without matchLabelKeys: [pod-template-hash]",
    why="During a rollout, the constraint also counts the pods of the old ReplicaSet. Once the old pods are gone, "
    "the new pods may be spread unevenly.",
    fix="Add matchLabelKeys: [pod-template-hash]",
    advised_field=SPREAD_LABEL_KEYS,
    source="https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/3243-respect-pod-topology-spread-after-rolling-upgrades",
)


def find_match_label_keys_not_on_pods(context: LintContext) -> Iterator[Problem]:
    """Find matchLabelKeys that are not labels of the workload's pods."""
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        for i, key in enumerate(constraint.match_label_keys):
            if key not in _list_pod_label_keys(workload):
                message = f"the pods have no label {key}, so the key is ignored"
                yield workload.build_problem((*path, "matchLabelKeys", i), message)


TS_MLK_KEY_NOT_ON_POD = Rule(
    "ts-mlk-key-not-on-pod",
    WARNING,
    find_match_label_keys_not_on_pods,
    summary="matchLabelKeys with a key that is no label of the pods",
    why="The key is silently ignored.",
    fix="Add the label to the pod template, or correct the key",
    source=doc.SPREAD,
)


def _list_pod_label_keys(workload: Workload) -> set[str]:
    """Return the label keys of the workload's pods, including the labels that their controller adds."""
    return {*workload.labels, *ADDED_LABELS.get(workload.kind, ())}


def find_constraints_counting_other_workloads(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints that also count the pods of another workload, which differs only in one label.

    Both workloads have the same constraint, and matchLabelKeys does not tell their pods apart. Workloads with different
    constraints are left to ``ts-inconsistent-group``. Only the first ``_MAX_COMPARED`` selected workloads are compared.
    """
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is None or constraint.when_unsatisfiable != HARD or not workload.is_selected_by(selector):
            continue
        selected = context.select_coexisting_workloads(workload.subject, workload.namespace, selector)
        for other in selected[:_MAX_COMPARED]:
            differing_labels = _list_differing_labels(workload, other)
            if len(differing_labels) != 1 or constraint not in other.spec.topology_spread_constraints:
                continue
            (label,) = differing_labels
            if not {label, TEMPLATE_HASH} & set(constraint.match_label_keys):
                message = (
                    f"the constraint also counts the pods of {other.subject}, which differ only in the label {label}"
                )
                yield workload.build_problem((*path, "labelSelector"), message)
                break


TS_COUNTS_OTHERS = Rule(
    "ts-counts-others",
    WARNING,
    find_constraints_counting_other_workloads,
    summary="DoNotSchedule spread of two workloads, such as blue and green, that count each other's pods",
    why="The pods of one workload decide where the pods of the other may run. A rollout or scale-down of one "
    "workload can leave pods of the other Pending, or put them all in one domain.",
    fix="Add the label in which the two workloads differ to labelSelector or matchLabelKeys",
    source=f"{doc.SPREAD}#consistency",
)


def _list_differing_labels(workload: Workload, other: Workload) -> list[str]:
    """Return the labels with different values, or [] if the label keys differ or both are variants of one object."""
    if workload.labels.keys() != other.labels.keys() or str(workload.subject) == str(other.subject):
        return []
    return [key for key in workload.labels if workload.labels[key] != other.labels[key]]
