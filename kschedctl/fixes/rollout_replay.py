"""Replay the rollout that a changed pod template causes, and other effects of carrying out a fix.

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
from kschedctl.replay.edits import ObjectKey, add_or_replace_pods, change_pods, cordon_nodes, is_made_up
from kschedctl.replay.settling import enable_pod_recreation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import agreeing, join_first_few


def replay_rollout(trial: RemedyTrial, manifest: Struct | None) -> RolloutResult | None:
    """Replay the rollout of the trial's changes, with the evictions that it causes.

    If the workload has no other pod, and no quota may deny its new one, only the trial's preemptions are replayed.
    Return None if there are no preemptions either. If the new pods cannot be created, the result's `harm` says why. So
    it does if the pod preempts others while the fix keeps nodes cordoned. `manifest` is the workload's manifest, or
    None if only the cluster has the workload.
    """
    owner = find_owner(trial.authored_pod)
    pod_key = ObjectKey.of(trial.authored_pod)
    edits = {key: edit for key, edit in trial.edits.items() if key != pod_key}
    cluster = apply_edits_to_cluster(trial.scheduler.cluster, edits, with_pods_and_nodes=True)
    if trial.cordoned_nodes and trial.created and not trial.victims:
        harm = _explain_preemption_while_cordoned(trial, cluster)
        if harm:
            return RolloutResult(owner, harm=harm)
    if not trial.changes_workload and not trial.victims:
        return None
    old_pods = ExistingPods(cluster).find_workload_pods(*owner) if trial.changes_workload else []
    has_siblings = any(pod.key != trial.authored_pod.key for pod in old_pods)
    # A quota may deny the new pod of a single pod, too: a rollout may create it before it removes the old one
    has_quotas = bool(cluster.list_in_namespace("resource_quotas", owner.namespace))
    may_be_denied = has_quotas and any(not is_made_up(pod) for pod in old_pods)
    if not has_siblings and not may_be_denied:
        return _replay_single_preemption(owner, trial, cluster) if trial.victims else None

    from kschedctl.fixes.rollout_run import plan_and_run_rollout  # noqa: PLC0415 - few changes

    return plan_and_run_rollout(owner, trial, old_pods, cluster, manifest)


def _explain_preemption_while_cordoned(trial: RemedyTrial, cluster: Cluster) -> str:
    """Say which pods the trial's pod preempts while nodes are cordoned, or return "" if it preempts none.

    The eviction of a pod wakes the trial's pod, which cannot use the room on the cordoned node yet. `cluster` has all
    other edits of the trial.
    """
    simulation = Simulation(
        Scheduler(
            cordon_nodes(_add_trial_pod(trial, cluster), trial.cordoned_nodes),
            trial.scheduler.call_extender,
        )
    )
    view = simulation.view
    simulation.schedule_or_raise_interrupt([get_position(view, trial.pod)])
    if not simulation.evictions:
        return ""
    victims = join_first_few([view.pods.objects[eviction.victim].key for eviction in simulation.evictions])
    node = view.nodes.names[simulation.evictions[0].row]
    are = agreeing(len(trial.cordoned_nodes), "is", "are")
    return f"while {join_first_few(trial.cordoned_nodes)} {are} cordoned, the pod would preempt {victims} on {node}"


def _add_trial_pod(trial: RemedyTrial, cluster: Cluster) -> Cluster:
    """Return the cluster with the trial's pod, as the trial changes it."""
    pod = trial.pod
    if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
        return add_or_replace_pods(cluster, [pod])
    return change_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod})


def _replay_single_preemption(owner: Owner, trial: RemedyTrial, cluster: Cluster) -> RolloutResult:
    """Let the trial's pod preempt in the changed cluster, and report what happens to the evicted pods.

    The result's `harm` is set if the pod has no node in the end.
    """
    cluster = _add_trial_pod(trial, cluster)
    simulation = enable_pod_recreation(Simulation(Scheduler(cluster, trial.scheduler.call_extender)))
    position = get_position(simulation.view, trial.pod)
    simulation.schedule_or_raise_interrupt([position])
    rolled_out = add_evictions_to_result(RolloutResult(owner), simulation, [position])
    if simulation.view.has_node(position):
        return rolled_out
    return rolled_out._replace(harm=explain_useless_eviction(rolled_out))
