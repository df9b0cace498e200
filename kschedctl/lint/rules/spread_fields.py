"""Topology spread constraints that are invalid, or do not say what was meant: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.labels import NOTHING, Selector
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.api.validation.selectors import label_selector
from kschedctl.api.validation.spread import min_domains
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile
from kschedctl.lint.subject import Path, Problem
from kschedctl.lint.terms import pod_terms
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World
from kschedctl.snapshot.node_order import HOSTNAME, ZONE

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
NO_LABELS = {
    "topology.kubernetes.io/hostname": HOSTNAME,
    "kubernetes.io/zone": ZONE,
    "topology.kubernetes.io/host": HOSTNAME,
    "kubernetes.io/host": HOSTNAME,
}
"""Keys that look like labels of nodes but are none -> the label that was meant."""


def constraints(world: World) -> Iterator[tuple[Workload, Path, TopologySpreadConstraint]]:
    """Every spread constraint with its workload and the field that it stands in."""
    for workload in world.workloads:
        for i, constraint in enumerate(workload.spec.topology_spread_constraints):
            yield workload, ("topologySpreadConstraints", i), constraint


def no_selector(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        if constraint.label_selector is None and not constraint.match_label_keys:
            yield workload.problem(path, "without labelSelector the constraint counts no pods and does nothing")


def selector_not_self(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        if selector is None or selector == NOTHING or workload.selected_by(selector) or not workload.labels_known:
            continue
        if not _elsewhere(world, workload, selector):
            message = f'selector "{selector}" does not match the pods\' own labels: they are not counted'
            yield workload.problem((*path, "labelSelector"), message)


def cross_namespace(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        if selector is None or selector == NOTHING or workload.selected_by(selector) or not workload.labels_known:
            continue
        if others := _elsewhere(world, workload, selector):
            message = f"it counts pods of namespace {workload.namespace} only, not those of {others[0].subject}"
            yield workload.problem((*path, "labelSelector"), message)


def _elsewhere(world: World, workload: Workload, selector: Selector) -> list[Workload]:
    """Workloads of other namespaces that the selector matches while it matches none in its own."""
    if world.selected(workload.namespace, selector):
        return []
    return [found for namespace in world.by_namespace for found in world.selected(namespace, selector)]


def selector_invalid(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        faults = label_selector(constraint.label_selector, workload.at_field(*path, "labelSelector"))
        yield from workload.refused(faults)


def wrong_key(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        keys: list[tuple[Path, str]] = [(path, term.topology_key) for path, term in pod_terms(workload)]
        for i, constraint in enumerate(workload.spec.topology_spread_constraints):
            keys.append((("topologySpreadConstraints", i), constraint.topology_key))
        for path, key in keys:
            if key in NO_LABELS:
                yield workload.problem(
                    (*path, "topologyKey"), f"{key} is not a label of nodes", f"Write {NO_LABELS[key]}"
                )


def min_domains_soft(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        yield from workload.refused(min_domains(constraint, workload.at_field(*path)))


def skew_never_binds(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        if workload.serving and constraint.max_skew >= workload.at_most:
            message = f"maxSkew {constraint.max_skew} allows all {workload.at_most} replicas in one domain"
            yield workload.problem((*path, "maxSkew"), message)


def zone_soft_only(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        by_zone = {
            c.when_unsatisfiable: i
            for i, c in enumerate(workload.spec.topology_spread_constraints)
            if c.topology_key == ZONE
        }
        if workload.serving and SOFT in by_zone and HARD not in by_zone:
            path = ("topologySpreadConstraints", by_zone[SOFT], "whenUnsatisfiable")
            yield workload.problem(path, "spread over zones is a wish only: all replicas may end up in one zone")


RULES = (
    Rule(
        "ts-no-selector",
        WARNING,
        no_selector,
        summary="Spread constraint without labelSelector",
        why="A missing selector matches no pods: every domain counts 0 and the constraint never refuses a node.",
        fix="Add labelSelector with the labels of the pods",
        source=f"{doc.SPREAD}; https://github.com/kubernetes/kubernetes/pull/117025",
    ),
    Rule(
        "ts-selector-not-self",
        WARNING,
        selector_not_self,
        summary="Spread constraint whose selector does not match the pods themselves",
        why="Pods that are not counted spread over nothing: they may all go to one domain.",
        fix="Make labelSelector match the labels of the pod template",
        source=f"{doc.SPREAD}#implicit-conventions",
    ),
    Rule(
        "ts-selector-invalid",
        ERROR,
        selector_invalid,
        summary="Spread constraint with an invalid labelSelector",
        why="The API server refuses such pods; one that is stored already makes every attempt to schedule it fail.",
        fix="Correct the selector",
        source="https://github.com/kubernetes/kubernetes/issues/111791",
    ),
    Rule(
        "ts-wrong-hostname-key",
        ERROR,
        wrong_key,
        summary="topologyKey that looks like a label of nodes but is none",
        why="No node has the label: DoNotSchedule and required terms leave pods Pending, others do nothing.",
        fix="Write kubernetes.io/hostname or topology.kubernetes.io/zone",
        source=doc.LABELS,
    ),
    Rule(
        "ts-min-domains-soft",
        ERROR,
        min_domains_soft,
        summary="minDomains below 1, or together with ScheduleAnyway",
        why="The API server refuses the pods.",
        fix="Remove minDomains, or set whenUnsatisfiable: DoNotSchedule",
        source=f"{doc.SPREAD}; {doc.VALIDATION}",
    ),
    Rule(
        "ts-skew-never-binds",
        NOTE,
        skew_never_binds,
        summary="maxSkew as large as the number of replicas",
        why="Such a skew cannot be exceeded: the constraint does nothing.",
        fix="Lower maxSkew; 1 is the usual value",
        source=doc.SPREAD,
    ),
    Rule(
        "ts-zone-soft-only",
        NOTE,
        zone_soft_only,
        summary="Spread over zones only as a preference",
        why="ScheduleAnyway is one score among others: with little room all replicas may share a zone, and fail with "
        "it.",
        fix="Set whenUnsatisfiable: DoNotSchedule if the workload must survive the loss of a zone",
        source=doc.SPREAD,
        profile=RuleProfile.STRICT,
        once=True,
    ),
    Rule(
        "ts-cross-namespace",
        NOTE,
        cross_namespace,
        summary="Spread selector that only matches pods of other namespaces",
        why="Only pods of the pod's own namespace count, so the constraint does nothing.",
        fix="Use pod anti-affinity with namespaces, or put the workloads into one namespace",
        source=f"{doc.SPREAD}#implicit-conventions",
    ),
)
