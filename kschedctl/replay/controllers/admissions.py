"""The replay of API admission for pods, claims and workloads, one after the other as controllers create them.

A quota's status counts, as for the API server. If several LimitRanges or quotas reject a pod, chance decides which
message is given, so all possible messages are kept.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from kschedctl.admission import resource_quota
from kschedctl.admission.admit import POD_SECURITY, VALIDATION, check_namespace, iter_admission_outcomes, list_rotations
from kschedctl.admission.not_replayed import (
    NAMESPACE_LIFECYCLE,
    SERVICE_ACCOUNT_PLUGIN,
    is_missing_namespace,
    iter_undecidable_plugins,
    iter_undecidable_plugins_for_pod,
)
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import PersistentVolumeClaim, Pod, PodGroup, ResourceClaim, ResourceQuota, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import Deployment, StatefulSet, get_identity
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.creation_failures import build_denied_pods_report, build_report_from_messages_by_pod
from kschedctl.replay.controllers.creation_fix_steps import DeniedPod, FixStep, suggest_pod_security_steps_from_message
from kschedctl.replay.controllers.creation_fixes import (
    CreationAttempt,
    FixState,
    MissingPods,
    build_quota_raise_for_claims,
    raise_quotas,
    suggest_quota_raise,
)
from kschedctl.replay.controllers.pod_defaults import WorkloadNote
from kschedctl.replay.controllers.remaining_quotas import RemainingQuotas
from kschedctl.replay.controllers.workload_change import Pace, WorkloadChange, set_rollout_limits
from kschedctl.reports.not_created import Admission, CreationFix, NotCreated
from kschedctl.scheduler.scheduler import Scheduler

MAX_WORKLOADS_WITH_FIXES = 25
"""Fixes are searched for at most this many workloads."""
CRON_JOB_VERSION = "batch/v1"
"""The API version of CronJobs, which create pods and are not read."""


class Admitted(NamedTuple):
    """The number of admitted pods, and the denial messages of the others."""

    number: int
    denials: Sequence[str]
    """Messages for the pods that were not admitted; empty if all were."""
    defaults: tuple[str, ...] = ()
    """The requests and limits that LimitRanges set in the pods that were not admitted."""


class Admissions:
    """The replay of admission for objects that are created one after the other, and of their use of quotas.

    ``manifests`` holds the manifests of workloads. Of other workloads, only the fields that scheduling reads are known,
    so plugins that read other fields are skipped.
    """

    def __init__(self, cluster: Cluster, manifests: Mapping[Owner, JsonObject]) -> None:
        self._cluster = cluster
        self._manifests = manifests
        self._quotas = RemainingQuotas(cluster)
        self._replacement_denials: dict[tuple[str, int, int], tuple[Sequence[str], object]] = {}
        """Namespace and ids of containers and quotas -> denial messages, and the objects, to keep ids valid."""
        self.notes: list[WorkloadNote] = []
        self._denied: dict[str, list[tuple[AdmissionRequest, int]]] = {}
        """Namespace -> denied pods, each with the number of its kind."""
        self._created_claims: dict[Owner, int] = {}
        """StatefulSet -> how many claims were created for the first pod of which a claim is denied."""
        self._quotas_before_change: dict[Owner, RemainingQuotas] = {}
        """Deployment that replaces pods -> the quotas before its old pods were released."""
        self._workloads_with_fixes = 0

    def admit_pods_of_workloads(
        self, workloads: Sequence[Struct], changes: Sequence[WorkloadChange]
    ) -> list[NotCreated]:
        """Admit the new pods of several workloads in order. Return a report on each workload whose pods were denied.

        ``changes`` has one change for each workload. The pods that it removes are released from quotas first, and
        denied pods are dropped from it. The reports have fixes, which are shared by bare pods that differ only in name.
        """
        groups = group_bare_pods(workloads, changes, self._manifests)
        has_equal_bare_pods = len(groups) < len(workloads)

        # Fast path: usually nothing is denied, and equal bare pods can be admitted at once
        if has_equal_bare_pods and self._try_to_admit_all_groups(groups.values(), workloads, changes):
            return []

        # Admit one workload after the other. Denied pods are dropped, so remember an example of each.
        first_pods = [next(iter(change.new), None) for change in changes]
        denied: dict[int, NotCreated] = {}
        for index, (workload, change) in enumerate(zip(workloads, changes, strict=True)):
            report = self._admit_change(get_identity(workload), workload, change)
            if report is not None:
                denied[index] = report

        # Search fixes for each group of denied workloads
        for indexes in groups.values():
            denied_indexes = [index for index in indexes if index in denied]
            example = first_pods[denied_indexes[0]] if denied_indexes else None
            if example is None:  # nothing is denied, or a workload itself, which has no pod to try fixes with
                continue
            workload = workloads[denied_indexes[0]]
            denied_changes = [changes[index] for index in denied_indexes]
            fixes = self._find_creation_fixes(get_identity(workload), workload, denied_changes, example)
            for index in denied_indexes:
                denied[index] = msgspec.structs.replace(denied[index], fixes=fixes)
        return list(denied.values())

    def _try_to_admit_all_groups(
        self,
        groups: Iterable[Sequence[int]],
        workloads: Sequence[Struct],
        changes: Sequence[WorkloadChange],
    ) -> bool:
        """Admit each group of equal bare pods at once, and return whether all pods are admitted.

        If a pod is denied, the state from before the call is restored. ``groups`` holds indexes into ``workloads`` and
        ``changes``.
        """
        quotas_before = self._quotas.copy()
        note_count = len(self.notes)
        for indexes in groups:
            first, *_ = indexes
            if not self._admit_group(workloads[first], changes[first], len(indexes)):
                self._quotas = quotas_before
                del self.notes[note_count:]
                return False
        return True

    def _admit_group(self, workload: Struct, change: WorkloadChange, count: int) -> bool:
        """Admit a workload and all its new pods, and return whether nothing is denied.

        A new bare pod stands for ``count`` equal pods. The pods that the change removes are first released from quotas.
        """
        self.release(change.removed)
        workload_denials = self.admit_workload(get_identity(workload), change)
        if workload_denials:
            return False
        if not change.new:
            return True
        # A change of a bare pod has one new pod, which stands for the `count` pods of its group
        pod_count = max(count, len(change.new))
        return not self.admit_up_to(workload, change.new, pod_count).denials

    def admit(self, workload: Struct, change: WorkloadChange) -> NotCreated | None:
        """Admit the new pods of a workload, and drop denied pods from ``change``.

        Return a report if some pods are denied, otherwise None.
        """
        return next(iter(self.admit_pods_of_workloads([workload], [change])), None)

    def admit_more_pods(self, owner: Owner, change: WorkloadChange) -> NotCreated | None:
        """Admit more pods of a workload that is known only by its pods, and drop denied pods from ``change``.

        Return a report on the denied pods with fixes, or None if all pods are admitted.
        """
        example = next(iter(change.new), None)
        denied = self._admit_change(owner, workload=None, change=change)
        if denied is None or example is None:
            return denied
        return msgspec.structs.replace(
            denied, fixes=self._find_creation_fixes(owner, workload=None, changes=[change], example=example)
        )

    def _admit_change(self, owner: Owner, workload: Struct | None, change: WorkloadChange) -> NotCreated | None:
        """Admit a workload and the new pods of its change, and report denied pods. Return None if all are admitted.

        The pods that the change removes are first released from quotas. Denied pods are removed from `change.new` and
        counted in `change.denied`. If the workload itself is denied, so are all its new pods. The report has no fixes
        yet.
        """
        if isinstance(workload, Deployment) and change.removed:
            self._quotas_before_change[owner] = self._quotas.copy()
        self.release(change.removed)
        desired_count = change.desired  # before denied pods are dropped from the change
        admitted = 0
        messages = self.admit_workload(owner, change)
        defaults: tuple[str, ...] = ()
        if change.new and not messages:
            admitted, messages, defaults = self.admit_pods_of(owner, workload, change.new, len(change.new))
        if not messages:
            return None
        change.denied = len(change.new) - admitted
        del change.new[admitted:]
        return build_denied_pods_report(
            owner, messages, desired_count, change.denied, creatable=admitted, defaults=defaults
        )

    def find_fixes_by_message(
        self, owner: Owner, workload: Struct, change: WorkloadChange, message: str
    ) -> tuple[CreationFix, ...]:
        """Return fixes for pods that were denied with ``message``.

        Return () unless the message lists everything that the pods have to set.
        """
        example = change.new[0]
        denied_pod = DeniedPod(
            self._cluster, owner.namespace, self._build_pod_create_request(owner, example).manifest, message
        )
        fixes_by_step = (
            self._find_creation_fixes(owner, workload, [change], example, step)
            for step in suggest_pod_security_steps_from_message(denied_pod)
        )
        return tuple(chain.from_iterable(fixes_by_step))

    def _find_creation_fixes(
        self,
        owner: Owner,
        workload: Struct | None,
        changes: Sequence[WorkloadChange],
        example: Pod,
        first_step: FixStep | None = None,
    ) -> tuple[CreationFix, ...]:
        """Return the fixes after which the missing pods can be created. ``example`` is one of these pods.

        The pods of other workloads that were denied before count as created. Each fix starts with ``first_step``, if it
        is given. After MAX_WORKLOADS_WITH_FIXES workloads, () is returned.
        """
        self._workloads_with_fixes += 1
        if self._workloads_with_fixes > MAX_WORKLOADS_WITH_FIXES:
            return ()
        request = self._build_pod_create_request(owner, example)
        count = sum(change.denied for change in changes)

        def replay(state: FixState, number: int) -> CreationAttempt:
            """Replay the creation of a number of pods in a changed state."""
            trial = Admissions(state.cluster, self._manifests)
            trial._quotas = RemainingQuotas(state.cluster, {**self._quotas.charged, request.namespace: state.quotas})
            return trial._replay_creation(request._replace(manifest=state.manifest), number)

        def completes_rollout(state: FixState, desired: int) -> bool:
            """Return whether quotas let the workload's rollout end in a changed state."""
            changed_request = request._replace(manifest=state.manifest)
            return self._completes_rollout(workload, changes[0], changed_request, state, desired)

        missing = MissingPods(
            self._cluster,
            owner,
            workload,
            count=count,
            kept=len(changes[0].kept),
            admitted=len(changes[0].new) if len(changes) == 1 else None,
            document=self._manifests.get(owner),
            get_scheduler=lambda: self._scheduler,
            completes_rollout=completes_rollout,
        )
        start = FixState(self._cluster, self._list_quotas_charged_with_denied_pods(request.namespace), request.manifest)

        # Raise quotas for the claims of a StatefulSet's pods. The first pod may have some of its claims already.
        claims = list(self._iter_claim_requests(workload, request.namespace))
        created_claims = self._created_claims.get(owner, 0)
        missing_claims = [count - 1 if index < created_claims else count for index in range(len(claims))]
        step = build_quota_raise_for_claims(claims, missing_claims)
        if step is not None:
            start = start.apply_step(step)
        if first_step is not None:
            start = start.apply_step(first_step)

        fixes = tuple(missing.find_fixes(start, replay))

        # Remember these pods, so that the fixes of later workloads leave room for them
        stored = replay(start, count).stored
        if stored is not None:
            self._denied.setdefault(request.namespace, []).append((stored, count))
        return fixes

    def _completes_rollout(
        self, workload: Struct | None, change: WorkloadChange, request: CreateRequest, state: FixState, desired: int
    ) -> bool:
        """Return whether quotas let a Deployment's rolling update end once the steps of a fix are taken.

        The rollout creates `desired` pods of `request`. Each pod that is created counts as available. Other workloads,
        and Deployments that replace no pods, have no rollout that quotas could stop, so the result is True.
        """
        quotas_before = self._quotas_before_change.get(request.owner)
        if quotas_before is None or not isinstance(workload, Deployment):
            return True
        planned = dataclasses.replace(change, new=[], denied=desired - len(change.kept))
        set_rollout_limits(planned, workload)
        if planned.pace is not Pace.ROLLING:
            return True
        quotas = quotas_before.get_quotas(request.namespace)
        for step in state.steps:
            quotas = raise_quotas(step, quotas)
        trial = Admissions(state.cluster, self._manifests)
        trial._quotas = RemainingQuotas(state.cluster, {**quotas_before.charged, request.namespace: quotas})

        # Create new pods up to maxSurge. Whenever quotas allow none, delete the old pods that maxUnavailable lets go.
        present, old, missing = len(change.kept), list(change.removed), planned.denied
        while old or missing:
            surge_room = desired + planned.surge - present - len(old)
            count = min(surge_room, missing)
            created = trial._admit_identical_pods(request, count).number if count > 0 else 0
            present += created
            missing -= created
            if created:
                continue
            removable = present + len(old) - (desired - planned.unavailable)
            if not old or removable <= 0:
                return False
            trial.release(old[:removable])
            del old[:removable]
        return True

    def _list_quotas_charged_with_denied_pods(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """Return the quotas of a namespace as if all pods that were denied so far had been created."""
        quotas = self._quotas.get_quotas(namespace)
        for request, count in self._denied.get(namespace, ()):
            # Like upstream, a quota is enforced only once its status has hard limits
            enforced = [quota for quota in quotas if quota.status.hard]
            charged = resource_quota.charge_quotas(dataclasses.replace(request, quotas=enforced), count)
            charged_by_name = {quota.metadata.name: quota for quota in charged}
            quotas = tuple(charged_by_name.get(quota.metadata.name, quota) for quota in quotas)
        return quotas

    @cached_property
    def _scheduler(self) -> Scheduler:
        """A scheduler of the cluster, built on first use."""
        return Scheduler(self._cluster)

    def _replay_creation(self, create_request: CreateRequest, count: int) -> CreationAttempt:
        """Replay the creation of ``count`` pods, and charge the admitted pods to their quotas.

        Return the denials, and the request of one pod as it would be stored. If the pod would be denied even without
        quotas, the request is None and nothing is charged.
        """
        without_quotas = self._find_admission_outcomes(create_request, quotas=())
        stored = next((admission.object for admission in without_quotas if admission.object is not None), None)
        if stored is None:
            return CreationAttempt(_collect_denial_messages(without_quotas), stored=None)
        request = dataclasses.replace(
            self._quotas.build_request("Pod", stored, create_request.namespace),
            quotas=self._list_replayable_quotas(create_request),
        )
        return CreationAttempt(self._admit_identical_pods(create_request, count).denials, request)

    def _list_replayable_quotas(self, create_request: CreateRequest) -> list[ResourceQuota]:
        """Return the quotas of the request's namespace that can be replayed.

        If the request has only the fields that scheduling reads, quotas that depend on other fields are left out.
        """
        return [
            quota
            for quota in self._quotas.get_quotas(create_request.namespace)
            if resource_quota.is_replayable(quota, in_full=create_request.in_full)
        ]

    def admit_up_to(self, workload: Struct, pods: Sequence[Pod], max_count: int) -> Admitted:
        """Admit up to ``max_count`` more pods of a workload, and return their number and why no more are admitted.

        For a StatefulSet with claim templates, ``pods`` must be all its pods.
        """
        return self.admit_pods_of(get_identity(workload), workload, pods, max_count)

    def admit_pods_of(self, owner: Owner, workload: Struct | None, pods: Sequence[Pod], max_count: int) -> Admitted:
        """Admit up to ``max_count`` more pods of an owner, and return their number and why no more are admitted.

        ``workload`` is None if the owner is known only by its pods.
        """
        return self._admit_claims(
            workload, pods, self._admit_identical_pods(self._build_pod_create_request(owner, pods[0]), max_count)
        )

    def copy(self) -> Admissions:
        """Return a copy with the current quotas, for another run."""
        copy = Admissions(self._cluster, self._manifests)
        copy._quotas = self._quotas.copy()
        return copy

    def with_raised_quotas(self, step: FixStep) -> Admissions:
        """Return a copy in which the quotas in ``step`` have their raised amounts."""
        copy = self.copy()
        for namespace in {change.after.metadata.namespace for change in step.objects}:  # type: ignore[attr-defined]
            copy._quotas.charged[namespace] = raise_quotas(step, self._quotas.get_quotas(namespace))
        return copy

    def find_quota_raise(self, owner: Owner, pod: Pod, count: int) -> FixStep | None:
        """Return the step that raises quotas for ``count`` more pods, or None if quotas do not deny them."""
        stored = self.copy()._replay_creation(self._build_pod_create_request(owner, pod), count).stored
        return next(suggest_quota_raise(stored, count), None) if stored is not None else None

    def replay_replacements(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Sequence[str]]]:
        """Replay the replacement of each pod in turn, and yield the pods that are not replaced, with the denials.

        Each replacement is created after its pod is gone. An admitted replacement takes over the quota of its pod. If
        the replacement is denied, the pod's quota is released.
        """
        for pod in pods:
            denials = self._find_replacement_denials(pod)
            if denials:
                yield pod, denials
                self.release([pod])  # the old pod is gone anyway

    def _find_replacement_denials(self, pod: Pod) -> Sequence[str]:
        """Return the messages with which the pod's replacement would be denied, or () if it would be admitted.

        The quotas are left unchanged. Results are cached for pods with the same containers while the quotas of their
        namespace stay the same.
        """
        cache = self._replacement_denials
        namespace = pod.metadata.namespace
        quotas_before = self._quotas.get_quotas(namespace)
        key = namespace, id(pod.spec.containers), id(quotas_before)
        if key not in cache:
            with self._quotas.release_temporarily(pod):  # the pod is gone when it is replaced
                outcomes = self._find_admission_outcomes(
                    self._build_pod_create_request(find_owner(pod), strip_node_and_admission_fields(pod))
                )
            is_admitted = any(admission.allowed for admission in outcomes)
            messages = () if is_admitted else _collect_denial_messages(outcomes)
            # The key has ids. Keeping these objects alive ensures that no other objects get the same ids.
            cache[key] = messages, (pod.spec.containers, quotas_before)
        denials, _objects_kept_alive = cache[key]
        return denials

    def report_denied_replacements(
        self, pods: Iterable[Pod], before: Iterable[tuple[Pod, Sequence[str]]] = ()
    ) -> list[NotCreated]:
        """Report, by workload, how many replacements of ``pods`` are denied.

        ``before`` has pods whose replacements were denied earlier, with the messages. The report includes them.
        """
        pods, before = list(pods), list(before)
        denied = [*before, *self.replay_replacements(pods)]
        return self.report_by_workload([*pods, *(pod for pod, _ in before)], denied)

    def report_by_workload(
        self, wanted: Iterable[Pod], denied: Iterable[tuple[Pod, Sequence[str]]]
    ) -> list[NotCreated]:
        """Report, by workload, how many of the ``wanted`` pods are denied, and why."""
        wanted_counts = Counter(map(find_owner, wanted))
        messages_by_owner: dict[Owner, list[Sequence[str]]] = {}
        for pod, messages in denied:
            messages_by_owner.setdefault(find_owner(pod), []).append(messages)
        return [
            build_report_from_messages_by_pod(owner, messages, wanted_counts[owner])
            for owner, messages in messages_by_owner.items()
        ]

    def replace_pods(self, old_pods: Iterable[Pod], new_pods: Iterable[Pod]) -> list[tuple[Pod, Sequence[str]]]:
        """Release the old pods from quotas, and then admit the new pods, workload by workload.

        Return the denied pods, each with the possible messages.
        """
        self.release(list(old_pods))
        denied: list[tuple[Pod, Sequence[str]]] = []
        groups: dict[tuple[Owner, int], list[Pod]] = {}
        for pod in new_pods:  # pods of one template share their containers
            groups.setdefault((find_owner(pod), id(pod.spec.containers)), []).append(pod)
        for (owner, _containers_id), pods in groups.items():
            create_request = self._build_pod_create_request(owner, strip_node_and_admission_fields(pods[0]))
            admitted = self._admit_identical_pods(create_request, len(pods))
            denied += [(pod, admitted.denials) for pod in pods[admitted.number :]]
        return denied

    def map_full_replay_by_namespace(self, workloads: Iterable[Struct]) -> dict[str, bool]:
        """Map each namespace of the workloads to whether admission is replayed in full there.

        A full replay requires the manifests of all these workloads in the namespace.
        """
        owners = [get_identity(workload) for workload in workloads]
        namespaces_without_manifest = {owner.namespace for owner in owners if owner not in self._manifests}
        return {owner.namespace: owner.namespace not in namespaces_without_manifest for owner in owners}

    def with_current_quotas(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the current quotas, or the same cluster if no quota was used."""
        return self._quotas.apply_to(cluster)

    def _admit_identical_pods(self, create_request: CreateRequest, max_count: int) -> Admitted:
        """Admit up to ``max_count`` pods like the request's, and charge them to their quotas.

        Claims are not considered. If not all pods are admitted, the result has the denials of the next pod. LimitRanges
        apply in random order, and a pod counts as denied only if every order denies it. If only some orders do, a note
        says so.
        """
        outcomes = self._find_admission_outcomes(create_request)
        allowed = next((admission for admission in outcomes if admission.allowed), None)
        denials = _collect_denial_messages(outcomes)
        if allowed is None or allowed.object is None:
            defaults = next((outcome.resource_defaults for outcome in outcomes), ())
            return Admitted(0, denials, defaults)
        if denials:  # only some orders deny the pod
            text = f"by chance, as any LimitRange may come first, a try fails: {denials[0]}"
            self.notes.append(WorkloadNote(str(create_request.owner), text))
        request = self._quotas.build_request("Pod", allowed.object, create_request.namespace)
        count = resource_quota.count_admissible_objects(request, max_count)
        self._quotas.charge(request, count)
        denials_of_next_pod = (
            _collect_denial_messages(self._find_admission_outcomes(create_request)) if count < max_count else ()
        )
        return Admitted(count, denials_of_next_pod, allowed.resource_defaults)

    def _admit_claims(self, workload: Struct | None, pods: Sequence[Pod], admitted: Admitted) -> Admitted:
        """Create the claims of a StatefulSet's pods, and return how many pods are admitted with all their claims.

        Claims are created before their pod, so the claims of the first denied pod are also created. If a claim is
        denied, its pod and all later pods are not admitted, and the result has the messages. The number of claims that
        were created for this pod is recorded. For other workloads, ``admitted`` is returned unchanged.
        """
        if not isinstance(workload, StatefulSet):
            return admitted
        for index, pod in enumerate(pods[: admitted.number + 1]):  # the admitted pods and the first denied one
            for claim_index, template in enumerate(workload.spec.volume_claim_templates):
                name = f"{template.metadata.name}-{pod.metadata.name}"
                if claim_messages := self._admit_claim(template, pod.metadata.namespace, name):
                    self._created_claims[get_identity(workload)] = claim_index
                    return Admitted(index, claim_messages)
        return admitted

    def _admit_claim(self, template: PersistentVolumeClaim, namespace: str, name: str) -> Sequence[str]:
        """Admit a new claim of a claim template under the given name, and return the denial messages.

        Return () if the claim is admitted or exists already.
        """
        existing = self._cluster.list_in_namespace("persistent_volume_claims", namespace)
        if any(claim.metadata.name == name for claim in existing):
            return ()
        return self.admit_object(build_claim_request(template, namespace, name))

    def admit_object(self, create_request: CreateRequest) -> Sequence[str]:
        """Admit an object other than a pod and charge it to its quotas. Return the denial messages.

        Return () if the object is admitted.
        """
        outcomes = self._find_admission_outcomes(create_request)
        allowed = next((admission for admission in outcomes if admission.allowed), None)
        if allowed is None or allowed.object is None:
            return _collect_denial_messages(outcomes)
        stored = {"apiVersion": create_request.manifest["apiVersion"], **allowed.object}
        self._quotas.charge(self._quotas.build_request(create_request.owner.kind, stored, create_request.namespace), 1)
        return ()

    def _iter_claim_requests(self, workload: Struct | None, namespace: str) -> Iterator[AdmissionRequest]:
        """Yield the request to create one claim in the namespace for each claim template of a StatefulSet.

        The claim is as admission changes it. Nothing is yielded for other workloads, or for a template whose claims
        would be denied.
        """
        if not isinstance(workload, StatefulSet):
            return
        for template in workload.spec.volume_claim_templates:
            outcomes = self._find_admission_outcomes(
                build_claim_request(template, namespace, template.metadata.name), quotas=()
            )
            if outcomes and outcomes[0].object:
                yield self._quotas.build_request("PersistentVolumeClaim", outcomes[0].object, namespace)

    def admit_workload(self, owner: Owner, change: WorkloadChange) -> Sequence[str]:
        """Admit a new workload and, for a Deployment, its ReplicaSet. Return the denial messages.

        Admitted objects are charged to their quotas. Return () if all are admitted, for a bare pod, and for a workload
        that exists already or has pods.
        """
        if owner.kind == "Pod" or change.kept or change.removed or self._has_workload(owner):
            return ()
        skipped = self._find_undecidable_plugins(owner.namespace, has_manifest=owner in self._manifests)
        names_by_kind = {owner.kind: owner.name}
        if owner.kind == "Deployment":
            names_by_kind["ReplicaSet"] = f"{owner.name}-*"
        for kind, name in names_by_kind.items():
            # Quotas only count these objects, so the spec may be empty
            version = KINDS[kind].versions[0] if kind in KINDS else CRON_JOB_VERSION
            manifest: JsonObject = {"apiVersion": version, "spec": {}}
            request = self._quotas.build_request(kind, manifest, owner.namespace, name)
            messages = self._find_quota_denials(request, skipped)
            if messages:
                return messages
            self._quotas.charge(request, 1)
        return ()

    def _find_undecidable_plugins(self, namespace: str, *, has_manifest: bool) -> set[str]:
        """Return the admission plugins to skip, because their decision depends on something unknown.

        The namespace of a workload with a manifest exists or will be created, so NamespaceLifecycle can be decided.
        """
        unknown_plugins = set(iter_undecidable_plugins(self._cluster, namespace))
        if has_manifest and is_missing_namespace(self._cluster, namespace):
            unknown_plugins.discard(NAMESPACE_LIFECYCLE)
        return unknown_plugins

    def _find_quota_denials(self, request: AdmissionRequest, skipped: Collection[str]) -> list[str]:
        """Return the possible denials of a request by its namespace or by quotas, or [] if the request is admitted.

        The quota that is checked first decides the message, and any quota may come first. The namespace is not checked
        if NamespaceLifecycle is in ``skipped``.
        """
        denials: dict[str, None] = {}
        for quotas in list_rotations(request.quotas):
            rotated = dataclasses.replace(request, quotas=quotas)
            try:
                if NAMESPACE_LIFECYCLE not in skipped:
                    check_namespace(rotated)
                resource_quota.check_quotas(rotated)
            except NotAdmittedError as error:
                denials[error.message] = None
            else:
                return []  # what one order of the quotas admits, all orders admit
        return list(denials)

    def _has_workload(self, owner: Owner) -> bool:
        """Return whether the cluster has the workload."""
        existing = self._cluster.list_in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
        return any(obj.metadata.name == owner.name for obj in existing)

    def _build_pod_create_request(self, owner: Owner, pod: Pod) -> CreateRequest:
        """Build the request that creates a pod of an owner."""
        return build_pod_create_request(owner, pod, self._manifests.get(owner))

    def _find_admission_outcomes(
        self, create_request: CreateRequest, quotas: Sequence[ResourceQuota] | None = None
    ) -> list[Admission]:
        """Return all possible outcomes of admission for a request, without charging quotas.

        Several outcomes are possible because LimitRanges and quotas are applied in random order. Plugins that depend on
        something unknown are skipped. Validation is skipped if it cannot fail, or if the request is not `in_full`.
        `quotas` overrides the current quotas.
        """
        if quotas is None:
            quotas = self._list_replayable_quotas(create_request)
        outcomes = iter_admission_outcomes(
            self._cluster,
            create_request.manifest,
            create_request.namespace,
            quotas=quotas,
            skipped=self._choose_skipped_plugins(create_request),
            annotated=False,
        )
        return list(outcomes)

    def _choose_skipped_plugins(self, create_request: CreateRequest) -> set[str]:
        """Return the admission plugins that are not replayed for a request.

        These are the plugins that depend on something unknown. If the request is not `in_full`, plugins that look at
        fields which scheduling does not read are added. Validation is skipped if it cannot fail.
        """
        namespace, manifest = create_request.namespace, create_request.manifest
        skipped = self._find_undecidable_plugins(namespace, has_manifest=create_request.in_full)
        if manifest["kind"] == "Pod":
            skipped.update(iter_undecidable_plugins_for_pod(self._cluster, namespace, object_at(manifest, "spec")))
        if not create_request.in_full:
            skipped |= {VALIDATION, POD_SECURITY, SERVICE_ACCOUNT_PLUGIN}
        if not self._cluster.list_in_namespace("limit_ranges", namespace):
            skipped.add(VALIDATION)  # manifests were validated when they were read; only defaults can invalidate them
        return skipped

    def release(self, pods: Collection[Pod]) -> None:
        """Give the resources of deleted pods back to their quotas."""
        self._quotas.release(pods)


def _collect_denial_messages(outcomes: Iterable[Admission]) -> list[str]:
    """Return the distinct messages of the denials among the outcomes."""
    return list(dict.fromkeys(admission.message or "" for admission in outcomes if not admission.allowed))


NEW_OBJECT_VERSIONS = {
    "PersistentVolumeClaim": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
}
"""The kinds that manifests bring beside workloads, and their API versions."""


class ClusterWithNewObjects(NamedTuple):
    """A cluster with new claims and pod groups, and the reports on denied ones."""

    cluster: Cluster
    """The cluster without the denied objects, and with the others counted by the quotas."""
    denied: dict[Owner, NotCreated]


def create_new_claims_and_groups(cluster: Cluster) -> ClusterWithNewObjects:
    """Create the claims and pod groups that are new to the API server, kind by kind.

    Return the cluster and a report on each denied object. The cluster lacks the objects that quotas or limits deny, and
    its quotas include the other new objects.
    """
    admissions = Admissions(cluster, manifests={})
    denied: dict[Owner, NotCreated] = {}
    admitted_by_field: dict[str, Any] = {}
    for kind in NEW_OBJECT_VERSIONS:
        objects = getattr(cluster, FIELDS[kind])
        denied_of_kind = _admit_objects(kind, filter(_is_new_to_server, objects), admissions)
        if denied_of_kind:
            admitted_by_field[FIELDS[kind]] = tuple(
                obj for obj in objects if Owner(kind, obj.metadata.namespace, obj.metadata.name) not in denied_of_kind
            )
            denied |= denied_of_kind
    cluster = admissions.with_current_quotas(cluster)
    if admitted_by_field:
        cluster = replace(cluster, **admitted_by_field)
    return ClusterWithNewObjects(cluster, denied)


def _admit_objects(kind: str, objects: Iterable[Any], admissions: Admissions) -> dict[Owner, NotCreated]:
    """Admit objects of one kind, and return a report on each object that is denied.

    Admitted objects are charged to their quotas.
    """
    denied: dict[Owner, NotCreated] = {}
    for obj in objects:
        meta = obj.metadata
        owner = Owner(kind, meta.namespace, meta.name)
        metadata = {"name": meta.name, "namespace": meta.namespace, "annotations": meta.annotations}
        manifest = {"apiVersion": NEW_OBJECT_VERSIONS[kind], "kind": kind, "metadata": metadata}
        create_request = CreateRequest(
            owner, manifest | {"spec": msgspec.to_builtins(obj.spec)}, meta.namespace, in_full=False
        )
        if messages := admissions.admit_object(create_request):
            denied[owner] = build_denied_pods_report(owner, messages, wanted=1, denied=1)
    return denied


def _is_new_to_server(obj: PersistentVolumeClaim | ResourceClaim | PodGroup) -> bool:
    """Return whether the object lacks all fields that only a server sets.

    Such fields are the uid and, by kind, the allocation, the conditions or the phase.
    """
    if obj.metadata.uid:
        return False
    match obj:
        case ResourceClaim():
            return obj.status.allocation is None
        case PodGroup():
            return not obj.status.conditions
    return not obj.status.phase


# -- create requests ---------------------------------------------------------------------------------------------------


NAMED_KINDS = ("Pod", "StatefulSet")
"""Kinds whose pods get no generated name."""
CONTROLLER_FIELDS = ("affinity", "tolerations", "nodeName")
"""Fields of a pod spec that controllers set or extend, so that the pod's value replaces that of the template."""


class CreateRequest(NamedTuple):
    """A request to create an object, which may stand for all identical pods of a workload."""

    owner: Owner
    manifest: JsonObject
    namespace: str
    in_full: bool
    """True if the manifest has all fields, not only those that scheduling reads."""


def build_pod_create_request(owner: Owner, pod: Pod, document: JsonObject | None) -> CreateRequest:
    """Build the create request for one pod of an owner.

    ``document`` is the workload's manifest, or None if it is unknown. Without the manifest, the request has only the
    fields that scheduling reads.
    """
    from kschedctl.admission.pod_security import extract_pod  # noqa: PLC0415 - only for new pods

    namespace = pod.metadata.namespace
    if owner.kind in NAMED_KINDS:
        identity = {"namespace": namespace, "name": pod.metadata.name}
    else:
        identity = {"namespace": namespace, "generateName": f"{owner.name}-"}
    pod_fields = msgspec.to_builtins(pod)
    pod_spec = pod_fields["spec"]
    if document is None:
        # The name is generated, unless `identity` has one.
        metadata = {**pod_fields["metadata"], "name": "", **identity}
        return CreateRequest(owner, {"kind": "Pod", "metadata": metadata, "spec": pod_spec}, namespace, in_full=False)

    # The pod is the manifest's template with the fields and volumes that controllers add
    template: Any = extract_pod(owner.kind, drop_nulls(document))
    annotations = (template.get("metadata") or {}).get("annotations")
    metadata = {"labels": pod.metadata.labels, "annotations": annotations, **identity}
    controller_fields = {name: pod_spec[name] for name in CONTROLLER_FIELDS if pod_spec.get(name)}
    spec = {**(template.get("spec") or {}), **controller_fields}
    spec["volumes"] = _merge_claim_volumes(spec.get("volumes") or [], pod_spec.get("volumes") or [])
    return CreateRequest(owner, {"kind": "Pod", "metadata": metadata, "spec": spec}, namespace, in_full=True)


def _merge_claim_volumes(template_volumes: Sequence[JsonObject], pod_volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the template's volumes together with the claim volumes that the controller adds."""
    claims = {volume["name"]: volume for volume in pod_volumes if volume.get("persistentVolumeClaim")}
    other_volumes = [volume for volume in template_volumes if volume.get("name") not in claims]
    return [*other_volumes, *claims.values()]


def strip_node_and_admission_fields(pod: Pod) -> Pod:
    """Return the pod without its node and without the fields that admission sets.

    These are the priority, the preemption policy and, if the pod has a RuntimeClass, the overhead.
    """
    spec = replace(pod.spec, node_name="", priority=None, preemption_policy=None)
    if spec.runtime_class_name:
        spec = replace(spec, overhead={})
    return replace(pod, spec=spec)


def build_claim_request(template: PersistentVolumeClaim, namespace: str, name: str) -> CreateRequest:
    """Build the create request for a claim with this namespace and name, from a claim template."""
    metadata = {"name": name, "namespace": namespace, "annotations": template.metadata.annotations}
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": msgspec.to_builtins(template.spec),
    }
    return CreateRequest(Owner("PersistentVolumeClaim", namespace, name), manifest, namespace, in_full=False)


def group_bare_pods(
    workloads: Sequence[Struct], changes: Sequence[WorkloadChange], manifests: Mapping[Owner, JsonObject]
) -> dict[object, list[int]]:
    """Group the indexes of new bare pods that differ only in name. Each other workload forms its own group.

    ``manifests`` maps workloads to their manifests, if these are known. A pod with a manifest is compared by its
    manifest.
    """
    groups: dict[object, list[int]] = {}
    for index, (workload, change) in enumerate(zip(workloads, changes, strict=True)):
        is_new_bare_pod = isinstance(workload, Pod) and len(change.new) == 1 and not (change.kept or change.removed)
        key = _build_bare_pod_key(workload, manifests) if is_new_bare_pod else index
        groups.setdefault(key, []).append(index)
    return groups


def _build_bare_pod_key(pod: Any, manifests: Mapping[Owner, JsonObject]) -> tuple[object, ...]:
    """Build a key that is equal for bare pods with the same namespace, spec, annotations and labels.

    The spec and the annotations are those of the pod's manifest, if it is known.
    """
    document = manifests.get(get_identity(pod), {})
    spec = document.get("spec") or pod.spec
    annotations = object_at(document, "metadata").get("annotations")
    return pod.metadata.namespace, msgspec.json.encode((spec, annotations, pod.metadata.labels))
