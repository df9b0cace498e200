"""Convert verified fixes to `Remedy` reports: a sentence, commands, patches and changes of objects.

People change the pod template of a workload rather than its pods, so a change of a pod becomes a patch of its owner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec.structs import replace

from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import ApiObject, PersistentVolumeClaim, Pod, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import CronJob, get_identity, get_template_spec, replace_template_spec
from kschedctl.fixes.ranking import QueueResult, RankedFix, get_trial_price
from kschedctl.fixes.trial.changes import EditedObject, Fix, is_valid_update
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.fixes.trial.trials import RemedyTrial, is_resized
from kschedctl.fixes.ways.claims import build_claim_to_apply, render_volume_claim_recreation
from kschedctl.fixes.ways.neighbours import merge_scale_downs
from kschedctl.lint.objects.stored_pods import remove_node_pin, to_written_spec
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey, is_made_up
from kschedctl.replay.kubectl import build_json_patch, build_strategic_patch, to_document, wrap_in_template
from kschedctl.reports.placements import describe_failing_jobs
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost, build_restart_costs, list_clauses
from kschedctl.text.counts import agreeing, capitalize, counted, first_few

if TYPE_CHECKING:
    from kschedctl.fixes.rollout_results import RolloutResult


def build_remedy(
    ranked: RankedFix,
    pod_key: ObjectKey,
    workload: Struct | None = None,
    *,
    edits: Mapping[ObjectKey, EditedObject] | None = None,
    rollout: RolloutResult | None = None,
    result: QueueResult | None = None,
) -> Remedy:
    """Build the remedy that reports a verified fix for a pod.

    `workload` is the manifest that creates the pod, or None. `edits` are the edits of all objects if the trial does not
    have all of them. `rollout` is the rollout of a changed template. `result` is the outcome of replaying the queue
    after the changes, or None if it was not replayed.
    """
    trial = ranked.trial
    fixes = _merge_claim_recreations(merge_scale_downs(trial.changes), trial)
    changes = tuple(iter_object_changes(edits or _move_pod_edits_to_template(trial, pod_key, workload)))

    # Find what the fix costs.
    victims = rollout.victims if rollout else trial.victims
    needs_values = tuple(dict.fromkeys(name for fix in fixes for name in fix.needs_values))
    costs = [*_iter_fix_costs(fixes, needs_values)]
    if uncordon_warning := _build_uncordon_warning(fixes):
        costs.append(uncordon_warning)
    if victims:
        costs.append(_build_eviction_cost(trial, victims, rollout))
    waiting_siblings_cost = _build_waiting_siblings_cost(find_author(trial.authored_pod, workload), rollout, result)
    if waiting_siblings_cost:
        costs.append(waiting_siblings_cost)

    # A change of the pod becomes a patch of its owner.
    patch = None
    if pod_key in trial.edits and _is_spec_edited(trial.edits[pod_key]):
        patch = _build_trial_owner_patch(trial, edits or trial.edits, pod_key, workload)
    owner = str(patch.owner) if patch else ""
    manifest_edits: tuple[str, ...] = ()
    if patch and workload is not None and not _is_read_from_cluster(workload):
        manifest_edits = tuple(_iter_manifest_edits(changes, get_identity(workload)))
    if patch is not None and not manifest_edits:
        costs += _iter_deletion_costs(trial, patch)
    restarts = rollout.restarted if rollout else 0

    holds = result.holds if result else None
    if holds and needs_values:
        holds = None  # nothing is verified until the values are filled in
    return Remedy(
        summary=_join_to_sentence(fix.text for fix in fixes) + _describe_nodes_taken_by_pods_ahead(fixes, result),
        by="operator" if any(fix.by == "operator" for fix in fixes) else "author",
        weakens="; ".join(list_clauses(costs)) or None,
        # A preempting pod has several equally good nodes, and the victims are those on the nodes of the rollout.
        opens=rollout.nodes if rollout and rollout.nodes and trial.victims else trial.feasible_or_nominated_nodes,
        commands=(
            *_join_commands(_sort_other_pods_edits_first(fixes, pod_key)),
            *(patch.commands if patch and not manifest_edits else ()),
        ),
        changes=changes,
        kinds=tuple(fix.kind.value for fix in trial.changes),
        victims=victims,
        restarts=restarts,
        chain=rollout.chain if rollout else None,
        alternatives=ranked.alternative_places,
        owner=owner,
        owner_patch=dict(patch.patch) if patch else {},
        step=get_trial_price(trial).name.lower(),
        holds=holds,
        rivals=result.rivals if result else (),
        other_node=result.other_node if result else "",
        ahead=result.ahead if result else (),
        preemption_node=result.preemption_node if result else "",
        preemption_victims=result.preemption_victims if result else (),
        also_places=result.also_places if result else (),
        needs_values=needs_values,
        manifests=tuple(dict(manifest) for fix in fixes for manifest in fix.manifests),
        costs=(*costs, *build_restart_costs(restarts, owner)),
        edits=manifest_edits,
    )


def _merge_claim_recreations(fixes: Sequence[Fix], trial: RemedyTrial) -> tuple[Fix, ...]:
    """Merge fixes that recreate the same claim into the first of them, so that the claim is recreated once.

    The command gives the claim all changes of these fixes. Fixes whose changes cannot be joined with "and" are not
    merged.
    """
    fixes_by_claim: dict[ObjectKey, list[Fix]] = {}
    for fix in fixes:
        if fix.recreation is not None and fix.recreation.can_be_joined:
            fixes_by_claim.setdefault(fix.recreation.key, []).append(fix)
    merged: list[Fix] = []
    for fix in fixes:
        fixes_of_claim = fixes_by_claim.get(fix.recreation.key, []) if fix.recreation is not None else []
        if fix not in fixes_of_claim or len(fixes_of_claim) < 2:
            merged.append(fix)
        elif fix is fixes_of_claim[0]:
            merged.append(_merge_recreations_of_claim(fixes_of_claim, trial))
    return tuple(merged)


def _merge_recreations_of_claim(fixes: Sequence[Fix], trial: RemedyTrial) -> Fix:
    """Merge several fixes that recreate one claim into the first of them.

    The merged fix lists all changes in its text, makes them with one command, and states the drawbacks of each fix.
    """
    first, *others = fixes
    assert first.recreation is not None
    edited_claim = trial.edits[first.recreation.key]  # with the changes of all fixes
    claim, new_claim = edited_claim.before, edited_claim.after
    assert isinstance(claim, PersistentVolumeClaim)
    assert isinstance(new_claim, PersistentVolumeClaim)
    other_changes = [fix.recreation.changes.lstrip() for fix in others if fix.recreation is not None]
    command = render_volume_claim_recreation(claim, build_claim_to_apply(new_claim))
    return dataclasses.replace(
        first,
        text=" and ".join((first.text, *other_changes)),
        commands=(*first.recreation.preparation, command),
        weakens="; ".join(dict.fromkeys(fix.weakens for fix in fixes if fix.weakens)),
    )


def _join_commands(fixes: Iterable[Fix]) -> tuple[str, ...]:
    """Return the commands of all fixes in order, with each node cordoned only once.

    A node that pods leave stays cordoned until the last of them is gone, so that no waiting pod takes the room in
    between.
    """
    fixes = tuple(fixes)
    joined: list[str] = []
    for index, fix in enumerate(fixes):
        cordon = kubectl.render_command("cordon", fix.cordoned_node)
        uncordon = kubectl.render_command("uncordon", fix.cordoned_node)
        was_cordoned = cordon in joined
        stays_cordoned = any(later.cordoned_node == fix.cordoned_node for later in fixes[index + 1 :])
        for command in fix.commands:
            is_redundant = (command == cordon and was_cordoned) or (command == uncordon and stays_cordoned)
            if not is_redundant:
                joined.append(command)
    return tuple(joined)


def _build_uncordon_warning(fixes: Iterable[Fix]) -> FixCost | None:
    """Build the warning not to uncordon nodes before the replacements of evicted pods run.

    Return None if the fixes cordon no nodes.
    """
    cordoned_nodes = tuple(dict.fromkeys(fix.cordoned_node for fix in fixes if fix.cordoned_node))
    if not cordoned_nodes:
        return None
    text = f"uncordon {first_few(cordoned_nodes)} only once the replacements of evicted pods run"
    return FixCost(CostKind.PAUSES, text)


def find_author(pod: Pod, workload: Struct | None) -> Owner:
    """Return the workload that the pod's author writes: the CronJob if `workload` is one, or else the pod's owner.

    The owner of a CronJob's pod is a Job that the CronJob creates.
    """
    return get_identity(workload) if isinstance(workload, CronJob) else find_owner(pod)


def _is_read_from_cluster(workload: Struct) -> bool:
    """Return whether the manifest is an object that was read from a cluster, rather than one that is yet to be applied.

    Applying a manifest undoes a patch of the live object, so a patch is of no use for one that is yet to be applied.
    """
    metadata = cast("ApiObject", workload).metadata
    return bool(metadata.uid or metadata.creation_timestamp)


def _iter_manifest_edits(changes: Iterable[Mapping[str, Any]], owner: Owner) -> Iterator[str]:
    """Yield descriptions of the changes of the owner's manifest, one for each field that is set or removed."""
    for change in changes:
        if (change.get("kind"), change.get("namespace"), change.get("name")) == tuple(owner):
            yield from kubectl.describe_patch_operations(change["patch"])


