"""Workloads whose pods are of a group: who asks about one of their pods asks about it with the others.

A controller creates them together, and the scheduler places them together, or holds all back until enough are there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kschedctl.api.gangs import gangs_of
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.workloads import CronJob, DaemonSet, Job, StatefulSet, identity, make
from kschedctl.cluster import Cluster
from kschedctl.snapshot.pods import AnyGroupKey, group_key
from kschedctl.studies.controllers.changed_workloads import Existing

AT_ONCE = "Parallel"
"""The podManagementPolicy of a StatefulSet whose pods do not wait for each other."""


def groups_of(pod: Pod) -> frozenset[AnyGroupKey]:
    """The groups, of Kubernetes and of other projects, that the pod says that it is of."""
    own = group_key(pod)
    return frozenset((*gangs_of(pod), *([own] if own else ())))


def made_together(existing: Existing, workload: Struct) -> Struct | None:
    """The workload, to be made with all its pods, which are of a group and come at once; None for one that is not, or
    of which the cluster has pods.
    """
    ordered = isinstance(workload, StatefulSet) and workload.spec.pod_management_policy != AT_ONCE
    if isinstance(workload, Pod | DaemonSet) or ordered or existing.of(*identity(workload)):
        return None
    if isinstance(workload, Job | CronJob):
        workload = replace(workload, spec=replace(workload.spec, suspend=False))
    pods = make(workload, ()).pods
    return workload if len(pods) > 1 and groups_of(pods[0]) else None


def siblings(pod: Pod, made: Iterable[Pod], cluster: Cluster) -> list[Pod]:
    """Those of the pods that were made which are of a group of this one and new to the cluster."""
    groups = groups_of(pod)
    if not groups:
        return []
    others = (each for each in made if each.key != pod.key and groups & groups_of(each))
    return [each for each in others if cluster.pod(each.metadata.namespace, each.metadata.name) is None]
