"""Rules about topology spread together with running pods, other workloads, storage and the configuration."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Counts, find_positions
from kschedctl.api.json_values import objects_at
from kschedctl.api.labels import Selector
from kschedctl.api.objects import StorageClass
from kschedctl.api.ownership import find_owner
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import HARD, iter_spread_constraints
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.spread.domains import HardSpread, iter_hard_spread_constraints
from kschedctl.snapshot.nodes import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, counted, first_few, join_words

_encode = msgspec.json.Encoder().encode


def find_nodes_without_default_spread(context: LintContext) -> Iterator[Problem]:
    """Find nodes with neither a hostname nor a zone label, which the default spread does not score.

    All such nodes are reported as one problem, at the first node. Finds nothing if all workloads have constraints of
    their own.
    """
    facts = context.facts
    unlabelled = ~(facts.get_nodes_with_label(HOSTNAME) | facts.get_nodes_with_label(ZONE))
    if unlabelled.any() and not all(workload.spec.topology_spread_constraints for workload in context.workloads):
        first_node = Subject("Node", facts.view.nodes.names[int(np.flatnonzero(unlabelled)[0])])
        count = int(unlabelled.sum())
        message = (
            f"{counted(count, 'node')} {agreeing(count, 'has', 'have')} neither a {HOSTNAME} nor a {ZONE} label, so "
            f"the default spread does not score {agreeing(count, 'it', 'them')}"
        )
        yield first_node.build_problem(("metadata", "labels"), message)


TS_BUILTIN_DEFAULT_INEFFECTIVE = Rule(
    "ts-builtin-default-ineffective",
    NOTE,
    find_nodes_without_default_spread,
    summary="Nodes without the labels of the default spread constraints",
    why="Pods without constraints of their own are spread by kubernetes.io/hostname and topology.kubernetes.io/zone. "
    "This spreading does not affect the scores of nodes that have neither label.",
    fix="Add the labels to the nodes",
    source=f"{doc.SPREAD}#internal-default-constraints",
    needs_cluster=True,
)


def find_hard_defaults_with_autoscaler(context: LintContext) -> Iterator[Problem]:
    """Find hard default spread constraints in the configuration of a cluster with a Cluster Autoscaler.

    The autoscaler is recognized by the names of its pods. Finds nothing without such a pod.
    """
    assert context.cluster is not None
    if not any("cluster-autoscaler" in name for name in context.cluster.pods.names):
        return
    for i, profile in enumerate(objects_at(context.cluster.configuration, "profiles")):
        for j, config in enumerate(objects_at(profile, "pluginConfig")):
            default_constraints = objects_at(config, "args", "defaultConstraints")
            if any(constraint.get("whenUnsatisfiable") == HARD for constraint in default_constraints):
                path = ("profiles", i, "pluginConfig", j, "args", "defaultConstraints")
                message = (
                    "the Cluster Autoscaler does not know these hard default constraints and may add no nodes for pods "
                    "that need them"
                )
                subject = Subject("KubeSchedulerConfiguration", str(profile.get("schedulerName", "")))
                yield subject.build_problem(path, message)


TS_DEFAULT_DONOTSCHEDULE_WITH_CA = Rule(
    "ts-default-donotschedule-with-ca",
    WARNING,
    find_hard_defaults_with_autoscaler,
    summary="defaultConstraints with DoNotSchedule in a cluster with a Cluster Autoscaler",
    why="The Cluster Autoscaler simulates with its own default constraints: it sees no reason to add a node, and "
    "pods stay Pending.",
    fix="Set whenUnsatisfiable: ScheduleAnyway in the defaultConstraints",
    source="https://github.com/kubernetes/autoscaler/issues/3879",
    needs_cluster=True,
)


def find_zone_spread_ignoring_empty_zones(context: LintContext) -> Iterator[Problem]:
    """Find hard zone spread constraints of serving workloads that do not count zones without nodes.

    Such zones are known from StorageClasses that name them. Finds nothing if no node has a zone.
    """
    node_zones = set(context.facts.view.nodes.label(ZONE).values)
    empty_zones = sorted(_list_zones_of_storage_classes(context) - node_zones)
    if not empty_zones or not node_zones:
        return
    for spread in iter_hard_spread_constraints(context):
        if spread.key == ZONE and spread.workload.is_serving_replicas:
            if len(empty_zones) == 1:
                message = f"zone {empty_zones[0]} has no nodes and is not counted until a node joins"
            else:
                message = f"zones {join_words(empty_zones)} have no nodes and are not counted until a node joins"
            yield spread.workload.build_problem((*spread.path, "topologyKey"), message)


TS_SCALE_FROM_ZERO = Rule(
    "ts-scale-from-zero",
    NOTE,
    find_zone_spread_ignoring_empty_zones,
    summary="DoNotSchedule spread across zones while a zone has no nodes",
    why="The scheduler only knows zones that have nodes: it does not count a zone that could be scaled up from zero, "
    "and places the pods in the other zones.",
    fix="Set minDomains to the number of zones, so that the autoscaler adds nodes in the empty zones",
    source=f"{doc.SPREAD}#known-limitations",
    needs_cluster=True,
)


_STORAGE_ZONE_LABELS = frozenset({ZONE, "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"})
"""The labels by which StorageClasses name zones."""


def _list_zones_of_storage_classes(context: LintContext) -> set[str]:
    """Return the zones in the allowedTopologies of StorageClasses, which exist even if they have no nodes."""
    zones: set[str] = set()
    for storage_class in context.list_all_objects(StorageClass):
        for term in storage_class.allowed_topologies:
            for expression in term.match_label_expressions:
                if expression.key in _STORAGE_ZONE_LABELS:
                    zones.update(expression.values)
    return zones


def find_inconsistent_constraints(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints that count the pods of another workload, which does not have the same constraint.

    The other workload has a different constraint for the topologyKey, or none.
    """
    selected_workloads: dict[tuple[str, Selector], list[Workload]] = {}  # with distinct constraints, for speed
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is None or not workload.is_selected_by(selector):
            continue
        key = workload.namespace, selector
        if key not in selected_workloads:
            selected_workloads[key] = _select_workloads_with_distinct_constraints(
                context.select_workloads(workload.namespace, selector), by_file=bool(context.variants)
            )
        for other in selected_workloads[key]:
            if not context.variants.can_coexist(workload.subject, other.subject):
                continue
            comparable = [
                c for c in other.spec.topology_spread_constraints if c.topology_key == constraint.topology_key
            ]
            if constraint not in comparable:
                difference = "a different constraint" if comparable else "no constraint"
                message = (
                    f"the constraint also counts the pods of {other.subject}, which have {difference} for "
                    f"{constraint.topology_key}"
                )
                yield workload.build_problem(path, message)
                break


