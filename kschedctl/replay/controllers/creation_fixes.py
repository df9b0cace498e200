"""Fixes that let denied pods be created; each fix is replayed through admission and scheduling."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kschedctl.admission import resource_quota
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.objects import ResourceQuota, ResourceQuotaStatus, Struct
from kschedctl.api.ownership import Owner, find_controller
from kschedctl.api.quantity import Quantity, parse_quantity
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, SCALED_KINDS, USUAL_TEMPLATE_PATH, StatefulSet, scales_workload
from kschedctl.cluster import FIELDS, Cluster, convert_document
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.controllers.creation_fix_steps import (
    DeniedPod,
    FixObjectChange,
    FixStep,
    StepKind,
    merge_resource_steps,
    suggest_smaller_requests,
    suggest_steps,
)
from kschedctl.replay.edits import ObjectKey
from kschedctl.replay.kubectl import build_json_patch, build_strategic_patch, to_document, wrap_in_template
from kschedctl.reports.not_created import CreationFix
from kschedctl.scheduler.engine.diagnosis import build_fit_error
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import agreeing, counted

SMALL_AMOUNTS = {"cpu": "1m", "memory": "1Mi"}
"""Amounts for containers that must set some amount."""
MAX_STEPS, MAX_FIXES = 6, 4
"""The maximum number of steps in a fix, and of fixes."""
_SMALLEST_PART_OF_POD = Fraction(1, 32)
"""The part of a pod at which the search for the smallest reduction of requests ends."""
ROLLED_OUT_KINDS = frozenset({"Deployment", "DaemonSet", "StatefulSet"})
"""Kinds that replace their pods when the template changes."""
UNPATCHABLE_KINDS = frozenset({"Job", "Pod"})
"""Kinds whose template cannot be patched in place."""


class CreationAttempt(NamedTuple):
    """The API server's response to the creation of missing pods."""

    denials: Sequence[str]
    """Denial messages if some pods are denied."""
    stored: AdmissionRequest | None
    """One pod as it would be stored if there were no quotas, with the quotas that count it; None if it is denied."""


class FixState(msgspec.Struct, frozen=True):
    """A pod manifest, the cluster and its remaining quotas after some steps of a fix."""

    cluster: Cluster
    quotas: tuple[ResourceQuota, ...]
    manifest: JsonObject
    steps: tuple[FixStep, ...] = ()

    def apply_step(self, step: FixStep) -> FixState:
        """Return the state after one more step, which may edit the pod and change objects.

        Raised quotas go to ``quotas``, and the cluster's ResourceQuota objects stay unchanged.
        """
        manifest: Writable = copy.deepcopy(dict(self.manifest))
        if step.edit is not None:
            step.edit(manifest.setdefault("spec", {}))
        cluster = self.cluster
        objects = [change.after for change in step.objects if not isinstance(change.after, ResourceQuota)]
        if objects:
            cluster = cluster.with_objects({type(obj).__name__: [obj] for obj in objects})
        return FixState(cluster, raise_quotas(step, self.quotas), manifest, (*self.steps, step))

    def equals_apart_from_steps(self, other: FixState) -> bool:
        """Return whether both states have equal clusters, quotas and manifests."""
        return (self.cluster, self.quotas, self.manifest) == (other.cluster, other.quotas, other.manifest)


def raise_quotas(step: FixStep, quotas: Iterable[ResourceQuota]) -> tuple[ResourceQuota, ...]:
    """Return the quotas of a namespace with the limits that are enforced once the step has raised its quotas."""
    raised = [change.after for change in step.objects if isinstance(change.after, ResourceQuota)]
    hard_by_name = {quota.metadata.name: quota.spec.hard for quota in raised}
    return tuple(_set_enforced_limits(quota, hard_by_name.get(quota.metadata.name, {})) for quota in quotas)


def _set_enforced_limits(quota: ResourceQuota, hard: Mapping[str, Any]) -> ResourceQuota:
    """Return the quota with these amounts enforced, for resources that it limits."""
    limited = {name: amount for name, amount in hard.items() if name in quota.status.hard}
    return replace(quota, status=ResourceQuotaStatus({**quota.status.hard, **limited}, quota.status.used))


