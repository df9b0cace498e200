"""The other replicas of a workload that has no pods yet: the pod that stands for it is only the first.

Without them, a fix that makes room for one pod would look as if it helped the whole workload.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.workloads import CronJob, DaemonSet, Job, get_identity
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import create_objects
from kschedctl.replay.controllers.plan_change import ExistingPods
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.edits import add_pods
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


def count_placed_replicas(target: TargetPod) -> tuple[int, int]:
    """Schedule the target, which must fit, and the other replicas of its workload.

    Return how many of these pods get a node, and how many there are.
    """
    cluster, others = _create_other_replicas(target)
    if not others:
        return 1, 1
    replicas = [target.pod, *others]
    simulation = Simulation(Scheduler(add_pods(cluster, replicas), target.scheduler.call_extender))
    view = simulation.view
    found_positions = (view.pods.find_position(pod.key) for pod in replicas)
    positions = [position for position in found_positions if position is not None]
    simulation.schedule_uninterrupted(positions)
    return int((view.node[positions] >= 0).sum()), len(positions)


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