def _iter_fix_costs(fixes: Sequence[Fix], needs_values: Sequence[str]) -> Iterator[FixCost]:
    """Yield the costs of the fixes: fields to fill in, checks to make first, and guarantees that are given up or lost.

    `needs_values` names the fields to fill in. A guarantee that several fixes give up is yielded once.
    """
    if needs_values:
        yield FixCost(CostKind.NEEDS_VALUES, f"not verified until you fill in {', '.join(needs_values)}")
    for fix in fixes:
        if fix.check_first:
            yield FixCost(CostKind.CHECK_FIRST, fix.check_first)
    losses = {fix.weakens for fix in fixes if fix.effective_price is Price.LOSS}
    for weakens in dict.fromkeys(fix.weakens for fix in fixes if fix.weakens):
        yield FixCost(CostKind.LOSES if weakens in losses else CostKind.GIVES_UP, weakens)


def _build_waiting_siblings_cost(
    owner: Owner, rollout: RolloutResult | None, result: QueueResult | None
) -> FixCost | None:
    """Build the cost that other pods of the workload still wait after the fix, or return None if none waits.

    Their number is taken from the rollout or, without a rollout, from the ``result`` of replaying the queue. It is
    unknown if both are None, and there is no cost then.
    """
    waiting = rollout.waiting if rollout is not None else None
    if waiting is None and result is not None:
        waiting = result.waiting_siblings
    if not waiting:
        return None
    pods = f"{counted(waiting, 'other pod')} of {owner}"
    return FixCost(CostKind.PARTIAL, f"{pods} {agreeing(waiting, 'stays', 'stay')} Pending")


