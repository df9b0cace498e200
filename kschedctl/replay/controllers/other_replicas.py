"""The other replicas of a workload: a target pod stands for the first replica, and these functions add the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.workloads import CronJob, DaemonSet, Job, format_title, get_identity
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.controllers.plan_change import ExistingPods, plan_change
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.rollout import Rollout, rename_replaced_pods, run_rollouts
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_change import set_rollout_limits
from kschedctl.replay.edits import add_or_replace_pods, change_pods
from kschedctl.replay.placements import find_violated_budgets, report_evictions
from kschedctl.replay.settling import (
    build_resulting_cluster,
    enable_pod_recreation,
    list_displaced_victims,
    schedule_victims_until_stable,
)
from kschedctl.reports.placements import FailedJob
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation


def add_other_replicas(target: TargetPod) -> TargetPod:
    """Return the target in a cluster in which the other replicas of its workload are also pending.

    The target is returned unchanged if it does not stand for a workload, if the workload is a DaemonSet, or if the
    workload already has pods.
    """
    cluster, other_pods = _create_other_replicas(target)
    if not other_pods:
        return target
    return target._replace(
        scheduler=Scheduler(add_or_replace_pods(cluster, other_pods), target.scheduler.call_extender)
    )


class PlacedReplicas(NamedTuple):
    """The result of scheduling all pods of a workload's manifest, if some get no node or running pods are evicted."""

    placed: int
    """The number of pods that get a node."""
    total: int
    victims: tuple[str, ...]
    """The running pods that are evicted for them."""
    victims_without_node: tuple[str, ...]
    """The victims that get no other node, or that no controller recreates."""
    failed_jobs: tuple[FailedJob, ...]
    """The Jobs that fail because the victims are evicted."""
    waiting: TargetPod | None
    """The workload's first pod that gets no node, in the cluster where the others are on their nodes or pending.

    None if all pods get a node.
    """
    rollout: str = ""
    """The state of the rollout that replaces old pods, such as `stuck: …`; empty if no pods are replaced."""


def place_replicas(target: TargetPod) -> PlacedReplicas | None:
    """Schedule all pods that the target's workload has once its manifest is applied.

    Return None if all of these pods get a node without evicting others, or if the workload is new and none of its pods
    gets one. Also return None if the target stands for no workload with replicas, or for a Job or CronJob that already
    has pods. Raises KeyboardInterrupt if the user interrupts.
    """
    workload = target.workload
    if workload is None or isinstance(workload, Pod | DaemonSet):
        return None
    if not ExistingPods(target.scheduler.cluster).find_workload_pods(*get_identity(workload)):
        return _place_new_replicas(target)
    if isinstance(workload, Job | CronJob):
        return None
    return _replay_update(target, workload)


def _place_new_replicas(target: TargetPod) -> PlacedReplicas | None:
    """Schedule the target and the other replicas of its workload, which has no pods yet.

    Return None if there are no other replicas, if none of the replicas gets a node, or if all of them get one without
    evicting other pods. Raises KeyboardInterrupt if the user interrupts.
    """
    cluster, other_pods = _create_other_replicas(target)
    if not other_pods:
        return None

    # Schedule all replicas, and let evicted pods come back
    replicas = [target.pod, *other_pods]
    simulation = Simulation(Scheduler(add_or_replace_pods(cluster, replicas), target.scheduler.call_extender))
    enable_pod_recreation(simulation)
    view = simulation.view
    found_positions = (view.pods.find_position(pod.key) for pod in replicas)
    positions = [position for position in found_positions if position is not None]
    outcomes = schedule_victims_until_stable(simulation, simulation.schedule(positions))
    if simulation.interrupted:
        raise KeyboardInterrupt

    unplaced = [position for position in positions if not view.has_node(position)]
    victims = _list_victims(simulation, outcomes, own_pods=positions)
    is_none_placed = len(unplaced) == len(positions)
    are_all_placed_without_evictions = not unplaced and not victims.evicted
    if is_none_placed or are_all_placed_without_evictions:
        return None
    return PlacedReplicas(
        placed=len(positions) - len(unplaced),
        total=len(positions),
        victims=victims.evicted,
        victims_without_node=victims.without_node,
        failed_jobs=victims.failed_jobs,
        waiting=_retarget_to_waiting_pod(target, simulation, unplaced[0], own_pods=positions) if unplaced else None,
    )