class CreationReplay(Protocol):
    """A function that replays the creation of a number of pods in a changed state."""

    def __call__(self, state: FixState, number: int) -> CreationAttempt: ...


class _TemplateEdit(NamedTuple):
    """The edit of a workload's pod template by a fix."""

    changes: tuple[dict[str, Json], ...] = ()
    """The document about the edited workload, or () if nothing is edited."""
    commands: tuple[str, ...] = ()
    """The command that patches the workload, or () if no command can do so."""
    edits: tuple[str, ...] = ()
    """The edits in words, if there is no command."""
    owner_patch: Mapping[str, Json] = {}
    """The strategic patch of the workload. It is empty if an amount is a guess."""


_NO_TEMPLATE_EDIT = _TemplateEdit()


@dataclass(frozen=True, eq=False)
class MissingPods:
    """The denied pods of a workload, for which fixes are searched."""

    cluster: Cluster
    owner: Owner
    workload: Struct | None
    count: int
    kept: int
    """The number of pods that the workload keeps."""
    admitted: int | None
    """The number of new pods of the workload that were admitted before, or None for several workloads."""
    document: JsonObject | None
    """The workload's manifest, if that is known."""
    get_scheduler: Callable[[], Scheduler]
    """Returns a scheduler of the cluster."""
    completes_rollout: Callable[[FixState, int], bool]
    """Returns whether quotas let a rollout to this number of pods end in a changed state."""

    def find_fixes(self, start: FixState, replay: CreationReplay) -> Sequence[CreationFix]:
        """Return up to MAX_FIXES fixes that let all missing pods be created.

        If the workload replaces pods by a rollout, the fixes let quotas admit old and new pods side by side as well.
        Each fix has the nodes on which the scheduler could then place a pod, or a message if there are none. If the
        pods are denied now, a fix with fewer replicas may be added beyond this limit. Fixes that the author of the
        manifest can make come first.
        """
        # The start itself is among these states if the pods are admitted now. It is no fix, as it has no steps.
        states = self._iter_fixed_states(start, replay)
        rollout_states = ((state, stored) for state, stored in states if self.completes_rollout(state, self._wanted))
        fixed_states = islice(rollout_states, MAX_FIXES)
        fixes = [
            self._build_creation_fix(state, stored)
            for state, stored in fixed_states
            if state.steps and stored is not None
        ]
        attempt = replay(start, self.count)
        if attempt.denials and attempt.stored is not None:
            fix_with_fewer_replicas = self._build_fewer_replicas_fix(attempt.stored)
            if fix_with_fewer_replicas is not None:
                fixes.append(fix_with_fewer_replicas)
        return sorted(fixes, key=lambda fix: fix.by != "author")

    @property
    def _wanted(self) -> int:
        """The number of pods that the workload wants."""
        return self.kept + (self.admitted or 0) + self.count

    def _suggest_quota_steps(self, state: FixState, stored: AdmissionRequest) -> Iterator[FixStep]:
        """Yield the step that sets the missing resources that a quota requires.

        If none is missing, yield the step that raises quotas so that the missing pods are admitted, also next to the
        old pods of a rollout.
        """
        unset_resources = resource_quota.find_unset_resources(stored)
        if unset_resources:
            summary = f"set {'; '.join(unset_resources)}"
            yield FixStep(StepKind.SET_RESOURCES, summary, partial(_set_missing_resources, unset_resources))
            return

        # Raise the quotas for the missing pods and, until the rollout completes, for more and more old pods beside them
        extra = 0  # the number of pods for which there is room besides the missing ones
        while extra <= self._wanted:
            for step in suggest_quota_raise(stored, self.count + extra):
                if self.completes_rollout(state.apply_step(step), self._wanted):
                    # Without extra pods, the step is as small as the missing pods allow
                    yield shrink_quota_raise(step, partial(self._does_step_complete_rollout, state)) if extra else step
                    return
            extra = max(2 * extra, 1)

    def _does_step_complete_rollout(self, state: FixState, step: FixStep) -> bool:
        """Return whether the rollout of all wanted pods completes after the step."""
        return self.completes_rollout(state.apply_step(step), self._wanted)

    def _build_fewer_replicas_fix(self, stored: AdmissionRequest) -> CreationFix | None:
        """Build the fix that reduces the replicas to the number that quotas allow.

        ``stored`` is one of the pods as it would be stored. Return None if quotas allow no replica, if a
        HorizontalPodAutoscaler sets the replicas, or if the workload has no replicas or is unknown.
        """
        owner = self._editable_owner
        allowed = self.kept + (self.admitted or 0)
        before = self.document or self._stored_manifest
        if not allowed or before is None or owner.kind not in SCALED_KINDS or self._is_autoscaled:
            return None

        after: Any = copy.deepcopy(dict(before))
        after.setdefault("spec", {})["replicas"] = allowed
        commands: tuple[str, ...] = ()
        if self._is_live_workload_to_be_changed:
            commands = (kubectl.render_patch(ObjectKey(*owner), {"spec": {"replicas": allowed}}),)
        change = self._build_workload_change(before, after)
        scheduled = _try_to_schedule_pod(self._scheduler_with_claims, stored)
        return CreationFix(
            what=f"set replicas to {allowed:,} instead of {allowed + self.count:,}",
            commands=commands,
            by="author",
            kinds=(StepKind.FEWER_REPLICAS,),
            weakens=f"{counted(self.count, 'pod')} fewer {agreeing(self.count, 'runs', 'run')}",
            then=scheduled.message,
            opens=scheduled.feasible_nodes,
            changes=(change,),
            edits=() if commands else tuple(kubectl.describe_patch_operations(change["patch"])),
        )

    @property
    def _is_autoscaled(self) -> bool:
        """True if a HorizontalPodAutoscaler sets the workload's replicas."""
        owner = self._editable_owner
        autoscalers = self.cluster.list_in_namespace("horizontal_pod_autoscalers", owner.namespace)
        return any(scales_workload(autoscaler, owner) for autoscaler in autoscalers)

    def _find_state_with_smaller_requests(
        self, state: FixState, stored: AdmissionRequest, replay: CreationReplay
    ) -> tuple[FixState, AdmissionRequest | None] | None:
        """Return a state in which a new workload fits the quotas with smaller requests, and a pod's admission request.

        All pods of the workload, including admitted ones, are created from the changed template in that state. If a
        rollout replaces pods, the requests are small enough for the old and new pods that it has side by side. Return
        None if the workload keeps older pods, if an earlier step of the state edits objects, or if no requests are
        small enough.
        """
        if self.admitted is None or self.kept or any(step.objects for step in state.steps):
            return None
        # The admitted pods are created again from the changed template, so the quotas do not count them any more.
        total = self.admitted + self.count
        released = resource_quota.charge_quotas(dataclasses.replace(stored, quotas=state.quotas), -self.admitted)

        def lower_requests(extra: Fraction) -> tuple[FixState, AdmissionRequest | None] | None:
            """Return the state with room for ``extra`` pods besides those of the workload, or None if there is none."""
            step = suggest_smaller_requests(dataclasses.replace(stored, quotas=released), total, extra)
            if step is None:
                return None
            smaller = replace(state, quotas=tuple(released)).apply_step(step)
            attempt = replay(smaller, total)
            return None if attempt.denials else (smaller, attempt.stored)

        sufficient = Fraction(0)
        lowered = lower_requests(sufficient)
        while lowered is not None and not self.completes_rollout(lowered[0], total):
            sufficient += 1
            lowered = lower_requests(sufficient)
        if lowered is None:
            return None

        # A part of the last extra pod may suffice, and then the requests are reduced less
        insufficient = max(sufficient - 1, Fraction(0))
        while sufficient - insufficient > _SMALLEST_PART_OF_POD:
            middle = (insufficient + sufficient) / 2
            candidate = lower_requests(middle)
            if candidate is not None and self.completes_rollout(candidate[0], total):
                sufficient, lowered = middle, candidate
            else:
                insufficient = middle
        smaller, created = lowered
        return _merge_last_resource_steps(smaller), created

    def _iter_fixed_states(
        self, state: FixState, replay: CreationReplay
    ) -> Iterator[tuple[FixState, AdmissionRequest | None]]:
        """Yield each state in which all missing pods are created, with the admission request of a pod.

        The search applies at most MAX_STEPS steps and is depth-first. Against each denial, it tries one by one the
        steps that may help. Steps without an effect are skipped.
        """
        attempt = replay(state, self.count)
        if not attempt.denials:
            yield state, attempt.stored
            return
        if len(state.steps) >= MAX_STEPS:
            return
        if attempt.stored is None:
            denied_pod = DeniedPod(state.cluster, self.owner.namespace, state.manifest, attempt.denials[0])
            steps = suggest_steps(denied_pod)
        else:  # only quotas deny the pods
            sets_all_resources = not resource_quota.find_unset_resources(attempt.stored)
            if sets_all_resources:
                smaller_state = self._find_state_with_smaller_requests(state, attempt.stored, replay)
                if smaller_state:
                    yield smaller_state
            steps = self._suggest_quota_steps(state, attempt.stored)
        for step in steps:
            next_state = state.apply_step(step)
            if not next_state.equals_apart_from_steps(state):
                yield from self._iter_fixed_states(next_state, replay)

    @cached_property
    def _editable_owner(self) -> Owner:
        """The workload whose template users edit. For a ReplicaSet, it is the object that controls the ReplicaSet."""
        owner = self.owner
        if owner.kind != "ReplicaSet":
            return owner
        for replica_set in self.cluster.list_in_namespace("replica_sets", owner.namespace):
            if replica_set.metadata.name == owner.name:
                controller = find_controller(replica_set.metadata)
                return owner if controller is None else Owner(controller.kind, owner.namespace, controller.name)
        return owner

    @cached_property
    def _stored_manifest(self) -> JsonObject | None:
        """The workload as it was read, or None if it was not read or does not exist.

        A workload in the files may also be among the cluster's objects. If it has neither a UID nor pods, it does not
        exist yet.
        """
        owner = self._editable_owner
        candidates = self.cluster.list_in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
        workload: Struct | None = next((obj for obj in candidates if obj.metadata.name == owner.name), None)
        if workload is None:
            return None
        is_only_manifest = self.document is not None and not workload.metadata.uid and not self.kept  # type: ignore[attr-defined]
        return None if is_only_manifest else {"kind": owner.kind, **to_document(workload)}

    @cached_property
    def _is_live_workload_to_be_changed(self) -> bool:
        """True if a command can make a fix: the workload is in the cluster, and no manifest of it is yet to be applied.

        A patch of the live workload is of no use for such a manifest, since applying the manifest undoes the patch.
        """
        if self._stored_manifest is None:
            return False
        if self.document is None:
            return True
        metadata = object_at(self.document, "metadata")
        return bool(metadata.get("uid") or metadata.get("creationTimestamp"))

    @cached_property
    def _scheduler_with_claims(self) -> Scheduler:
        """A scheduler whose cluster also has the claims that are created for a StatefulSet's pods.

        For workloads without claim templates, this is the plain scheduler.
        """
        workload = self.workload
        if isinstance(workload, StatefulSet) and workload.spec.volume_claim_templates:
            return Scheduler(
                create_workload_objects(self.cluster, [workload], include_denied=True).apply_to(self.cluster)
            )
        return self.get_scheduler()

    def _build_creation_fix(self, state: FixState, stored: AdmissionRequest) -> CreationFix:
        """Build the report on a fix, with commands, changes and the nodes that are then feasible.

        `stored` is one of the pods as it would be stored after the fix. The workload gets a patch command only if the
        command is possible and no amount is a guess, because the user has to choose such amounts. Otherwise, the edits
        are described in words.
        """
        owner = self._editable_owner
        object_changes = [change for step in state.steps for change in step.objects]
        template_edit = self._build_template_edit(state.steps) or _NO_TEMPLATE_EDIT
        rolls_out_new_template = bool(template_edit.changes) and owner.kind in ROLLED_OUT_KINDS
        scheduled = _try_to_schedule_pod(self._scheduler_with_claims, stored)
        return CreationFix(
            what=", and ".join(step.summary for step in state.steps),
            commands=(*map(_render_change_command, object_changes), *template_edit.commands),
            by="operator" if any(step.by == "operator" for step in state.steps) else "author",
            kinds=tuple(step.kind for step in state.steps),
            weakens="; ".join(step.weakens for step in state.steps if step.weakens),
            then=scheduled.message,
            opens=scheduled.feasible_nodes,
            changes=(*map(_build_object_change, object_changes), *template_edit.changes),
            edits=template_edit.edits,
            owner=str(owner) if template_edit.owner_patch else "",
            owner_patch=dict(template_edit.owner_patch),
            restarts=self.kept if rolls_out_new_template else 0,
        )

    def _build_template_edit(self, steps: Sequence[FixStep]) -> _TemplateEdit | None:
        """Edit the workload's pod template as the steps say.

        Return None if the workload is known only by its pods, or if the steps leave its template unchanged.
        """
        kind = self._editable_owner.kind
        before = self.document or self._stored_manifest
        if not before:
            return None
        author_steps = [step for step in steps if step.edit is not None]
        after = _edit_pod_spec(kind, before, author_steps)
        patch = build_strategic_patch(_extract_pod_spec(kind, before), _extract_pod_spec(kind, after))
        if not patch:
            return None

        has_guessed_amounts = any(map(_has_guessed_amounts, author_steps))
        owner_patch = {} if has_guessed_amounts else wrap_in_template(kind, patch)
        commands = self._build_patch_commands(owner_patch)
        change = self._build_workload_change(before, after)
        edits = () if commands else tuple(kubectl.describe_patch_operations(change["patch"]))
        return _TemplateEdit((change,), commands, edits, owner_patch)

    def _build_patch_commands(self, patch: JsonObject) -> tuple[str, ...]:
        """Return the command that patches the workload, as a tuple.

        The tuple is empty if the patch is empty, if the workload's manifest has to be changed instead of the live
        workload, or if the workload's kind cannot be patched.
        """
        if not patch or not self._is_live_workload_to_be_changed or self._editable_owner.kind in UNPATCHABLE_KINDS:
            return ()

        object_arguments = kubectl.build_object_arguments(ObjectKey(*self._editable_owner))
        patch_json = kubectl.encode_compact_json(patch)
        return (kubectl.render_command("patch", *object_arguments, "--type", "strategic", "-p", patch_json),)

    def _build_workload_change(self, before: JsonObject, after: JsonObject) -> dict[str, Json]:
        """Build the document about the patched workload, in the form that ``Remedy.changes`` has."""
        kind, namespace, name = self._editable_owner
        operations = list(build_json_patch(dict(before), dict(after)))
        return {"kind": kind, "namespace": namespace, "name": name, "patch": operations}


