"""Objects of Kueue that no API server would store, such as those with a malformed quantity in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kschedctl.api.copying import replace
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.queueing import ClusterQueue, Cohort, KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.queueing.kueue.cluster_queues import read_queue_settings
from kschedctl.queueing.kueue.fair_share import parse_weight
from kschedctl.queueing.kueue.pod_requests import compute_requests
from kschedctl.queueing.kueue.quota_tree import parse_quotas
from kschedctl.queueing.kueue.workloads import read_workload

Stored = TypeVar("Stored", ClusterQueue, Cohort, KueueWorkload)


def drop_malformed_objects(cluster: Cluster) -> tuple[Cluster, list[str]]:
    """Return the cluster without malformed ClusterQueues, Cohorts and Workloads, and a message about each."""
    problems: list[str] = []
    readable = {
        "cluster_queues": tuple(
            _iter_readable_objects("ClusterQueue", cluster.cluster_queues, read_queue_settings, problems)
        ),
        "cohorts": tuple(_iter_readable_objects("Cohort", cluster.cohorts, _check_cohort, problems)),
        "kueue_workloads": tuple(
            _iter_readable_objects("Workload", cluster.kueue_workloads, _check_workload, problems)
        ),
    }
    if not problems:
        return cluster, problems
    return replace(cluster, **readable), problems


def _iter_readable_objects(
    kind: str, objects: Iterable[Stored], read: Callable[[Stored], Any], problems: list[str]
) -> Iterator[Stored]:
    """Yield the objects that ``read`` accepts. Append a message to ``problems`` for each object that it rejects."""
    for stored in objects:
        try:
            read(stored)
        except InputError as error:
            problems.append(f"{kind} {_format_object_name(stored.metadata)} was left out: {error}")
        else:
            yield stored


def _format_object_name(metadata: ObjectMeta) -> str:
    """Return the name of an object, preceded by its namespace if it has one."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _check_cohort(cohort: Cohort) -> None:
    """Check that the quotas and the weight of a cohort can be read. Raises QuantityError if not."""
    parse_quotas(cohort.spec.resource_groups)
    parse_weight(cohort.spec.fair_sharing)


def _check_workload(workload: KueueWorkload) -> None:
    """Check that the times, the usage and the requests of a Workload can be read. Raises InputError if not."""
    read_workload(workload, (), 0)
    for pod_set in workload.spec.pod_sets:
        compute_requests(pod_set.template.spec)
