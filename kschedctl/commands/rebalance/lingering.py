"""Stand-ins for evicted pods that are still terminating: one additional pod per template."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import as_terminating, find_jobs_that_wait, terminates_beside_replacement
from kschedctl.replay.edits import change_pods, is_recreated_elsewhere
from kschedctl.snapshot.fork import Fork


class LingeringPods(NamedTuple):
    """The stand-ins in a view."""

    view: Fork
    templates: Ints
    """The template of each pod, (P,)."""
    stand_ins: dict[int, Position]
    """The stand-in for each template, on no node at first."""

    @classmethod
    def take_off_nodes(cls, view: Fork, names: dict[str, str]) -> LingeringPods:
        """Take the stand-ins off their nodes. ``names`` maps each to its pod, both ``namespace/name``."""
        pods, absent = view.pods, np.zeros(len(view.pods), np.bool_)
        templates = pods.objects.table.template[pods.objects.rows]
        leaving = {int(templates[pods.index[of]]): pods.index[name] for of, name in names.items()}
        for position in leaving.values():
            view.forget(position)
            absent[position] = True
        view.absent = absent
        return cls(view, templates, leaving)

    def start_terminating(self, position: Position, row: Row) -> Position | None:
        """Put the stand-in of an evicted pod on its node. Return it, or None for a pod that leaves at once."""
        leaving = self.stand_ins.get(int(self.templates[position]))
        if leaving is not None:
            self.view.assume(leaving, row)
        return leaving

    def finish_terminating(self, leaving: Position) -> None:
        self.view.forget(leaving)


def add_stand_ins(cluster: Cluster, grace: int | None) -> tuple[Cluster, dict[str, str]]:
    """Return the cluster with one additional pod per template, and their names for LingeringPods.

    ``grace`` is the grace period of evictions in seconds, None for the pods' own.
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