def _build_eviction_cost(trial: RemedyTrial, victims: Sequence[str], rollout: RolloutResult | None) -> FixCost:
    """Return the cost of the evictions that the fix causes.

    It describes the harm and, if a rollout was replayed, what happens to the evicted pods and which Jobs fail. If many
    pods are evicted, the cost also has a short text.
    """
    harm = f" ({trial.harm})" if trial.harm else ""
    chain = rollout.chain if rollout else None
    is_any_placed = chain is not None and chain.lost < chain.evicted + chain.deleted
    # If all evicted pods are lost, the harm says so already, unless the rollout evicts other pods than the trial.
    says_outcomes = chain is not None and (is_any_placed or not {*victims} <= {*trial.victims})
    outcomes = chain.outcomes_clause if chain and says_outcomes else ""

    jobs_in_harm = {job.job for job in trial.failed_jobs}
    other_failed_jobs = [job for job in rollout.failed_jobs if job.job not in jobs_in_harm] if rollout else []
    if other_failed_jobs:
        outcomes += f", so that {describe_failing_jobs(other_failed_jobs)}"
    victim_names = chain.name_victims(victims) if chain else ", ".join(victims)
    text = f"evicts {victim_names}{harm}{outcomes}"

    short_text = ""
    if len(victims) > FEW_VICTIMS:
        evicted = f"evicts {counted(len(victims), 'pod')}"
        short_text = f"{evicted}{harm}{outcomes}"
        if len(short_text) > LONGEST_SHORT_COST:
            short_text = f"{evicted}, some for good" if chain and chain.lost else evicted
    return FixCost(CostKind.EVICTS, text, pods=len(victims), short=short_text)


