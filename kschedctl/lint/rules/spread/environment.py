"""Rules about topology spread and what surrounds it: running pods, other workloads, storage and configuration."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kschedctl.api.json_values import objects_at
from kschedctl.api.labels import Selector
from kschedctl.api.objects import StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import HARD, iter_spread_constraints
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.spread.domains import iter_hard_spreads
from kschedctl.snapshot.nodes import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, counted

_encode = msgspec.json.Encoder().encode


def find_nodes_without_default_spread(context: LintContext) -> Iterator[Problem]:
    """Find nodes without hostname and zone label, which the default spread does not score."""
    facts = context.facts
    without = ~(facts.get_nodes_with_label(HOSTNAME) | facts.get_nodes_with_label(ZONE))
    if without.any() and not all(w.spec.topology_spread_constraints for w in context.workloads):
        first = Subject("Node", facts.view.nodes.names[int(np.flatnonzero(without)[0])])
        have, them = agreeing(without.sum(), "has", "have"), agreeing(without.sum(), "it", "them")
        message = (
            f"{counted(without.sum(), 'node')} {have} neither a {HOSTNAME} nor a {ZONE} label: the default spread "
            f"does not score {them}"
        )
        yield first.build_problem(("metadata", "labels"), message)


TS_BUILTIN_DEFAULT_INEFFECTIVE = Rule(
    "ts-builtin-default-ineffective",
    NOTE,
    find_nodes_without_default_spread,
    summary="Nodes that the default spread does not score",
    why="Pods without constraints are spread by hostname and zone; nodes without both labels get no score for that.",
    fix="Label the nodes",
    source=f"{doc.SPREAD}#internal-default-constraints",
    needs_cluster=True,
)


def find_hard_defaults_with_autoscaler(context: LintContext) -> Iterator[Problem]:
    """Find hard default constraints in the configuration of a cluster with a Cluster Autoscaler."""
    assert context.cluster is not None
    autoscaler = any("cluster-autoscaler" in pod.metadata.name for pod in context.cluster.pods)
    for i, profile in enumerate(objects_at(context.cluster.configuration, "profiles")):
        for j, config in enumerate(objects_at(profile, "pluginConfig")):
            defaults = objects_at(config, "args", "defaultConstraints")
            if autoscaler and any(constraint.get("whenUnsatisfiable") == HARD for constraint in defaults):
                path = ("profiles", i, "pluginConfig", j, "args", "defaultConstraints")
                message = "hard default constraints are unknown to the Cluster Autoscaler, which then adds no nodes"
                subject = Subject("KubeSchedulerConfiguration", str(profile.get("schedulerName", "")))
                yield subject.build_problem(path, message)


TS_DEFAULT_DONOTSCHEDULE_WITH_CA = Rule(
    "ts-default-donotschedule-with-ca",
    WARNING,
    find_hard_defaults_with_autoscaler,
    summary="Hard default constraints where a Cluster Autoscaler runs",
    why="The autoscaler simulates with its own defaults: it sees no reason to add a node, and pods stay Pending.",
    fix="Make the default constraints ScheduleAnyway",
    source="https://github.com/kubernetes/autoscaler/issues/3879",
    needs_cluster=True,
)


def find_zones_without_nodes(context: LintContext) -> Iterator[Problem]:
    """Find hard spread by zone if StorageClasses name zones that have no nodes."""
    facts = context.facts
    column = facts.view.nodes.label(ZONE)
    missing = sorted(_list_storage_zones(context) - set(column.values))
    if not missing or not column.values:
        return
    for spread in iter_hard_spreads(context):
        if spread.key == ZONE and spread.workload.is_serving_replicas:
            message = f"no node is in {', '.join(missing)}, so these zones do not count until one is"
            yield spread.workload.build_problem((*spread.path, "topologyKey"), message)


TS_SCALE_FROM_ZERO = Rule(
    "ts-scale-from-zero",
    NOTE,
    find_zones_without_nodes,
    summary="Hard zone spread while a zone has no nodes",
    why="The scheduler only knows zones of nodes that exist: a zone that could be scaled up from zero does not "
    "count, and pods pile up in the others.",
    fix="Set minDomains to the number of zones, so that the autoscaler is asked for the missing ones",
    source=f"{doc.SPREAD}#known-limitations",
    needs_cluster=True,
)


def _list_storage_zones(context: LintContext) -> set[str]:
    """Return the zones that StorageClasses allow, which exist even without nodes."""
    return {
        value
        for storage_class in context.list_all(StorageClass)
        for term in storage_class.allowed_topologies
        for expression in term.match_label_expressions
        if expression.key in (ZONE, "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone")
        for value in expression.values
    }


def find_inconsistent_constraints(context: LintContext) -> Iterator[Problem]:
    """Find spread constraints that count pods of a workload with another constraint for the same key, or none."""
    groups: dict[tuple[str, Selector], list[Workload]] = {}
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if selector is None or not workload.is_selected_by(selector):
            continue
        group = workload.namespace, selector
        if group not in groups:
            groups[group] = _keep_distinct_constraints(context.select_workloads(*group), by_file=bool(context.variants))
        for other in groups[group]:
            if not context.variants.can_coexist(workload.subject, other.subject):
                continue
            same_key = [c for c in other.spec.topology_spread_constraints if c.topology_key == constraint.topology_key]
            if constraint not in same_key:
                message = (
                    f"{other.subject} has pods that it counts, with {'another' if same_key else 'no'} "
                    f"constraint for {constraint.topology_key}"
                )
                yield workload.build_problem(path, message)
                break


TS_INCONSISTENT_GROUP = Rule(
    "ts-inconsistent-group",
    WARNING,
    find_inconsistent_constraints,
    summary="Pods that count each other carry different constraints",
    why="One workload keeps the skew that the other one breaks.",
    fix="Give both the same constraints, or narrow the selectors",
    source=f"{doc.SPREAD}#consistency",
)


def _keep_distinct_constraints(workloads: list[Workload], *, by_file: bool) -> list[Workload]:
    """Return the first workload with each list of constraints, per file if ``by_file``."""
    first: dict[tuple[bytes, str], Workload] = {}
    for workload in workloads:
        place = workload.subject.location
        file = place.file if by_file and place else ""
        first.setdefault((_encode(workload.spec.topology_spread_constraints), file), workload)
    return list(first.values())


def find_exceeded_skews(context: LintContext) -> Iterator[Problem]:
    """Find hard spread constraints whose maxSkew the running pods exceed."""
    facts = context.facts
    for spread in iter_hard_spreads(context):
        selector = compile_selector(spread.constraint.label_selector)
        if selector is None or selector.selects_everything:  # counts none: ts-no-selector, ts-empty-selector
            continue
        if spread.constraint.match_label_keys or not spread.counted.any():
            continue
        pods = facts.view.pods
        selected = pods.matching(selector, frozenset((spread.workload.namespace,))) & ~pods.terminating
        node = facts.view.node
        rows = node[selected[pods.info] & (node >= 0)]
        codes = facts.view.nodes.label(spread.key).codes
        in_domain = np.bincount(codes[rows[spread.counted[rows]]], minlength=codes.max() + 1)
        counts = in_domain[np.unique(codes[spread.counted])]
        skew = int(counts.max() - counts.min())
        if skew > spread.constraint.max_skew:
            message = (
                f"the skew is {skew} now ({counts.min()} to {counts.max()} pods a domain), maxSkew "
                f"{spread.constraint.max_skew}"
            )
            yield spread.workload.build_problem(spread.path, message)


TS_ALREADY_VIOLATED = Rule(
    "ts-already-violated",
    WARNING,
    find_exceeded_skews,
    summary="Running pods exceed maxSkew",
    why="Nothing corrects it after scale-downs or cordons, and new pods are only let into the emptiest domains.",
    fix="Restart the workload, or let the descheduler evict the surplus",
    source=f"{doc.SPREAD}#known-limitations",
    needs_cluster=True,
)
