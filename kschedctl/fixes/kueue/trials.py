"""Replays of Kueue and kube-scheduler with changed objects, and what they change for other Workloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.fixes.kueue.changes import AdmissionProposal
from kschedctl.queueing.kueue.installation import find_installation
from kschedctl.queueing.kueue.outlook import Outlook, WorkloadOutlook, foresee, start_replay
from kschedctl.queueing.kueue.replay import KueueReplay
from kschedctl.replay.waiting_elsewhere.kueue import find_job
from kschedctl.replay.waiting_elsewhere.kueue_placement import PodPlacement, place_admitted_pods

MOST_REPLAYS, LEAST_REPLAYS = 16, 2
"""The limits of the number of replays that the search for fixes of one Workload may take."""
_MOST_REPLAYED_WORKLOADS = 40_000
"""The number of Workloads that all replays may have together, within these limits."""


class AdmissionTrial(NamedTuple):
    """What Kueue does with the objects of a changed cluster."""

    cluster: Cluster
    outlook: Outlook
    replay: KueueReplay
    """The replay after its last cycle."""


class Harm(NamedTuple):
    """What a change does to other Workloads."""

    preempted: tuple[str, ...] = ()
    """The Workloads that are preempted only with the change."""
    preempted_pods: int = 0
    delayed: tuple[str, ...] = ()
    """The Workloads that would get quota without the change and do not get it with the change."""


class AdmissionTrials:
    """The replays for one waiting Workload."""

    def __init__(self, cluster: Cluster, workload: KueueWorkload, now: int) -> None:
        """Replay the unchanged cluster. ``now`` is in microseconds since 1970. Raises InputError."""
        self.cluster = cluster
        self.workload = workload
        self.key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        self._now = now
        self._installation = find_installation(cluster)
        affordable = _MOST_REPLAYED_WORKLOADS // len(cluster.kueue_workloads)
        self._remaining = min(max(affordable, LEAST_REPLAYS), MOST_REPLAYS)
        self.baseline = self._replay(cluster)

    @cached_property
    def job(self) -> Owner | None:
        """The object whose pods the Workload stands for, or None if it is unknown."""
        return find_job(self.workload, self.cluster)

    @cached_property
    def _jobs(self) -> dict[str, Owner | None]:
        """The object of each Workload."""
        workloads = self.cluster.kueue_workloads
        return {f"{w.metadata.namespace}/{w.metadata.name}": find_job(w, self.cluster) for w in workloads}

    def _replay(self, cluster: Cluster) -> AdmissionTrial:
        """Replay Kueue until nothing changes. Raises InputError."""
        replay = start_replay(cluster, self._now, self._installation)
        return AdmissionTrial(cluster, foresee(replay), replay)

    def run(self, proposal: AdmissionProposal) -> AdmissionTrial | None:
        """Replay Kueue with a change, or return None if there were too many replays. Raises InputError."""
        if self._remaining <= 0:
            return None
        self._remaining -= 1
        changed: dict[str, list[Struct]] = {}
        for kind, obj in proposal.edits:
            changed.setdefault(kind, []).append(obj)
        return self._replay(self.cluster.with_objects(changed))

    def get_outlook(self, trial: AdmissionTrial) -> WorkloadOutlook:
        """Return what becomes of the Workload in a trial."""
        return trial.outlook.workloads[self.key]

    def is_admitted(self, trial: AdmissionTrial) -> bool:
        """Return whether the Workload gets quota in a trial."""
        return self.get_outlook(trial).admission is not None

    def place_pods(self, trial: AdmissionTrial) -> PodPlacement | None:
        """Place the pods of the admitted Workload after those of Workloads that are admitted before it.

        Return None if the cluster has no nodes, or if there are too many pods to tell.
        """
        if not self.cluster.nodes or self.cluster.gap("Node") is not None or self.cluster.gap("Pod") is not None:
            return None
        order = trial.outlook.order
        outlook = dataclasses.replace(trial.outlook, order=order[: order.index(self.key) + 1])
        return place_admitted_pods(trial.cluster, outlook, self._jobs).get(self.key)

    def find_harm(self, trial: AdmissionTrial) -> Harm:
        """Return what the change of a trial does to other Workloads."""
        before, after = self.baseline.outlook, trial.outlook
        preempted = sorted(_list_victims(after.workloads) - _list_victims(before.workloads))
        pods = {
            f"{w.metadata.namespace}/{w.metadata.name}": sum(pod_set.count for pod_set in w.spec.pod_sets)
            for w in self.cluster.kueue_workloads
        }
        delayed = (key for key in before.order if key != self.key and not after.workloads[key].admitted_in)
        return Harm(tuple(preempted), sum(pods.get(key, 0) for key in preempted), tuple(delayed))


def _list_victims(outlooks: Mapping[str, WorkloadOutlook]) -> set[str]:
    """Return all Workloads that are preempted."""
    return {victim for outlook in outlooks.values() for victim in outlook.victims}
