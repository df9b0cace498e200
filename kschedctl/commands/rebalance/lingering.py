"""A cluster that has a pod of each kind besides, as it terminates: they stand for evicted pods that linger."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import as_terminating, find_jobs_that_wait, terminates_beside_replacement
from kschedctl.replay.edits import change_pods, is_recreated_elsewhere
from kschedctl.snapshot.fork import Fork


class LingeringPods(NamedTuple):
    """``templates`` (P,): which template each pod follows; ``leaving``: template -> the pod that stands for those of it
    that terminate, which is on no node now.
    """

    view: Fork
    templates: Ints
    leaving: dict[int, Position]

    @classmethod
    def taken_off(cls, view: Fork, names: dict[str, str]) -> LingeringPods:
        """``names``: pod -> the one that stands for it, both ``namespace/name``; these have no node from now on."""
        pods, absent = view.pods, np.zeros(len(view.pods), np.bool_)
        templates = pods.objects.table.template[pods.objects.rows]
        leaving = {int(templates[pods.index[of]]): pods.index[name] for of, name in names.items()}
        for position in leaving.values():
            view.forget(position)
            absent[position] = True
        view.absent = absent
        return cls(view, templates, leaving)

    def stay(self, position: Position, row: Row) -> Position | None:
        """The pod that an evicted pod is on its node while it terminates; None for one that goes at once."""
        leaving = self.leaving.get(int(self.templates[position]))
        if leaving is not None:
            self.view.assume(leaving, row)
        return leaving

    def go(self, leaving: Position) -> None:
        self.view.forget(leaving)


def with_lingering(cluster: Cluster, grace: int | None) -> tuple[Cluster, dict[str, str]]:
    """The cluster with one pod more of each template, and the names of these for LingeringPods.

    ``grace``: how many seconds evictions give pods, None for what they say themselves.
    """
    pods, patient = cluster.pods, find_jobs_that_wait(cluster)
    slow = np.array(
        [
            is_recreated_elsewhere(pod) and not pod.terminated and terminates_beside_replacement(pod, patient, grace)
            for pod in pods.templates
        ],
        np.bool_,
    )
    named = np.array([bool(name) for name in pods.node.values], np.bool_)
    rows = np.flatnonzero(slow[pods.template] & named[pods.node.codes])
    _, first = np.unique(pods.template[rows], return_index=True)
    some = [pods[row] for row in rows[first].tolist()]
    more = {pod.key: as_terminating(pod, pod.spec.node_name) for pod in some}
    there = {(pod.metadata.namespace, pod.metadata.name): pod for pod in more.values()}
    return change_pods(cluster, there), {key: pod.key for key, pod in more.items()}