def _replay_update(target: TargetPod, workload: Struct) -> PlacedReplicas | None:
    """Replay how the controller updates a workload that has pods: it creates more, or rolls out another template.

    Return None if the controller creates no pods, or if all of its new pods get a node without evicting pods of others.
    Raises KeyboardInterrupt if the user interrupts.
    """
    # Plan the change of the workload's pods
    cluster = target.scheduler.cluster
    existing = ExistingPods(cluster)
    workload = existing.with_current_replicas(workload)
    creation = create_workload_objects(cluster, [workload], include_denied=True)
    title = format_title(workload)
    change = plan_change(existing, workload, title, creation.pods[title], forced=False)
    if not change.new:
        return None
    if change.removed:
        set_rollout_limits(change, workload)

    # Put the new pods and their claims into the cluster. Old pods are renamed if a new pod takes their name.
    create_allowed_claims(cluster, creation, {title: change.new})
    deletions = {(pod.metadata.namespace, pod.metadata.name): None for pod in change.removed}
    cluster = change_pods(creation.apply_to(cluster), deletions)
    cluster = add_or_replace_pods(cluster, (*rename_replaced_pods(change), *change.new))

    simulation = Simulation(Scheduler(cluster, target.scheduler.call_extender))
    index = simulation.view.pods.index
    rollout = Rollout(change, simulation, lambda pod: index[pod.key])
    enable_pod_recreation(simulation, frozenset(rollout.old))
    outcomes = run_rollouts([rollout], simulation)
    if simulation.interrupted:
        raise KeyboardInterrupt
    own_pods = [index[pod.key] for pod in (*rename_replaced_pods(change), *change.new)]
    victims = _list_victims(simulation, outcomes, own_pods)
    if not rollout.waiting:
        if not victims.evicted:
            return None
        return PlacedReplicas(
            placed=change.desired,
            total=change.desired,
            victims=victims.evicted,
            victims_without_node=victims.without_node,
            failed_jobs=victims.failed_jobs,
            waiting=None,
        )

    # Pods that the stuck rollout has not created yet are pending, too, so that a fix has to make room for all
    old_pods = [index[pod.key] for pod in rename_replaced_pods(change)]
    removed = {position for position in old_pods if position not in rollout.old}
    return PlacedReplicas(
        placed=change.desired - len(rollout.waiting) - len(rollout.coming),
        total=change.desired,
        victims=victims.evicted,
        victims_without_node=victims.without_node,
        failed_jobs=victims.failed_jobs,
        waiting=_retarget_to_waiting_pod(
            target, simulation, next(iter(rollout.waiting)), own_pods=own_pods, removed=removed
        ),
        rollout=rollout.status,
    )


class PreemptedPods(NamedTuple):
    """The pods that preemption evicts, each once."""

    evicted: tuple[str, ...]
    without_node: tuple[str, ...]
    """Those that end without a node."""
    failed_jobs: tuple[FailedJob, ...]
    """The Jobs that fail because of the evictions."""
    violated_budgets: tuple[str, ...]
    """The PodDisruptionBudgets that the evictions violate."""


def _list_victims(simulation: Simulation, outcomes: Iterable[Outcome], own_pods: Collection[Position]) -> PreemptedPods:
    """List the evicted pods apart from the workload's own pods and pods that were being deleted anyway."""
    displaced = dict.fromkeys(list_displaced_victims(simulation, outcomes))
    victims = [position for position in displaced if position not in own_pods]
    view = simulation.view
    return PreemptedPods(
        evicted=tuple(view.pods.objects[position].key for position in victims),
        without_node=tuple(view.pods.objects[position].key for position in victims if not view.has_node(position)),
        failed_jobs=JobFailures.of(view.objects).report_failed_jobs(view.cluster),
        violated_budgets=tuple(find_violated_budgets(simulation.scheduler.view.cluster, report_evictions(simulation))),
    )


