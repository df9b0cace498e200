"""Plan the rollout of a changed pod template, and run it with the evictions that follow.

Upstream: pkg/controller/{deployment,replicaset,statefulset,daemon,job} (v1.36). If no manifest gives the strategy, the
API server's default is replayed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kschedctl.api.events import shorten_api_message
from kschedctl.api.objects import OwnerReference, Pod, PodSpec, PodStatus, Struct, Volume
from kschedctl.api.ownership import REVISION, TEMPLATE_HASH, Owner, find_owner
from kschedctl.api.workloads import (
    NEW_TEMPLATE_HASH,
    DaemonSet,
    Deployment,
    DeploymentSpec,
    RollingUpdate,
    StatefulSet,
    UpdateStrategy,
    pin_to_node,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.rollout_results import (
    RolloutResult,
    add_evictions_to_result,
    explain_useless_eviction,
    get_position,
)
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.lint.objects.stored_pods import to_written_spec
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.controllers.plan_change import is_controlled_by, rank_for_removal
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.rollout import Rollout, RolloutCreation, rename_replaced_pods, run_rollouts
from kschedctl.replay.controllers.workload_change import (
    ORDINAL_LABELS,
    Pace,
    WorkloadChange,
    get_slot,
    set_rollout_limits,
)
from kschedctl.replay.edits import ObjectKey, add_or_replace_pods, change_pods, is_made_up
from kschedctl.replay.settling import enable_pod_recreation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import agreeing

KEEPS_OTHERS = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds whose pods keep their template until they are deleted."""

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
REVISION_NUMBER = "deployment.kubernetes.io/revision"


def plan_and_run_rollout(
    owner: Owner, trial: RemedyTrial, old_pods: Sequence[Pod], cluster: Cluster, manifest: Struct | None
) -> RolloutResult:
    """Roll out the trial's pod template to all pods of the owner, and return the result with the first harm, if any.

    `old_pods` are the owner's current pods in the changed cluster. `manifest` is the workload's manifest, or None if
    only the cluster has the workload.
    """
    try:
        change, cluster = _plan_rollout(owner, trial, old_pods, cluster, manifest)
    except InputError as error:
        return RolloutResult(owner, harm=f"the new pods cannot be created: {error.what}")

    # The user deletes the old pods that the rollout neither keeps nor replaces.
    rollout_keys = {pod.key for pod in (*change.kept, *change.removed)}
    deleted = [pod for pod in old_pods if pod.key not in rollout_keys]
    # If none of the pods exists yet, some may have a node from an earlier replay.
    placed_before = sum(bool(pod.spec.node_name) for pod in old_pods)
    scheduler = Scheduler(cluster, trial.scheduler.call_extender)
    rolled_out = _run_rollout(owner, change, scheduler, deleted, placed_before)
    if not rolled_out.harm or change.pace is not Pace.ROLLING:
        return rolled_out

    def find_sufficient_max_unavailable() -> int | None:
        """Return a maxUnavailable with which the rollout completes without surge and evictions, or None."""
        unavailable = 1
        while True:
            without_surge = dataclasses.replace(change, surge=0, unavailable=unavailable)
            result = _run_rollout(owner, without_surge, scheduler, deleted, placed_before)
            if not result.harm and not result.victims:
                return unavailable
            if unavailable >= change.desired:
                return None
            unavailable = min(2 * unavailable, change.desired)

    return rolled_out._replace(
        find_sufficient_max_unavailable=find_sufficient_max_unavailable, running_before=placed_before
    )


def _plan_rollout(
    owner: Owner, trial: RemedyTrial, old_pods: Sequence[Pod], cluster: Cluster, manifest: Struct | None
) -> tuple[WorkloadChange, Cluster]:
    """Plan the rollout of the trial's pod template. Return it with the cluster that has the old and the new pods.

    `old_pods` are the owner's current pods. If none of them exists yet, all are created with the new template.
    `manifest` is the workload's manifest, or None if only the cluster has the workload. Raises InputError if the new
    pods cannot be created.
    """
    target_pod = trial.authored_pod
    before = trial.edits[ObjectKey.of(trial.authored_pod)].before
    assert isinstance(before, Pod)
    siblings = [pod for pod in old_pods if pod.key != target_pod.key]
    change = WorkloadChange(str(owner))
    workload = _find_rollout_workload(owner, cluster, manifest)

    # Decide which old pods stay or are removed, and create the new ones.
    does_any_pod_exist = not all(map(is_made_up, old_pods))
    if not does_any_pod_exist:
        new_count = 1 + len(siblings)
    elif owner.kind in KEEPS_OTHERS:
        change.kept = siblings
        new_count = 1
    else:
        change.removed = rank_for_removal(siblings if owner.kind == "StatefulSet" else old_pods)
        new_count = _get_replicas(workload) or 1 + len(siblings)
    replaced_pods = (before, *siblings)[:new_count]
    new_pods = [_build_new_pod(target_pod, pod, number) for number, pod in enumerate(replaced_pods)]
    creation = create_workload_objects(cluster, new_pods)
    create_allowed_claims(cluster, creation, creation.pods)
    change.new = [_fill_in_priority(pod, target_pod) for pods in creation.pods.values() for pod in pods]
    if does_any_pod_exist:
        _set_rollout_pace(change, workload)

    deletions = {(pod.metadata.namespace, pod.metadata.name): None for pod in old_pods if pod not in change.kept}
    cluster = change_pods(creation.apply_to(cluster), deletions)
    return change, add_or_replace_pods(cluster, (*rename_replaced_pods(change), *change.new))


