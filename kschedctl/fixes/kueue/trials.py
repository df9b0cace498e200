"""Replays of Kueue and kube-scheduler with changed objects, and the harm that the changes do to other Workloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.fixes.kueue.changes import AdmissionProposal, build_workload_target
from kschedctl.kueue.installation import detect_installation
from kschedctl.kueue.outlook import Outlook, WorkloadOutlook, predict_outlook, start_replay
from kschedctl.kueue.replay import KueueReplay
from kschedctl.replay.waiting_elsewhere.kueue import find_quota_owner
from kschedctl.replay.waiting_elsewhere.kueue_placement import PodPlacement, place_admitted_pods

MOST_REPLAYS, LEAST_REPLAYS = 16, 2
"""The limits of the number of replays that the search for fixes of one Workload may take."""
_MOST_REPLAYED_WORKLOADS = 40_000
"""The number of Workloads that all replays may have together, within these limits."""

_MOST_OF_ALL_TREES = 500
"""The number of Workloads up to which all trees of cohorts are replayed."""


class AdmissionTrial(NamedTuple):
    """A replay of Kueue in a changed cluster."""

    cluster: Cluster
    outlook: Outlook
    replay: KueueReplay
    """The replay after its last cycle."""


class Harm(NamedTuple):
    """The other Workloads that a change preempts or leaves waiting."""

    preempted: tuple[str, ...] = ()
    """The Workloads that are preempted only with the change."""
    preempted_pods: int = 0
    delayed: tuple[str, ...] = ()
    """The Workloads that would get quota without the change and do not get it with the change."""


class AdmissionTrials:
    """The replays for one waiting Workload."""

    def __init__(self, cluster: Cluster, workload: KueueWorkload, now: int) -> None:
        """Replay the unchanged cluster. ``now`` is in microseconds since 1970. Raises InputError."""
        if len(cluster.kueue_workloads) > _MOST_OF_ALL_TREES:
            cluster = _limit_cluster_to_cohort_tree(cluster, workload)
        self.cluster = cluster
        self.workload = workload
        self.key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        self._now = now
        self._installation = detect_installation(cluster)
        affordable = _MOST_REPLAYED_WORKLOADS // len(cluster.kueue_workloads)
        self._remaining = min(max(affordable, LEAST_REPLAYS), MOST_REPLAYS)
        self.baseline = self._replay(cluster)

    @cached_property
    def job(self) -> Owner | None:
        """The object whose pods the Workload stands for, or None if it is unknown."""
        return find_quota_owner(self.workload, self.cluster)

    @cached_property
    def _jobs(self) -> dict[str, Owner | None]:
        """The objects whose pods the Workloads stand for, by the Workload's key; None if unknown."""
        workloads = self.cluster.kueue_workloads
        return {
            f"{workload.metadata.namespace}/{workload.metadata.name}": find_quota_owner(workload, self.cluster)
            for workload in workloads
        }

    def has_object(self, owner: Owner) -> bool:
        """Return whether the cluster has the object. It has neither a new Workload nor the job of a new Workload."""
        is_new = not self.workload.metadata.uid
        return not is_new or owner not in (self.job, build_workload_target(self.workload))

    def _replay(self, cluster: Cluster) -> AdmissionTrial:
        """Replay Kueue with this cluster's objects until nothing changes, and return the trial. Raises InputError."""
        replay = start_replay(cluster, self._now, self._installation)
        return AdmissionTrial(cluster, predict_outlook(replay), replay)

    def replay_proposal(self, proposal: AdmissionProposal) -> AdmissionTrial | None:
        """Replay Kueue with a proposed change, and return the trial, or None if there were too many replays.

        Raises InputError if the replay cannot read one of Kueue's objects.
        """
        if self._remaining <= 0:
            return None
        self._remaining -= 1
        changed: dict[str, list[Struct]] = {}
        for kind, obj in proposal.edits:
            changed.setdefault(kind, []).append(obj)
        return self._replay(self.cluster.with_objects(changed))

    def get_outlook(self, trial: AdmissionTrial) -> WorkloadOutlook:
        """Return what Kueue does with the waiting Workload in a trial."""
        return trial.outlook.workloads[self.key]

    def is_admitted(self, trial: AdmissionTrial) -> bool:
        """Return whether the Workload gets quota in a trial."""
        return self.get_outlook(trial).admission is not None

    def place_pods(self, trial: AdmissionTrial) -> PodPlacement | None:
        """Place the Workload's admitted pods, after the pods of all Workloads that are admitted earlier in the trial.

        Return how many of the pods get a node. Return None if the nodes or pods are unknown, or if there are too many
        pods to place.
        """
        if (
            not self.cluster.nodes
            or self.cluster.find_gap("Node") is not None
            or self.cluster.find_gap("Pod") is not None
        ):
            return None
        order = trial.outlook.order
        outlook = dataclasses.replace(trial.outlook, order=order[: order.index(self.key) + 1])
        return place_admitted_pods(trial.cluster, outlook, self._jobs).get(self.key)

    def compute_harm(self, trial: AdmissionTrial) -> Harm:
        """Return the Workloads that the trial preempts or leaves waiting, but the baseline does not.

        The result also has the number of pods of the preempted Workloads.
        """
        before, after = self.baseline.outlook, trial.outlook
        preempted = sorted(
            _collect_preempted_workloads(after.workloads) - _collect_preempted_workloads(before.workloads)
        )
        pod_counts = {
            f"{workload.metadata.namespace}/{workload.metadata.name}": sum(
                pod_set.count for pod_set in workload.spec.pod_sets
            )
            for workload in self.cluster.kueue_workloads
        }
        preempted_pods = sum(pod_counts.get(key, 0) for key in preempted)
        delayed = [key for key in before.order if key != self.key and not after.workloads[key].gets_quota]
        return Harm(tuple(preempted), preempted_pods, tuple(delayed))