def _extract_pod_spec(kind: str, document: JsonObject) -> JsonObject:
    """Return the pod spec in a workload's manifest, as a document with the field ``spec``."""
    return {"spec": object_at(document, *POD_TEMPLATE_PATHS.get(kind, USUAL_TEMPLATE_PATH), "spec")}


def _edit_pod_spec(kind: str, document: JsonObject, steps: Sequence[FixStep]) -> JsonObject:
    """Return the manifest of a workload of this kind after the steps have edited its pod spec."""
    edited: Any = copy.deepcopy(dict(document))
    spec: Any = edited
    for part in (*POD_TEMPLATE_PATHS.get(kind, USUAL_TEMPLATE_PATH), "spec"):
        spec = spec.setdefault(part, {})
    for step in steps:
        assert step.edit is not None
        step.edit(spec)
    result: JsonObject = edited
    return result


def _render_change_command(change: FixObjectChange) -> str:
    """Return the kubectl command that creates or patches the object."""
    key = ObjectKey.of(change.after)  # type: ignore[arg-type]
    if change.before is None:
        return kubectl.render_apply({**kubectl.build_manifest(key, change.after), **change.extra_fields})
    return kubectl.render_patch(key, kubectl.build_merge_patch(change.before, change.after))


def build_object_change_fix(step: FixStep) -> CreationFix:
    """Build the fix for a step that changes objects but no pod spec."""
    return CreationFix(
        what=step.summary,
        commands=tuple(map(_render_change_command, step.objects)),
        by=step.by,
        kinds=(step.kind,),
        weakens=step.weakens,
        changes=tuple(map(_build_object_change, step.objects)),
    )