def _find_rollout_workload(owner: Owner, cluster: Cluster, manifest: Struct | None) -> Struct | None:
    """Return the workload that determines the rollout's strategy and replicas, which is the manifest if it has these.

    Without such a manifest, a Deployment is reconstructed from the annotations of its ReplicaSets, and a StatefulSet or
    DaemonSet has default values. Return None for kinds whose controllers do not roll out changes.
    """
    if isinstance(manifest, Deployment | StatefulSet | DaemonSet):
        return manifest
    if owner.kind in (*KEEPS_OTHERS, "Job"):
        return None
    if owner.kind == "StatefulSet":
        return StatefulSet()
    if owner.kind == "DaemonSet":
        return DaemonSet()
    return _reconstruct_deployment(owner, cluster)


def _reconstruct_deployment(owner: Owner, cluster: Cluster) -> Deployment:
    """Return a Deployment with the replicas and maxSurge that the Deployment controller noted on its ReplicaSets.

    The annotations of the newest revision count. The Deployment has default values if there are no annotations.
    """
    annotation_sets = [
        replica_set.metadata.annotations for replica_set in cluster.replica_sets if is_controlled_by(owner, replica_set)
    ]
    usable_sets = [annotations for annotations in annotation_sets if annotations.get(DESIRED_REPLICAS, "").isdigit()]
    newest_annotations = max(usable_sets, key=_parse_revision, default=None)
    if newest_annotations is None:
        return Deployment()

    desired = int(newest_annotations[DESIRED_REPLICAS])
    max_replicas = newest_annotations.get(MAX_REPLICAS, "")
    max_surge = max(int(max_replicas) - desired, 0) if max_replicas.isdigit() else None
    update = RollingUpdate(max_surge=max_surge)
    return Deployment(spec=DeploymentSpec(desired, strategy=UpdateStrategy(rolling_update=update)))


def _get_replicas(workload: Struct | None) -> int | None:
    """Return spec.replicas of a Deployment or StatefulSet, or None for any other workload or if it is not set."""
    return workload.spec.replicas if isinstance(workload, Deployment | StatefulSet) else None


def _parse_revision(annotations: Mapping[str, str]) -> int:
    """Return the Deployment's revision number in a ReplicaSet's annotations, or 0 if they have no valid number."""
    text = annotations.get(REVISION_NUMBER, "")
    return int(text) if text.isdigit() else 0


def _set_rollout_pace(change: WorkloadChange, workload: Struct | None) -> None:
    """Set in `change` how many pods the rollout replaces at the same time, and whether it proceeds in order.

    Only a StatefulSet is rolled out in order, unless its pods are managed in parallel or a waiting pod is removed. The
    user has to delete such a waiting pod, because the controller would wait for it forever. Nothing is set without a
    workload.
    """
    if workload is None:
        return
    set_rollout_limits(change, workload)
    if isinstance(workload, StatefulSet):
        removes_waiting_pod = any(not pod.spec.node_name for pod in change.removed)
        change.ordered = workload.spec.pod_management_policy != "Parallel" and not removes_waiting_pod


def _build_new_pod(template: Pod, old: Pod, number: int) -> Pod:
    """Build the pod that the controller creates from the new template to replace an old pod.

    `template` is a pod with the new template. `number` makes the new name unique, except that a pod of a StatefulSet
    keeps the old pod's name and ordinal.
    """
    owner = find_owner(template)
    meta = old.metadata
    labels = dict(template.metadata.labels)
    if owner.kind not in KEEPS_OTHERS:
        labels |= {label: NEW_TEMPLATE_HASH for label in (TEMPLATE_HASH, REVISION) if label in labels}
    labels |= {label: meta.labels[label] for label in ORDINAL_LABELS if label in meta.labels}
    name = meta.name if owner.kind == "StatefulSet" else f"{owner.name}-{NEW_TEMPLATE_HASH}-{number}"
    references = tuple(_rename_to_new_replica_set(reference, owner) for reference in template.metadata.owner_references)
    spec = _build_new_spec(to_written_spec(template), owner, template, old)
    metadata = replace(
        template.metadata, name=name, uid="", labels=labels, owner_references=references, creation_timestamp=None
    )
    return Pod(metadata, spec, PodStatus("Pending"))


