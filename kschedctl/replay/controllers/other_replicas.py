"""The other replicas of a workload that has no pods yet: the pod that stands for it is only the first.

Without them, a fix that makes room for one pod would look as if it helped the whole workload.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.workloads import CronJob, DaemonSet, Job, get_identity
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import create_objects
from kschedctl.replay.controllers.plan_change import ExistingPods
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.edits import add_pods, change_pods
from kschedctl.replay.settling import build_resulting_cluster, list_victims
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def add_other_replicas(target: TargetPod) -> TargetPod:
    """Return the target in a cluster in which the other replicas of its workload are pending, too.

    The target is returned unchanged if it does not stand for a workload, if the workload is a DaemonSet, or if the
    workload already has pods.
    """
    cluster, others = _create_other_replicas(target)
    if not others:
        return target
    return target._replace(scheduler=Scheduler(add_pods(cluster, others), target.scheduler.call_extender))


class PlacedReplicas(NamedTuple):
    """The result of scheduling all pods of a workload that has none yet."""

    placed: int
    """The number of pods that get a node."""
    total: int
    victims: tuple[str, ...]
    """The pods that are evicted for them."""
    waiting: TargetPod
    """The workload's first pod that gets no node, in the cluster where the others are on their nodes or pending."""


def place_replicas(target: TargetPod) -> PlacedReplicas | None:
    """Schedule the target and the other replicas of its workload.

    Return None if all of these pods get a node or none does, or if the workload has no other replicas to create.
    """
    cluster, others = _create_other_replicas(target)
    if not others:
        return None
    replicas = [target.pod, *others]
    simulation = Simulation(Scheduler(add_pods(cluster, replicas), target.scheduler.call_extender))
    view = simulation.view
    found_positions = (view.pods.find_position(pod.key) for pod in replicas)
    positions = [position for position in found_positions if position is not None]
    outcomes = simulation.schedule_uninterrupted(positions)
    unplaced = [position for position in positions if view.node[position] < 0]
    if len(unplaced) in (0, len(positions)):
        return None

    # The pods of the workload keep their uids, so that they are still known to be created by the replay
    cluster_after = build_resulting_cluster(simulation)
    replicas_after = {}
    for position in positions:
        pod, row = view.pods.objects[position], int(view.node[position])
        key = pod.metadata.namespace, pod.metadata.name
        replicas_after[key] = pod if row < 0 else _run_on_node(pod, view.nodes.names[row])
    scheduler = Scheduler(change_pods(cluster_after, replicas_after), target.scheduler.call_extender)
    first_unplaced = view.pods.objects[unplaced[0]]
    victims = tuple(view.pods.objects[position].key for position in list_victims(outcomes))
    waiting = target._replace(scheduler=scheduler, pod=first_unplaced)
    return PlacedReplicas(len(positions) - len(unplaced), len(positions), victims, waiting)


def _run_on_node(pod: Pod, node: str) -> Pod:
    """Return the pod as it runs on the node."""
    return replace(pod, spec=replace(pod.spec, node_name=node), status=replace(pod.status, phase="Running"))


def _create_other_replicas(target: TargetPod) -> tuple[Cluster, list[Pod]]:
    """Create all pods of the target's workload except for the target.

    Return the cluster with their claims, and the pods.

    No pods are created if the target does not stand for a workload, or if the workload already has pods. None are
    created for a DaemonSet either, because its pods do not compete for nodes.
    """
    workload, cluster = target.workload, target.scheduler.cluster
    if workload is None or isinstance(workload, Pod | DaemonSet):
        return cluster, []
    if ExistingPods(cluster).find_pods_of(*get_identity(workload)):
        return cluster, []
    if isinstance(workload, Job | CronJob):
        workload = replace(workload, spec=replace(workload.spec, suspend=False))

    creation = create_objects(cluster, [workload], include_denied=True)
    create_allowed_claims(cluster, creation, creation.pods)
    others = [pod for pods in creation.pods.values() for pod in pods if pod.key != target.pod.key]
    return creation.apply_to(cluster), others
