"""Rules about references of Kueue's objects to missing objects, and about Cohorts that are their own ancestors.

The lookups of Kueue's objects at the top are shared with other rules about Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.labels import SelectorError
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import ClusterQueue, Cohort, KueueRelease, KueueResourceGroup, LocalQueue, ResourceFlavor
from kschedctl.kueue.cluster_queues import (
    QueueCache,
    ReferencedObjects,
    build_empty_queue_cache,
    has_cyclic_parents,
    read_queue_settings,
)
from kschedctl.kueue.feature_gates import build_feature_gates
from kschedctl.kueue.quota_tree import parse_quotas, parse_weight
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.rule import ERROR, Rule

MIN_LETTERS = 5
"""Shorter words of a name do not count as misspelled: h100 is not a misspelling of a100."""
_MAX_COMPARED = 500
"""With more names of one kind, no misspellings are searched for."""


class KueueReference(NamedTuple):
    """A field that holds the name of an object of Kueue."""

    subject: Subject
    path: Path
    kind: str
    name: str
    namespace: str = ""
    """The namespace of the named object, or "" for cluster-scoped kinds."""


def find_references_to_missing_objects(context: LintContext, references: Iterable[KueueReference]) -> Iterator[Problem]:
    """Yield a problem for each reference to an object that does not exist.

    If not all objects of the kind are known, only names that look misspelled are reported. No name is called misspelled
    if there are more than `_MAX_COMPARED` known names. Empty names are ignored.
    """
    for subject, path, kind, name, namespace in references:
        known_names = context.list_coexisting_names(subject, kind, namespace)
        if not name or name in known_names:
            continue
        similar_name = ""
        if len(known_names) <= _MAX_COMPARED:
            similar_name = find_similar_name(name, known_names, MIN_LETTERS)
        # a name that the manifests define is not misspelled, even if the object is in another namespace
        is_misspelled = bool(similar_name) and name not in context.list_manifest_names(kind)
        if not is_misspelled and not _are_all_objects_known(context, kind, namespace):
            continue
        message = f'{kind} "{name}" does not exist'
        if namespace:
            message += f" in namespace {namespace}"
        if similar_name:
            message += f', but "{similar_name}" does'
        yield subject.build_problem(path, message, f"Write {similar_name}" if similar_name else "")


def _are_all_objects_known(context: LintContext, kind: str, namespace: str = "") -> bool:
    """Return whether all objects of a kind in a namespace are known, so that an unknown object does not exist.

    Returns False without a cluster, if some manifests were not read, or if the manifests describe the cluster but have
    no object of the kind. A kind that was not fully read is recorded in the context's gaps.
    """
    if context.cluster is None or not context.all_manifests_read:
        return False
    if context.is_self_described and not context.list_manifest_names(kind):
        return False
    if context.cluster.find_gap(kind, namespace) is None:
        return True
    return context.are_all_read(kind)  # records the gap


def list_cluster_queues(context: LintContext) -> list[ClusterQueue]:
    """Return the known ClusterQueues, both linted ones and others of the cluster. Malformed ones are left out."""
    queues = {queue.metadata.name: queue for queue in context.list_all_objects(ClusterQueue)}
    return [queue for queue in queues.values() if _is_queue_readable(queue)]


def list_cohorts(context: LintContext) -> list[Cohort]:
    """Return the known Cohorts, both linted ones and others of the cluster. Malformed ones are left out."""
    cohorts = {cohort.metadata.name: cohort for cohort in context.list_all_objects(Cohort)}
    return [cohort for cohort in cohorts.values() if _is_cohort_readable(cohort)]


def _is_queue_readable(queue: ClusterQueue) -> bool:
    """Return whether the quotas, the weight and the namespace selector of a ClusterQueue are valid."""
    try:
        read_queue_settings(queue)
    except (QuantityError, SelectorError):
        return False
    return True


def _is_cohort_readable(cohort: Cohort) -> bool:
    """Return whether the quotas and the weight of a Cohort are valid."""
    try:
        parse_quotas(cohort.spec.resource_groups)
        parse_weight(cohort.spec.fair_sharing)
    except QuantityError:
        return False
    return True


def build_queue_cache(context: LintContext) -> QueueCache:
    """Build the tree of all known ClusterQueues and Cohorts.

    Workloads and the objects that queues refer to are not in the tree.
    """
    gates = build_feature_gates(KueueRelease.V0_20, {})
    return build_empty_queue_cache(
        list_cluster_queues(context), list_cohorts(context), ReferencedObjects({}, {}, frozenset()), gates
    )


def find_missing_references(context: LintContext) -> Iterator[Problem]:
    """Find ClusterQueues, Cohorts and flavors that name a missing ResourceFlavor, AdmissionCheck or Topology."""
    yield from find_references_to_missing_objects(context, _iter_kueue_references(context))


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
    yield from find_references_to_missing_objects(context, references)


KQ_NO_CLUSTER_QUEUE = Rule(
    "kq-no-cluster-queue",
    ERROR,
    find_missing_cluster_queues,
    summary="A LocalQueue whose ClusterQueue does not exist",
    why="The jobs that name the LocalQueue stay suspended until the ClusterQueue is created.",
    fix="Create the ClusterQueue, or correct spec.clusterQueue",
    source="https://kueue.sigs.k8s.io/docs/concepts/local_queue/",
)


def find_cohort_cycles(context: LintContext) -> Iterator[Problem]:
    """Find Cohorts whose chain of parents forms a cycle or leads to one."""
    parents = {c.metadata.name: c.spec.parent_name for c in context.list_all_objects(Cohort) if c.spec.parent_name}
    for subject, cohort in context.list_linted_objects(Cohort):
        if cohort.spec.parent_name and has_cyclic_parents(subject.name, parents):
            circle = _find_cohort_cycle(subject.name, parents)
            verb = "form" if subject.name in circle else "lead to"
            message = f"its parents {verb} a cycle: {' -> '.join((*circle, circle[0]))}"
            yield subject.build_problem(("spec", "parentName"), message)


KQ_COHORT_CIRCLE = Rule(
    "kq-cohort-circle",
    ERROR,
    find_cohort_cycles,
    summary="Cohorts whose parents form a cycle",
    why="Kueue admits no Workload in any ClusterQueue below these Cohorts.",
    fix="Remove one spec.parentName of the cycle",
    source="https://kueue.sigs.k8s.io/docs/concepts/cohort/",
)


def _find_cohort_cycle(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the Cohorts in the cycle that is reached from a Cohort by following parents.

    The Cohort at which the cycle is entered comes first. There must be a cycle.
    """
    chain: list[str] = []
    while name not in chain:
        chain.append(name)
        name = parents[name]
    return tuple(chain[chain.index(name) :])