def _rename_to_new_replica_set(reference: OwnerReference, owner: Owner) -> OwnerReference:
    """Return the reference to the new ReplicaSet if the owner is a Deployment, or the reference as it is."""
    return replace(reference, name=f"{owner.name}-{NEW_TEMPLATE_HASH}") if owner.kind == "Deployment" else reference


def _build_new_spec(spec: PodSpec, owner: Owner, template: Pod, old: Pod) -> PodSpec:
    """Build the spec of the pod that replaces `old`, without a node and without the priority from admission.

    `spec` is the template pod's spec as written. A pod of a DaemonSet is pinned to the old pod's node. A pod of a
    StatefulSet gets the old pod's claims instead of the template pod's.
    """
    spec = replace(spec, node_name="", priority=None, preemption_policy=None)
    if owner.kind == "DaemonSet":
        return replace(spec, affinity=pin_to_node(spec.affinity, get_slot(old)))
    if owner.kind != "StatefulSet":
        return spec

    def refer_to_old_claim(volume: Volume) -> Volume:
        """Return the volume with the old pod's claim, if it has a claim that is named after the template pod."""
        source = volume.persistent_volume_claim
        if source is None or source.claim_name != f"{volume.name}-{template.metadata.name}":
            return volume
        old_claim = replace(source, claim_name=f"{volume.name}-{old.metadata.name}")
        return replace(volume, persistent_volume_claim=old_claim)

    return replace(spec, volumes=tuple(map(refer_to_old_claim, spec.volumes)))


def _fill_in_priority(pod: Pod, target_pod: Pod) -> Pod:
    """Return the pod with the target's priority and preemption policy if admission could not set them.

    Admission cannot set them if the pod's PriorityClass is unknown.
    """
    if pod.spec.priority is not None:
        return pod
    spec = replace(pod.spec, priority=target_pod.spec.priority, preemption_policy=target_pod.spec.preemption_policy)
    return replace(pod, spec=spec)


def _run_rollout(
    owner: Owner, change: WorkloadChange, scheduler: Scheduler, deleted: Sequence[Pod], placed_before: int
) -> RolloutResult:
    """Run the rollout, and return its result with the first harm, if any.

    `deleted` are pods that the user deletes before the rollout. `placed_before` is the number of the workload's pods
    that have a node before the change. A harmless rollout completes and evicts none of the workload's pods. Afterwards
    all of these pods have a node, or at least more of them than before.
    """
    simulation = Simulation(scheduler)
    view = simulation.view
    own_positions = [get_position(view, pod) for pod in (*change.kept, *rename_replaced_pods(change), *change.new)]
    creation = RolloutCreation(Admissions(scheduler.cluster, manifests={}), owner, workload=None, change=change)
    creation.release(deleted)
    rollout = Rollout(change, simulation, lambda pod: get_position(view, pod), creation)
    enable_pod_recreation(simulation, frozenset(rollout.old))
    run_rollouts([rollout], simulation)

    # Compare the result with the state before
    placed_after = int((view.node[own_positions] >= 0).sum())
    restarted = sum(bool(pod.spec.node_name) for pod in change.removed)
    waiting = max(change.desired - placed_after, 0)
    rolled_out = add_evictions_to_result(RolloutResult(owner, restarted, waiting), simulation, own_positions)
    if any(eviction.victim in own_positions for eviction in simulation.evictions):
        return rolled_out._replace(harm="the rollout would evict pods of the same workload")
    if rollout.denied is not None:
        return rolled_out._replace(harm=f"the new pods cannot be created: {shorten_api_message(creation.denials[0])}")
    is_stuck = bool(rollout.old or rollout.coming)
    if is_stuck:
        return rolled_out._replace(harm=f"the rollout gets {rollout.status}")

    enough_placed = min(placed_before + 1, change.desired)  # one more than before, or all
    if placed_after >= enough_placed:
        return rolled_out
    if rolled_out.chain and rolled_out.chain.outrun:
        return rolled_out._replace(harm=explain_useless_eviction(rolled_out))
    have = agreeing(placed_before, "has", "have")
    return rolled_out._replace(harm=f"{placed_before} of its pods {have} a node now, {placed_after} afterwards")