FEW_VICTIMS = 3
"""With more evicted pods, the cost has a short text that only counts them."""
LONGEST_SHORT_COST = 160
"""The most characters of the short text before its details are left out."""


def _describe_nodes_taken_by_pods_ahead(fixes: Sequence[Fix], result: QueueResult | None) -> str:
    """Return the end of a summary that says how many of the added nodes go to pods ahead in the queue.

    The result is empty unless several nodes are added and pods ahead in the queue take some of them. ``result`` is the
    outcome of replaying the queue, or None if the queue was not replayed.
    """
    # Only fixes that add nodes have `with_node_count`.
    node_adding_fixes = [fix for fix in fixes if fix.with_node_count is not None]
    nodes = sum(edit.key.kind == "Node" for fix in node_adding_fixes for edit in fix.edits)
    if nodes < 2 or result is None or not result.ahead:
        return ""
    # The target pod gets the last node.
    taken_nodes = "one of the new nodes goes" if nodes == 2 else f"{nodes - 1:,} of the new nodes go"
    if len(result.ahead) == 1:
        (pod_ahead,) = result.ahead
        return f"; {taken_nodes} to pod {pod_ahead}, which is ahead in the queue"
    return f"; {taken_nodes} to {len(result.ahead):,} pods ahead in the queue"


def _iter_deletion_costs(trial: RemedyTrial, patch: OwnerPatch) -> Iterator[FixCost]:
    """Yield what the patch deletes: a Job with its pods, a pod without a controller, or waiting pods of a workload."""
    if patch.anew and patch.owner.kind == "Job":
        yield _build_job_deletion_cost(trial, patch.owner)
    elif patch.anew:
        text = f"pod {patch.owner.namespace}/{patch.owner.name} is deleted and recreated"
        yield FixCost(CostKind.DELETES, text, pods=1)
    if patch.waiting:
        pods = first_few([f"{key.namespace}/{key.name}" for key in patch.waiting])
        recreated = agreeing(
            len(patch.waiting), "which waits, is deleted and recreated", "which wait, are deleted and recreated"
        )
        yield FixCost(CostKind.DELETES, f"{pods}, {recreated}", pods=len(patch.waiting))


def _build_job_deletion_cost(trial: RemedyTrial, owner: Owner) -> FixCost:
    """Build the cost of recreating a Job with its pods, which is needed because its template is immutable.

    The text says how many of the pods are on nodes. Pods that do not exist yet are not counted.
    """
    from kschedctl.replay.controllers.plan_change import ExistingPods  # noqa: PLC0415 - only for Jobs

    pods = [pod for pod in ExistingPods(trial.scheduler.cluster).find_workload_pods(*owner) if not is_made_up(pod)]
    running = sum(bool(pod.spec.node_name) for pod in pods)
    text = f"{owner} is deleted and recreated"
    if len(pods) == 1:
        state = "is on a node" if running else "has no node yet"
        text = f"{owner} and its pod, which {state}, are deleted and recreated"
    elif pods:
        on_nodes = f"{running:,} of them on nodes" if running else "none of which has a node yet"
        text = f"{owner} and its {len(pods):,} pods, {on_nodes}, are deleted and recreated"
    return FixCost(CostKind.DELETES, text, pods=len(pods))


def _sort_other_pods_edits_first(fixes: Iterable[Fix], target_key: ObjectKey) -> list[Fix]:
    """Sort the fixes so that those that edit pods other than the target pod come first.

    In the other order, the target pod might preempt these pods before their own fixes are applied.
    """

    def edits_no_other_pod(fix: Fix) -> bool:
        """Return whether the fix edits no pod but the target pod."""
        return all(edit.key.kind != "Pod" or edit.key == target_key for edit in fix.edits)

    return sorted(fixes, key=edits_no_other_pod)


