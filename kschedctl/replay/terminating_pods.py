"""Terminating pods: stand-ins for them in a replay, and nodes whose kubelets cannot end them.

A pod that is deleted disappears once the kubelet has ended it. Without the kubelet it disappears if it is
force-deleted, or if its node is deleted or has the out-of-service taint. A ReplicaSet replaces terminating pods at
once. A StatefulSet replaces a pod only after the pod has disappeared, and so does a Job whose podReplacementPolicy is
Failed. Upstream: pkg/controller/podgc/gc_controller.go, pkg/controller/statefulset/stateful_set_control.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Position, Row
from kschedctl.api.node_health import NodeHealth, get_node_health, is_out_of_service
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_controller
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import ObjectNames, build_terminating_pod, find_jobs_awaiting_termination
from kschedctl.replay.edits import change_pods
from kschedctl.reports.placements import DownNode
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

    A stand-in takes the place of such a pod after its deletion. `may_linger` returns whether pods of a template may
    still terminate then. Return the cluster, and a mapping from one pod of each template to its stand-in, both as
    `namespace/name`.
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


def find_down_nodes(view: Fork, deleted_pods: Iterable[Pod]) -> tuple[DownNode, ...]:
    """Return the nodes that are not ready, so that their kubelets cannot end the given pods there.

    `deleted_pods` are bound pods that are evicted or already being deleted. Nodes with the out-of-service taint are
    left out.
    """
    pods_by_node: dict[str, list[Pod]] = {}
    for pod in deleted_pods:
        pods_by_node.setdefault(pod.spec.node_name, []).append(pod)

    waiting_jobs = find_jobs_awaiting_termination(view.cluster)
    down_nodes = []
    for name, pods in pods_by_node.items():
        node = view.nodes.objects[view.nodes.index[name]]
        health = get_node_health(node)
        if health is NodeHealth.READY or is_out_of_service(node):
            continue
        not_replaced = tuple(pod.key for pod in pods if _is_replaced_after_its_end(pod, waiting_jobs))
        down_nodes.append(DownNode(name, health=health, pods=tuple(pod.key for pod in pods), not_replaced=not_replaced))
    return tuple(down_nodes)


def _is_replaced_after_its_end(pod: Pod, waiting_jobs: ObjectNames) -> bool:
    """Return whether the pod's controller creates a replacement only once the pod has disappeared."""
    controller = find_controller(pod.metadata)
    if controller is None:
        return False
    is_of_waiting_job = controller.kind == "Job" and (pod.metadata.namespace, controller.name) in waiting_jobs
    return controller.kind == "StatefulSet" or is_of_waiting_job