def _build_object_change(change: FixObjectChange) -> dict[str, Json]:
    """Build the document about a changed or created object, in the form of ``Remedy.changes``."""
    key = ObjectKey.of(change.after)  # type: ignore[arg-type]
    if change.before is None:
        return {"create": {**kubectl.build_manifest(key, change.after), **change.extra_fields}}
    identity = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
    return {**identity, "patch": list(build_json_patch(to_document(change.before), to_document(change.after)))}


# -- quotas ----------------------------------------------------------------------------------------------------------


def suggest_quota_raise(stored: AdmissionRequest, count: int) -> Iterator[FixStep]:
    """Yield the step that raises quotas for ``count`` more pods, unless the quotas suffice."""
    raised = resource_quota.find_needed_quota_limits(stored, count)
    if raised:
        yield _build_quota_raise(stored, raised)


def build_quota_raise_for_claims(claims: Sequence[AdmissionRequest], counts: Sequence[int]) -> FixStep | None:
    """Build the step that raises quotas so that all claims are admitted, or return None if the quotas suffice.

    ``counts`` has the number of claims for each request in ``claims``. All claims are charged to the same quotas, one
    request after the other.
    """
    hard_by_quota: dict[str, dict[str, str]] = {}
    quotas = claims[0].quotas if claims else ()
    for claim, count in zip(claims, counts, strict=True):
        raised = resource_quota.find_needed_quota_limits(dataclasses.replace(claim, quotas=quotas), count)
        for name, amounts in raised.items():
            hard_by_quota.setdefault(name, {}).update(amounts)
        raised_quotas = [_set_enforced_limits(quota, raised.get(quota.metadata.name, {})) for quota in quotas]
        quotas = resource_quota.charge_quotas(dataclasses.replace(claim, quotas=raised_quotas), count)
    return _build_quota_raise(claims[0], hard_by_quota) if hard_by_quota else None