def _move_pod_edits_to_template(
    trial: RemedyTrial, pod_key: ObjectKey, workload: Struct | None
) -> dict[ObjectKey, EditedObject]:
    """Return the trial's edits, but with the pod's edits applied to the template in its workload's manifest.

    The edits are returned unchanged if the pod is not edited, or if `workload` is None or a bare pod.
    """
    edits = dict(trial.edits)
    if workload is None or isinstance(workload, Pod) or pod_key not in edits:
        return edits
    pod = Pod(spec=get_template_spec(workload))
    pod_edits = [edit for fix in trial.changes for edit in fix.edits if edit.key == pod_key]
    for edit in pod_edits:
        changed_pod = edit.change(pod)
        assert isinstance(changed_pod, Pod)
        pod = changed_pod
    if pod.spec.priority_class_name != get_template_spec(workload).priority_class_name:
        # Admission sets the other fields of a PriorityClass, and denies pods in which they differ from the class.
        pod = replace(pod, spec=replace(pod.spec, priority=None, preemption_policy=None))
    del edits[pod_key]
    workload_edit = EditedObject(workload, replace_template_spec(workload, pod.spec))
    return {ObjectKey(*get_identity(workload)): workload_edit, **edits}


def _is_spec_edited(edit: EditedObject) -> bool:
    """Return whether the edit of a pod changes more than its status, which only controllers write."""
    assert isinstance(edit.before, Pod)
    assert isinstance(edit.after, Pod)
    return replace(edit.before, status=edit.after.status) != edit.after


def _build_trial_owner_patch(
    trial: RemedyTrial, edits: Mapping[ObjectKey, EditedObject], pod_key: ObjectKey, workload: Struct | None
) -> OwnerPatch:
    """Build the patch of the pod's owner that makes the trial's change to the pod.

    If the pod exists, the owner's other waiting pods among the `edits` get the change as well. `workload` is the
    manifest that creates the pod, or None. If the manifest is a CronJob that creates the pod's Job, the CronJob is
    patched instead of the Job.
    """
    before, after = trial.edits[pod_key].before, trial.edits[pod_key].after
    assert isinstance(before, Pod)
    assert isinstance(after, Pod)
    owner = find_owner(before)
    pods = (edit.before for edit in edits.values() if isinstance(edit.before, Pod))
    waiting = [pod for pod in pods if not pod.spec.node_name and find_owner(pod) == owner and not is_made_up(pod)]
    patch = build_owner_patch(before, after, waiting if trial.created else ())
    author = find_author(before, workload)
    if author == owner:
        return patch
    # The CronJob of the manifest has the template of the Jobs that it creates.
    pod_template = object_at(patch.patch, "spec", "template")
    return OwnerPatch(author, wrap_in_template(author.kind, pod_template), anew=False)


def _join_to_sentence(texts: Iterable[str]) -> str:
    """Join the texts of fixes into one sentence with a capital letter.

    >>> _join_to_sentence(["uncordon node n1", "ask for less"])
    'Uncordon node n1, and ask for less'
    """
    return capitalize(", and ".join(texts))


def iter_object_changes(edits: Mapping[ObjectKey, EditedObject]) -> Iterator[dict[str, Json]]:
    """Yield the edits in the form of `Remedy.changes`: a JSON patch, an object to create, or a reference to delete.

    A patch is marked with `anew` if the object has to be recreated, and with `subresource` if a pod is resized.
    """
    for key, edit in edits.items():
        reference = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if edit.after is None:
            yield {"delete": reference}
        elif edit.before is None:
            newest_version = KINDS[key.kind].versions[0]
            yield {"create": {"apiVersion": newest_version, "kind": key.kind} | to_document(edit.after)}
        else:
            resize_flag = {"subresource": "resize"} if is_resized(edit) else {}
            recreate_flag = {} if is_valid_update(edit.before, edit.after) else {"anew": True}
            yield {
                **reference,
                "patch": list(build_json_patch(to_document(edit.before), to_document(edit.after))),
                **recreate_flag,
                **resize_flag,
            }


