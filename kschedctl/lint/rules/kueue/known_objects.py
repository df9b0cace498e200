"""Lookups of Kueue's objects that several rules share: missing names, and ClusterQueues with their cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.labels import SelectorError
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import ClusterQueue, Cohort, KueueRelease
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.queueing.kueue.cluster_queues import (
    QueueCache,
    ReferencedObjects,
    build_empty_queue_cache,
    read_queue_settings,
)
from kschedctl.queueing.kueue.fair_share import parse_weight
from kschedctl.queueing.kueue.feature_gates import build_feature_gates
from kschedctl.queueing.kueue.quota_tree import parse_quotas

MIN_LETTERS = 5
"""Shorter words of a name do not count as misspelt: h100 is not a misspelling of a100."""
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


def find_missing_names(context: LintContext, references: Iterable[KueueReference]) -> Iterator[Problem]:
    """Yield a problem for each reference to an object that does not exist.

    If not all objects of the kind are known, only names that look misspelt are reported. Empty names are ignored.
    """
    for subject, path, kind, name, namespace in references:
        known_names = context.list_coexisting_names(subject, kind, namespace)
        if not name or name in known_names:
            continue
        similar_name = ""
        if len(known_names) <= _MAX_COMPARED:
            similar_name = find_similar_name(name, known_names, MIN_LETTERS)
        is_misspelt = bool(similar_name) and name not in context.list_manifest_names(kind)
        if not is_misspelt and not are_all_objects_known(context, kind, namespace):
            continue
        message = f'{kind} "{name}" does not exist'
        if namespace:
            message += f" in namespace {namespace}"
        if similar_name:
            message += f', but "{similar_name}" does'
        yield subject.build_problem(path, message, f"Write {similar_name}" if similar_name else "")


def are_all_objects_known(context: LintContext, kind: str, namespace: str = "") -> bool:
    """Return whether all objects of a kind in a namespace are known, so that any other object does not exist.

    Returns False without a cluster, or if the manifests describe the cluster but have no object of the kind.
    """
    if context.cluster is None or not context.all_manifests_read:
        return False
    if context.is_self_described and not context.list_manifest_names(kind):
        return False
    return context.cluster.gap(kind, namespace) is None or context.are_all_read(kind)


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