def _build_quota_raise(request: AdmissionRequest, raised: Mapping[str, dict[str, str]]) -> FixStep:
    """Build the step that raises quotas. ``raised`` maps the name of each quota to its new hard amounts."""
    stored_quotas = request.cluster.list_in_namespace("resource_quotas", request.namespace)
    quotas = {quota.metadata.name: quota for quota in stored_quotas}
    return _build_quota_step([(quotas[name], hard) for name, hard in raised.items()])


def _build_quota_step(raised: Sequence[tuple[ResourceQuota, dict[str, str]]]) -> FixStep:
    """Build the step that raises each quota to the hard amounts that come with it."""
    changes = tuple(FixObjectChange(quota, _set_hard_limits(quota, hard)) for quota, hard in raised)
    listed = (f"ResourceQuota {quota.metadata.name} to {_format_amounts(hard)}" for quota, hard in raised)
    return FixStep(StepKind.RAISE_RESOURCE_QUOTA, f"raise {' and '.join(listed)}", objects=changes)


_UNITS_BY_RESOURCE = {"cpu": "100m", "memory": "64Mi", "storage": "1Gi", "ephemeral-storage": "64Mi"}
"""Resource -> the difference of amounts at which the search for the smallest sufficient quota ends; others have 1."""


def shrink_quota_raise(step: FixStep, suffices: Callable[[FixStep], bool]) -> FixStep:
    """Return the step with the smallest raised amounts that suffice, to the unit of each resource.

    The step itself must suffice. Each amount is reduced by bisection, the others staying as they are.
    """
    raised: list[tuple[ResourceQuota, dict[str, str]]] = []
    for change in step.objects:
        before, after = change.before, change.after
        assert isinstance(before, ResourceQuota)
        assert isinstance(after, ResourceQuota)
        hard_before = before.spec.hard
        raised.append(
            (before, {name: str(hard) for name, hard in after.spec.hard.items() if hard_before.get(name) != hard})
        )

    for quota, hard in raised:
        for name, amount_text in tuple(hard.items()):
            unit = parse_quantity(_UNITS_BY_RESOURCE.get(name.rpartition(".")[2], "1"))
            amount, amount_before = parse_quantity(amount_text), parse_quantity(quota.spec.hard.get(name, "0"))
            sufficient_reduction = 0
            excessive_reduction = amount.sub(amount_before).milli_value() // unit.milli_value() + 1
            while excessive_reduction - sufficient_reduction > 1:
                reduction = (sufficient_reduction + excessive_reduction) // 2
                hard[name] = str(amount.sub(Quantity(unit.mantissa * reduction, unit.scale, unit.format)))
                if suffices(_build_quota_step(raised)):
                    sufficient_reduction = reduction
                else:
                    excessive_reduction = reduction
            hard[name] = str(amount.sub(Quantity(unit.mantissa * sufficient_reduction, unit.scale, unit.format)))
    return _build_quota_step(raised)