TS_INCONSISTENT_GROUP = Rule(
    "ts-inconsistent-group",
    WARNING,
    find_inconsistent_constraints,
    summary="Workloads with different spread constraints that select each other's pods",
    why="One workload keeps the skew within its limit, and the other pushes the skew over the limit.",
    fix="Give both workloads the same constraints, or narrow their selectors",
    source=f"{doc.SPREAD}#consistency",
)


def _select_workloads_with_distinct_constraints(workloads: list[Workload], *, by_file: bool) -> list[Workload]:
    """Return the first workload with each distinct list of spread constraints.

    With ``by_file``, lists are compared only within a file.
    """
    first_workloads: dict[tuple[bytes, str], Workload] = {}
    for workload in workloads:
        location = workload.subject.location
        file = location.file if by_file and location else ""
        key = _encode(workload.spec.topology_spread_constraints), file
        first_workloads.setdefault(key, workload)
    return list(first_workloads.values())


def find_exceeded_skews(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose maxSkew the running pods exceed.

    Constraints with matchLabelKeys are left out, as the pods of each revision are counted separately. Constraints with
    an empty selector are left out because other rules report them.
    """
    for spread in iter_hard_spread_constraints(context):
        selector = compile_selector(spread.constraint.label_selector)
        if selector is None or selector.selects_everything:
            continue  # it counts no pods, and ts-no-selector or ts-empty-selector reports it
        if spread.constraint.match_label_keys:
            continue
        if not spread.counted.any():
            continue  # without a counted node, there are no domains to compare
        counts = _count_pods_per_domain(context, spread, selector)
        skew = int(counts.max() - counts.min())
        if skew > spread.constraint.max_skew:
            message = (
                f"the skew is {skew} now ({counts.min()} to {counts.max()} pods per domain), but maxSkew is "
                f"{spread.constraint.max_skew}"
            )
            fix = ""
            owners = _list_owners_of_counted_pods(context, spread, selector)
            counts_only_other_workloads = str(spread.workload.subject) not in owners
            if counts_only_other_workloads:  # a restart of the workload would move none of the counted pods
                message += f"; the constraint also counts the pods of {first_few(owners)}"
                fix = f"Spread {first_few(owners)} as well, or narrow the selector"
            yield spread.workload.build_problem(spread.path, message, fix)


TS_ALREADY_VIOLATED = Rule(
    "ts-already-violated",
    WARNING,
    find_exceeded_skews,
    summary="Running pods exceed maxSkew",
    why="Nothing corrects the skew after scale-downs or cordons, and new pods may only go to the domains with the "
    "fewest pods.",
    fix="Let the descheduler evict the surplus, or set matchLabelKeys: [pod-template-hash] for a Deployment: the "
    "rollout of this change spreads its pods anew, since old pods no longer count",
    source=f"{doc.SPREAD}#known-limitations",
    needs_cluster=True,
)


def _list_owners_of_counted_pods(context: LintContext, spread: HardSpread, selector: Selector) -> list[str]:
    """List the owners of the bound pods that a constraint counts, such as `Deployment shop/web`."""
    view = context.facts.view
    counted_pods = _select_counted_pods(context, spread, selector)
    return sorted({str(find_owner(view.pods.objects[position])) for position in find_positions(counted_pods)})


def _select_counted_pods(context: LintContext, spread: HardSpread, selector: Selector) -> Bools:
    """Return a mask (P,) of the bound pods that a constraint selects, on the nodes that the constraint counts."""
    view = context.facts.view
    pods = view.pods
    selected_infos = pods.match_infos(selector, frozenset((spread.workload.namespace,))) & ~pods.terminating
    return np.asarray(selected_infos[pods.info] & view.mask_placed() & spread.counted[view.node], np.bool_)


def _count_pods_per_domain(context: LintContext, spread: HardSpread, selector: Selector) -> Counts:
    """Count the bound pods that a constraint selects in each domain, on the nodes that the constraint counts."""
    view = context.facts.view
    counted_rows = view.node[_select_counted_pods(context, spread, selector)]
    codes = view.nodes.label(spread.key).codes
    counts_by_code = np.bincount(codes[counted_rows], minlength=codes.max() + 1)
    return counts_by_code[np.unique(codes[spread.counted])].astype(np.int64)
