"""Rules about references of Kueue's objects to missing objects, and about Cohorts that are their own ancestors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kschedctl.api.queueing import ClusterQueue, Cohort, KueueResourceGroup, LocalQueue, ResourceFlavor
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.lint.rules.kueue.known_objects import KueueReference, find_missing_names
from kschedctl.queueing.kueue.cluster_queues import is_cohort_in_circle


def find_missing_references(context: LintContext) -> Iterator[Problem]:
    """Find ClusterQueues, Cohorts and flavors that name a missing ResourceFlavor, AdmissionCheck or Topology."""
    yield from find_missing_names(context, _iter_kueue_references(context))


KQ_MISSING_REFERENCE = Rule(
    "kq-missing-reference",
    ERROR,
    find_missing_references,
    summary="A ClusterQueue or ResourceFlavor that refers to a missing ResourceFlavor, AdmissionCheck or Topology",
    why="Kueue deactivates the ClusterQueue: none of its Workloads is admitted.",
    fix="Create the object, or correct the name",
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/",
)


def _iter_kueue_references(context: LintContext) -> Iterator[KueueReference]:
    """Yield the references to flavors, admission checks and Topologies in the linted Kueue objects.

    ClusterQueues and Cohorts refer to flavors, ClusterQueues to admission checks, and flavors to Topologies.
    """
    for subject, cohort in context.list_linted_objects(Cohort):
        yield from _iter_flavor_references(subject, cohort.spec.resource_groups)
    for subject, queue in context.list_linted_objects(ClusterQueue):
        yield from _iter_flavor_references(subject, queue.spec.resource_groups)
        for i, name in enumerate(queue.spec.admission_checks):
            yield KueueReference(subject, ("spec", "admissionChecks", i), "AdmissionCheck", name)
        strategy = queue.spec.admission_checks_strategy
        strategy_rules = strategy.admission_checks if strategy else ()
        for i, rule in enumerate(strategy_rules):
            path: Path = ("spec", "admissionChecksStrategy", "admissionChecks", i, "name")
            yield KueueReference(subject, path, "AdmissionCheck", rule.name)
    for subject, flavor in context.list_linted_objects(ResourceFlavor):
        yield KueueReference(subject, ("spec", "topologyName"), "Topology", flavor.spec.topology_name or "")


def _iter_flavor_references(subject: Subject, groups: Iterable[KueueResourceGroup]) -> Iterator[KueueReference]:
    """Yield the references of a ClusterQueue or Cohort to the flavors in which it has quota."""
    for i, group in enumerate(groups):
        for j, flavor in enumerate(group.flavors):
            path = ("spec", "resourceGroups", i, "flavors", j, "name")
            yield KueueReference(subject, path, "ResourceFlavor", flavor.name)


def find_missing_cluster_queues(context: LintContext) -> Iterator[Problem]:
    """Find LocalQueues whose ClusterQueue does not exist."""
    references = (
        KueueReference(subject, ("spec", "clusterQueue"), "ClusterQueue", queue.spec.cluster_queue)
        for subject, queue in context.list_linted_objects(LocalQueue)
    )
    yield from find_missing_names(context, references)


KQ_NO_CLUSTER_QUEUE = Rule(
    "kq-no-cluster-queue",
    ERROR,
    find_missing_cluster_queues,
    summary="A LocalQueue of a ClusterQueue that does not exist",
    why="The jobs that name the LocalQueue stay suspended until the ClusterQueue is created.",
    fix="Create the ClusterQueue, or correct spec.clusterQueue",
    source="https://kueue.sigs.k8s.io/docs/concepts/local_queue/",
)


def find_cohort_circles(context: LintContext) -> Iterator[Problem]:
    """Find Cohorts whose chain of parents forms a cycle or leads to one."""
    parents = {c.metadata.name: c.spec.parent_name for c in context.list_all_objects(Cohort) if c.spec.parent_name}
    for subject, cohort in context.list_linted_objects(Cohort):
        if cohort.spec.parent_name and is_cohort_in_circle(subject.name, parents):
            circle = _find_cohort_circle(subject.name, parents)
            verb = "form" if subject.name in circle else "lead to"
            message = f"its parents {verb} a cycle: {' -> '.join((*circle, circle[0]))}"
            yield subject.build_problem(("spec", "parentName"), message)


KQ_COHORT_CIRCLE = Rule(
    "kq-cohort-circle",
    ERROR,
    find_cohort_circles,
    summary="Cohorts whose parents form a cycle",
    why="Kueue admits no Workload in any ClusterQueue below these Cohorts.",
    fix="Remove one spec.parentName of the cycle",
    source="https://kueue.sigs.k8s.io/docs/concepts/cohort/",
)


def _find_cohort_circle(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the Cohorts in the cycle that the Cohort's chain of parents leads to.

    The first Cohort that the chain reaches comes first.
    """
    chain: list[str] = []
    while name not in chain:
        chain.append(name)
        name = parents[name]
    return tuple(chain[chain.index(name) :])
