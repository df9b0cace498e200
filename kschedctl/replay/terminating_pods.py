"""Stand-ins for pods that are still terminating while their replacements are placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import build_terminating_pod
from kschedctl.replay.edits import change_pods
from kschedctl.snapshot.fork import Fork


class LingeringPods(NamedTuple):
    """Stand-ins for deleted pods that are still terminating, one per pod template."""

    view: Fork
    templates: Ints
    """The template of each pod, shape (P,)."""
    stand_ins: dict[int, Position]
    """The stand-in for each template, which is on no node at first."""

    @classmethod
    def take_off_nodes(cls, view: Fork, names: dict[str, str]) -> LingeringPods:
        """Take the stand-ins for terminating pods off their nodes, mark them as absent in the view, and return them.

        `names` maps one pod of each template to its stand-in, both as `namespace/name`.
        """
        pods = view.pods
        absent = np.zeros(len(pods), np.bool_)
        templates = pods.objects.table.template[pods.objects.rows]
        stand_ins: dict[int, Position] = {}
        for pod_name, stand_in_name in names.items():
            template = int(templates[pods.index[pod_name]])
            stand_ins[template] = pods.index[stand_in_name]
        for position in stand_ins.values():
            view.forget(position)
            absent[position] = True
        view.absent = absent
        return cls(view, templates, stand_ins)

    def start_termination(self, position: Position, row: Row) -> Position | None:
        """Put the stand-in of an evicted pod on its node, `row`, and return the stand-in.

        Return None for a pod that leaves its node at once.
        """
        stand_in = self.stand_ins.get(int(self.templates[position]))
        if stand_in is not None:
            self.view.assume(stand_in, row)
        return stand_in

    def finish_termination(self, stand_in: Position) -> None:
        """Take a stand-in off its node again."""
        self.view.forget(stand_in)


def add_stand_ins(cluster: Cluster, may_linger: Callable[[Pod], bool]) -> tuple[Cluster, dict[str, str]]:
    """Add a stand-in for each template of bound pods that still terminate while their replacements are placed.

    A stand-in takes the place of such a pod after its deletion. `may_linger` returns whether pods of a template may do
    so. Return the cluster, and a mapping from one pod of each template to its stand-in, both as `namespace/name`.
    """
    # Of each template that may linger, take the first pod on a node as the example.
    pods = cluster.pods
    lingers_by_template = np.array([may_linger(template) for template in pods.templates], np.bool_)
    is_node_name = np.array([bool(name) for name in pods.node.values], np.bool_)
    lingers = lingers_by_template[pods.template]
    is_bound = is_node_name[pods.node.codes]
    rows = np.flatnonzero(lingers & is_bound)
    _, first_indexes = np.unique(pods.template[rows], return_index=True)
    examples = [pods[row] for row in rows[first_indexes].tolist()]

    stand_in_by_pod = {pod.key: build_terminating_pod(pod, pod.spec.node_name) for pod in examples}
    added_pods = {
        (stand_in.metadata.namespace, stand_in.metadata.name): stand_in for stand_in in stand_in_by_pod.values()
    }
    return change_pods(cluster, added_pods), {pod: stand_in.key for pod, stand_in in stand_in_by_pod.items()}