def _set_hard_limits(quota: ResourceQuota, hard: dict[str, str]) -> ResourceQuota:
    """Return the quota with these amounts in its spec."""
    return replace(quota, spec=replace(quota.spec, hard={**quota.spec.hard, **dict(sorted(hard.items()))}))


def _format_amounts(hard: dict[str, str]) -> str:
    """Format amounts as ``cpu=1, memory=2Gi``."""
    return ", ".join(f"{name}={amount}" for name, amount in sorted(hard.items()))


def _set_missing_resources(unset_resources: Sequence[str], spec: Writable) -> None:
    """Set the resources required by a quota in each container of `spec` that does not set them.

    A missing request gets the amount of the limit, and a missing limit that of the request. Without either, the amount
    is a small guess.
    """
    for text in unset_resources:  # such as "limits.cpu for: web,log", or "cpu for: web" for a request
        name, _, _ = text.partition(" ")
        part, _, resource = name.rpartition(".")
        part = part or "requests"
        opposite = "requests" if part == "limits" else "limits"
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container.setdefault("resources", {})
            amount = (resources.get(opposite) or {}).get(resource, SMALL_AMOUNTS[resource])
            resources.setdefault(part, {}).setdefault(resource, amount)


def _has_guessed_amounts(step: FixStep) -> bool:
    """Return whether the step sets amounts that are only placeholders for what somebody has to choose."""
    return isinstance(step.edit, partial) and step.edit.func is _set_missing_resources