def _collect_preempted_workloads(outlooks: Mapping[str, WorkloadOutlook]) -> set[str]:
    """Collect the keys of all Workloads that some Workload preempts."""
    return {victim for outlook in outlooks.values() for victim in outlook.victims}


def _find_queues_of_cohort_tree(cluster: Cluster, queue_name: str) -> set[str]:
    """Return the names of the ClusterQueues in the cohort tree of the named ClusterQueue.

    A ClusterQueue without a cohort is a tree by itself. The result is empty if the named ClusterQueue does not exist.
    """
    parents = {cohort.metadata.name: cohort.spec.parent_name for cohort in cluster.cohorts}
    root_by_queue = {}
    for queue in cluster.cluster_queues:
        root_cohort = _find_root_cohort(queue.spec.cohort_name or queue.spec.cohort, parents)
        root_by_queue[queue.metadata.name] = root_cohort or queue.metadata.name
    if queue_name not in root_by_queue:
        return set()
    return {name for name, root in root_by_queue.items() if root == root_by_queue[queue_name]}


def _limit_cluster_to_cohort_tree(cluster: Cluster, workload: KueueWorkload) -> Cluster:
    """Return the cluster restricted to the queues and Workloads of the cohort tree to which the Workload belongs.

    Only these share quota with the Workload. Pods of waiting Workloads in other trees therefore take no nodes in the
    replay. The whole cluster is returned if the Workload has no ClusterQueue, or if flavors share nodes by their
    topology.
    """
    if any(flavor.spec.topology_name for flavor in cluster.resource_flavors):
        return cluster
    cluster_queue_by_local_queue = {
        (queue.metadata.namespace, queue.metadata.name): queue.spec.cluster_queue for queue in cluster.local_queues
    }
    own_queue = cluster_queue_by_local_queue.get((workload.metadata.namespace, workload.spec.queue_name), "")
    queues = _find_queues_of_cohort_tree(cluster, own_queue)
    if not queues:
        return cluster

    def is_in_tree(other: KueueWorkload) -> bool:
        """Return whether a Workload waits in a queue of the tree or holds quota of the tree."""
        if cluster_queue_by_local_queue.get((other.metadata.namespace, other.spec.queue_name)) in queues:
            return True
        admission = other.status.admission
        return admission is not None and admission.cluster_queue in queues

    return dataclasses.replace(
        cluster,
        cluster_queues=tuple(queue for queue in cluster.cluster_queues if queue.metadata.name in queues),
        local_queues=tuple(queue for queue in cluster.local_queues if queue.spec.cluster_queue in queues),
        kueue_workloads=tuple(other for other in cluster.kueue_workloads if is_in_tree(other)),
    )


def _find_root_cohort(cohort: str, parents: Mapping[str, str]) -> str:
    """Return the topmost cohort above a cohort as "cohort NAME", or "" if the cohort's name is empty.

    ``parents`` maps cohorts to their parents. The prefix tells cohorts from ClusterQueues of the same name. In a cycle,
    any of its cohorts is the topmost.
    """
    visited = set()
    while parents.get(cohort) and cohort not in visited:
        visited.add(cohort)
        cohort = parents[cohort]
    return f"cohort {cohort}" if cohort else ""
