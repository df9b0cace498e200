"""Replay the rollout that a changed pod template causes, with the evictions that follow.

A fix may work for one pod alone, but its siblings get the same template, and they move, restart and preempt with it.
The pods that they evict are recreated and may take the room again.
"""

from __future__ import annotations

from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.fixes.rollout_results import (
    RolloutResult,
    add_evictions_to_result,
    explain_useless_eviction,
    get_position,
)
from kschedctl.fixes.trial.trials import RemedyTrial, apply_edits_to_cluster
from kschedctl.replay.controllers.plan_change import ExistingPods
from kschedctl.replay.edits import ObjectKey, add_or_replace_pods, change_pods, is_made_up
from kschedctl.replay.settling import enable_pod_recreation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def replay_rollout(trial: RemedyTrial, manifest: Struct | None) -> RolloutResult | None:
    """Replay the rollout of the trial's changes, with the evictions that it causes.

    If the workload has no other pod, and no quota may deny its new one, only the trial's preemptions are replayed.
    Return None if there are no preemptions either. If the new pods cannot be created, the result's `harm` says why.
    `manifest` is the workload's manifest, or None if only the cluster has the workload.
    """
    if not trial.changes_workload and not trial.victims:
        return None
    owner = find_owner(trial.authored_pod)
    pod_key = ObjectKey.of(trial.authored_pod)
    edits = {key: edit for key, edit in trial.edits.items() if key != pod_key}
    cluster = apply_edits_to_cluster(trial.scheduler.cluster, edits, with_pods_and_nodes=True)
    old_pods = ExistingPods(cluster).find_workload_pods(*owner) if trial.changes_workload else []
    has_siblings = any(pod.key != trial.authored_pod.key for pod in old_pods)
    # A quota may deny the new pod of a single pod, too: a rollout may create it before it removes the old one
    has_quotas = bool(cluster.list_in_namespace("resource_quotas", owner.namespace))
    may_be_denied = has_quotas and any(not is_made_up(pod) for pod in old_pods)
    if not has_siblings and not may_be_denied:
        return _replay_single_preemption(owner, trial, cluster) if trial.victims else None

    from kschedctl.fixes.rollout_run import plan_and_run_rollout  # noqa: PLC0415 - few changes

    return plan_and_run_rollout(owner, trial, old_pods, cluster, manifest)


def _replay_single_preemption(owner: Owner, trial: RemedyTrial, cluster: Cluster) -> RolloutResult:
    """Let the trial's pod preempt in the changed cluster, and report what happens to the evicted pods.

    The result's `harm` is set if the pod has no node in the end.
    """
    pod = trial.pod
    if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
        cluster = add_or_replace_pods(cluster, [pod])
    else:
        cluster = change_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod})
    simulation = enable_pod_recreation(Simulation(Scheduler(cluster, trial.scheduler.call_extender)))
    position = get_position(simulation.view, pod)
    simulation.schedule_or_raise_interrupt([position])
    rolled_out = add_evictions_to_result(RolloutResult(owner), simulation, [position])
    if simulation.view.has_node(position):
        return rolled_out
    return rolled_out._replace(harm=explain_useless_eviction(rolled_out))