def _merge_last_resource_steps(state: FixState) -> FixState:
    """Show the last two steps as one if both set resources. Return the state unchanged otherwise."""
    if len(state.steps) < 2:
        return state
    merged = merge_resource_steps(*state.steps[-2:])
    return state if merged is None else replace(state, steps=(*state.steps[:-2], merged))


# -- scheduling ------------------------------------------------------------------------------------------------------


class _SchedulingAttempt(NamedTuple):
    """The answer of scheduling for a created pod."""

    feasible_nodes: tuple[str, ...] = ()
    message: str = ""
    """kube-scheduler's message if no node is feasible; empty without nodes."""


def _try_to_schedule_pod(scheduler: Scheduler, stored: AdmissionRequest) -> _SchedulingAttempt:
    """Run a scheduling cycle for a created pod, without extenders, and return the feasible nodes or the error message.

    The result is empty if the cluster has no nodes. The message says so if no profile serves the pod's scheduler name.
    """
    view = scheduler.view
    if not len(view.nodes):
        return _SchedulingAttempt()
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": stored.obj["metadata"], "spec": stored.spec}
    pod: Any = convert_document(document)
    pod = view.merge_label_keys(view.build_stored_pod(pod))
    framework = scheduler.find_framework(pod.spec.scheduler_name)
    if framework is None:
        return _SchedulingAttempt(message=f'no scheduler profile is named "{pod.spec.scheduler_name}"')
    cycle = scheduler.run_cycle(framework.without_extenders(), pod)
    if cycle.schedulable:
        return _SchedulingAttempt(tuple(cycle.passed.names))
    return _SchedulingAttempt(message=cycle.error or build_fit_error(cycle))