SET_AT_ADMISSION = ("priority", "preemptionPolicy")
"""Fields of a pod's spec that admission sets from its PriorityClass."""
BY_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""Labels by which a Job selects its pods; they and the selector are generated for each Job."""
ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the tolerations that admission adds to every pod, with tolerationSeconds."""
REPLACES_NONE = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds that do not replace a waiting pod when their template changes. For StatefulSets, see Forced rollback in
their documentation on kubernetes.io.
"""


class OwnerPatch(NamedTuple):
    """A patch of a pod's owner, as the owner's author would write it."""

    owner: Owner
    patch: JsonObject
    """The strategic merge patch."""
    anew: bool
    """True if the owner has to be deleted and created again, since it cannot be patched in place."""
    waiting: tuple[ObjectKey, ...] = ()
    """Waiting pods that keep the old template until they are deleted."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The command that patches or recreates the owner, followed by the commands that delete its waiting pods."""
        key = ObjectKey(*self.owner)
        if self.anew:
            return (
                kubectl.render_recreate_with_patch(
                    key, _add_removal_of_generated_fields(self.patch, key.kind), "strategic"
                ),
            )
        patch = kubectl.render_command(
            "patch", *kubectl.build_object_arguments(key), "--type", "strategic", "-p", self.text
        )
        return (patch, *map(kubectl.render_delete, self.waiting))

    @property
    def text(self) -> str:
        """The patch as compact JSON."""
        return kubectl.encode_compact_json(self.patch)


def _add_removal_of_generated_fields(owner_patch: JsonObject, kind: str) -> JsonObject:
    """Return the patch, extended to remove generated fields, which the API server rejects in a new object.

    For a Job, these are its selector and the matching labels of its template. For a pod, these are the fields that
    admission sets from the PriorityClass. A pod's fields are removed only if the patch changes the class or leaves the
    spec as it is.
    """
    if kind == "Job":
        template = {**object_at(owner_patch, "spec", "template"), "metadata": {"labels": dict.fromkeys(BY_UID)}}
        return {"spec": {**object_at(owner_patch, "spec"), "selector": None, "template": template}}
    spec = object_at(owner_patch, "spec")
    if not spec or "priorityClassName" in spec:
        return {**owner_patch, "spec": {**dict.fromkeys(SET_AT_ADMISSION), **spec}}
    return owner_patch


def build_owner_patch(before: Pod, after: Pod, waiting: Iterable[Pod] = ()) -> OwnerPatch:
    """Build the patch of the pod's owner that turns the pod `before` into `after`.

    `waiting` are the owner's waiting pods that should get the change. They have to be deleted if the owner's controller
    does not replace waiting pods. A Job, and a pod that cannot be updated in place, have to be recreated.
    """
    owner = find_owner(before)
    old_template, new_template = _build_written_template(before, owner), _build_written_template(after, owner)
    patch: JsonObject = wrap_in_template(owner.kind, build_strategic_patch(old_template, new_template))
    must_be_recreated = owner.kind == "Job" or (owner.kind == "Pod" and not is_valid_update(before, after))
    pods_to_delete = tuple(map(ObjectKey.of, waiting)) if owner.kind in REPLACES_NONE else ()
    return OwnerPatch(owner, patch, anew=must_be_recreated, waiting=pods_to_delete)


def _build_written_template(pod: Pod, owner: Owner) -> dict[str, Json]:
    """Reconstruct the owner's pod template as its author wrote it, as a document with the key `spec`.

    Fields that admission or controllers added to the pod are left out.
    """
    spec = to_written_spec(pod)
    if owner.kind == "DaemonSet":
        spec = remove_node_pin(spec)  # the controller adds a node affinity for one node
    if owner.kind != "Pod":
        written_tolerations = tuple(
            toleration
            for toleration in spec.tolerations
            if toleration.key not in ADDED_TOLERATIONS or toleration.toleration_seconds is None
        )
        overhead = {} if spec.runtime_class_name else spec.overhead  # admission copies it from the RuntimeClass
        spec = replace(spec, tolerations=written_tolerations, overhead=overhead)
    spec_document = to_document(spec)
    if pod.spec.priority_class_name:
        for field in SET_AT_ADMISSION:
            spec_document.pop(field, None)
    return {"spec": spec_document}