def replay_preemption(target: TargetPod, victims: Collection[str]) -> PreemptedPods | None:
    """Replay what the target's preemption of the `victims` leads to, and return all evicted pods.

    Controllers recreate the evicted pods, which may evict others in turn. Return None if the replay does not evict all
    of the `victims`, for example because of a random choice. Raises KeyboardInterrupt if the user interrupts.
    """
    scheduler, pod = target.scheduler, target.pod
    stored = scheduler.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    if stored is None:
        scheduler = Scheduler(add_or_replace_pods(scheduler.cluster, [pod]), scheduler.call_extender)
    elif scheduler.view.build_stored_pod(stored) != pod:
        changed_cluster = change_pods(scheduler.cluster, {(pod.metadata.namespace, pod.metadata.name): pod})
        scheduler = Scheduler(changed_cluster, scheduler.call_extender)
    simulation = enable_pod_recreation(Simulation(scheduler))
    position = Position(simulation.view.pods.index[pod.key])
    outcomes = schedule_victims_until_stable(simulation, simulation.schedule([position]))
    if simulation.interrupted:
        raise KeyboardInterrupt
    preempted = _list_victims(simulation, outcomes, own_pods=[position])
    return preempted if {*victims} <= {*preempted.evicted} else None


def _retarget_to_waiting_pod(
    target: TargetPod,
    simulation: Simulation,
    waiting: Position,
    *,
    own_pods: Sequence[Position],
    removed: Collection[Position] = (),
) -> TargetPod:
    """Return the target with the waiting pod in place of its own, in the cluster that results from the simulation.

    `own_pods` are the workload's pods. The own pods in `removed` are deleted from that cluster. All other own pods are
    put there with their nodes and keep their uids, which show whether the replay created them.
    """
    view = simulation.view
    changes: dict[tuple[str, str], Pod | None] = {}  # None deletes a pod
    for position in own_pods:
        pod, row = view.pods.objects[position], int(view.node[position])
        key = pod.metadata.namespace, pod.metadata.name
        if position in removed:
            changes[key] = None
        else:
            changes[key] = pod if row < 0 else _run_on_node(pod, view.nodes.names[row])
    cluster = change_pods(build_resulting_cluster(simulation), changes)
    scheduler = Scheduler(cluster, target.scheduler.call_extender)
    return target._replace(scheduler=scheduler, pod=view.pods.objects[waiting])


def _run_on_node(pod: Pod, node: str) -> Pod:
    """Return the pod as it runs on the node."""
    return replace(pod, spec=replace(pod.spec, node_name=node), status=replace(pod.status, phase="Running"))


def _create_other_replicas(target: TargetPod) -> tuple[Cluster, list[Pod]]:
    """Create all pods of the target's workload except for the target.

    Return the cluster with their claims, and the pods. A suspended Job or CronJob is resumed. No pods are created if
    the target does not stand for a workload, or if the workload is a bare pod or already has pods. No pods are created
    for a DaemonSet either, because its pods do not compete for nodes.
    """
    workload, cluster = target.workload, target.scheduler.cluster
    if workload is None or isinstance(workload, Pod | DaemonSet):
        return cluster, []
    if ExistingPods(cluster).find_workload_pods(*get_identity(workload)):
        return cluster, []
    if isinstance(workload, Job | CronJob):
        workload = replace(workload, spec=replace(workload.spec, suspend=False))

    creation = create_workload_objects(cluster, [workload], include_denied=True)
    create_allowed_claims(cluster, creation, creation.pods)  # only to drop denied claims from the creation
    other_pods = [pod for pods in creation.pods.values() for pod in pods if pod.key != target.pod.key]
    return creation.apply_to(cluster), other_pods
