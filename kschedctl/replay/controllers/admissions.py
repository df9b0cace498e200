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
from kschedctl.admission.admit import POD_SECURITY, VALIDATION, check_namespace, each_first, outcomes
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError
from kschedctl.admission.unknown import ACCOUNTS, LIFECYCLE, is_missing, not_known, not_known_of
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import PersistentVolumeClaim, Pod, PodGroup, ResourceClaim, ResourceQuota, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import StatefulSet, identity
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.create_requests import SentPod, alike_bare_pods, as_template, sent, sent_claim
from kschedctl.replay.controllers.creation_failures import refusal, refusal_of
from kschedctl.replay.controllers.creation_fix_steps import RefusedPod, Way, secured_as_told
from kschedctl.replay.controllers.creation_fixes import (
    CreationReplay,
    Mended,
    MissingPods,
    for_claims,
    raised_by,
    raising,
)
from kschedctl.replay.controllers.pod_defaults import WorkloadNote
from kschedctl.replay.controllers.remaining_quotas import QuotasLeft
from kschedctl.replay.controllers.workload_change import Change
from kschedctl.reports.admission import Admission
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.scheduler.scheduler import Scheduler

MOST_MENDED = 25
"""For so many workloads it is looked for what lets their pods be created."""
CRON_JOB = "batch/v1"
"""The API version of the kind that makes pods and is not read."""


class Admissions:
    """What is left of the quotas of each namespace, as pods are created one after the other.

    ``written``: the workloads as documents, as far as they were given as such; of others only what scheduling reads
    is known, and what hangs on the rest is not asked. ``told``: what chance decides, once a workload.
    """

    def __init__(self, cluster: Cluster, written: Mapping[Owner, JsonObject]) -> None:
        self._cluster, self._written = cluster, written
        self._quotas = QuotasLeft(cluster)
        self._known: dict[tuple[str, int, int], tuple[Sequence[str], object]] = {}
        """What is said to pods made again, and the objects by whose identities it is known, which stay."""
        self.notes: list[WorkloadNote] = []
        self._owed: dict[str, list[tuple[AdmissionRequest, int]]] = {}
        """Namespace -> what was refused, and how often."""
        self._came: dict[Owner, int] = {}
        """How many claims of the first pod that lacks one were created."""
        self._suggested = 0

    def take_all(self, workloads: Sequence[Struct], changes: Sequence[Change]) -> list[NotCreated]:
        """Take out of changes the pods that are not created, in order; the workloads that lack some."""
        before, notes = self._quotas.again(), len(self.notes)
        groups = alike_bare_pods(workloads, changes, self._written)
        if len(groups) < len(workloads):  # many bare pods are looked at together: there may be room for all
            if all(self._fit(workloads[at[0]], changes[at[0]], len(at)) for at in groups.values()):
                return []
            self._quotas = before
            del self.notes[notes:]
        first = [next(iter(change.new), None) for change in changes]
        pairs = zip(workloads, changes, strict=True)
        lacking = {at: found for at, pair in enumerate(pairs) if (found := self._take(identity(pair[0]), *pair))}
        for alike in groups.values():
            refused = [at for at in alike if at in lacking]
            like = first[refused[0]] if refused else None
            if like is not None:
                workload = workloads[refused[0]]
                fixes = self._fixes(identity(workload), workload, [changes[at] for at in refused], like)
                lacking |= {at: msgspec.structs.replace(lacking[at], fixes=fixes) for at in refused}
        return list(lacking.values())

    def _fit(self, workload: Struct, change: Change, number: int) -> bool:
        """Whether all are created, so many of a bare pod; then they are counted."""
        self.release(change.removed)
        if self.of_object(identity(workload), change):
            return False
        return not (change.new and self.room(workload, change.new, max(number, len(change.new)))[1])

    def take(self, workload: Struct, change: Change) -> NotCreated | None:
        """Take out of a change the pods that are not created, all of one template; what it removes is gone before."""
        return next(iter(self.take_all([workload], [change])), None)

    def take_more(self, owner: Owner, change: Change) -> NotCreated | None:
        """Admit more pods of a workload of which nothing but its pods is known, which share their claims."""
        like = next(iter(change.new), None)
        lacking = self._take(owner, None, change)
        if lacking is None or like is None:
            return lacking
        return msgspec.structs.replace(lacking, fixes=self._fixes(owner, None, [change], like))

    def _take(self, owner: Owner, workload: Struct | None, change: Change) -> NotCreated | None:
        self.release(change.removed)
        wanted = change.desired
        number, words = 0, self.of_object(owner, change)
        if change.new and not words:
            number, words = self.room_for(owner, workload, change.new, len(change.new))
        if not words:
            return None
        change.refused = len(change.new) - number
        del change.new[number:]
        return refusal(owner, words, wanted, change.refused)

    def fixes_as_told(self, owner: Owner, workload: Struct, change: Change, told: str) -> tuple[CreationFix, ...]:
        """What lets the refused pods of a change be created, where the API server's words alone tell what they lack."""
        like = change.new[0]
        refused = RefusedPod(self._cluster, owner.namespace, self._sent(owner, like).manifest, told)
        by_way = (self._fixes(owner, workload, [change], like, first) for first in secured_as_told(refused))
        return tuple(chain.from_iterable(by_way))

    def _fixes(
        self,
        owner: Owner,
        workload: Struct | None,
        changes: Sequence[Change],
        like: Pod,
        first: Way | None = None,
    ) -> tuple[CreationFix, ...]:
        """What lets the pods that are missing be created, and those of others that were refused before.

        ``first``: is done before all else.
        """
        self._suggested += 1
        if self._suggested > MOST_MENDED:
            return ()
        asked, number = self._sent(owner, like), sum(change.refused for change in changes)

        def ask(state: Mended) -> CreationReplay:
            trial = Admissions(state.cluster, self._written)
            trial._quotas = QuotasLeft(state.cluster, {**self._quotas.now, asked.namespace: state.quotas})
            return trial._judged(asked._replace(manifest=state.manifest), number)

        kept, document = len(changes[0].kept), self._written.get(owner)
        missing = MissingPods(self._cluster, owner, workload, number, kept, document, lambda: self._scheduler)
        start = Mended(self._cluster, self._owing(asked.namespace), asked.manifest)
        claims = list(self._claims_of(workload, asked.namespace))
        came = self._came.get(owner, 0)
        if way := for_claims(claims, [number - (at < came) for at in range(len(claims))]):
            start = start.after(way)
        start = start if first is None else start.after(first)
        fixes = tuple(missing.fixes(start, ask))
        if (created := ask(start).created) is not None:
            self._owed.setdefault(asked.namespace, []).append((created, number))
        return fixes

    def _owing(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The quotas as if those that were refused before were created."""
        quotas = self._quotas.of(namespace)
        for created, number in self._owed.get(namespace, ()):
            own = [quota for quota in quotas if quota.status.hard]
            charged = resource_quota.charged(dataclasses.replace(created, quotas=own), number)
            after = {quota.metadata.name: quota for quota in charged}
            quotas = tuple(after.get(quota.metadata.name, quota) for quota in quotas)
        return quotas

    @cached_property
    def _scheduler(self) -> Scheduler:
        return Scheduler(self._cluster)

    def _judged(self, asked: SentPod, missing: int) -> CreationReplay:
        """What is said to so many such pods."""
        quotas = [
            quota
            for quota in self._quotas.of(asked.namespace)
            if resource_quota.is_counted(quota, in_full=asked.in_full)
        ]
        freely = self._tried(asked, quotas=())
        created = next((admission.object for admission in freely if admission.object is not None), None)
        if created is None:
            return CreationReplay(_words(freely), None)
        request = dataclasses.replace(self._quotas.request("Pod", created, asked.namespace), quotas=quotas)
        return CreationReplay(self._room_of(asked, missing)[1], request)

    def room(self, workload: Struct, pods: Sequence[Pod], most: int) -> tuple[int, Sequence[str]]:
        """How many more of such pods are created, up to ``most``, and why no more are, in the API server's words.

        Of a StatefulSet with claims all ``pods`` are to be given.
        """
        return self.room_for(identity(workload), workload, pods, most)

    def room_for(
        self, owner: Owner, workload: Struct | None, pods: Sequence[Pod], most: int
    ) -> tuple[int, Sequence[str]]:
        """How many more pods there is room for, of a workload of which maybe nothing but its pods is known."""
        return self._claims(workload, pods, *self._room_of(self._sent(owner, pods[0]), most))

    def again(self) -> Admissions:
        """A copy of what is admitted now, for another run."""
        same = Admissions(self._cluster, self._written)
        same._quotas = self._quotas.again()
        return same

    def after(self, way: Way) -> Admissions:
        """A copy once quotas were raised."""
        same = self.again()
        for namespace in {change.after.metadata.namespace for change in way.objects}:  # type: ignore[attr-defined]
            same._quotas.now[namespace] = raised_by(way, self._quotas.of(namespace))
        return same

    def lacking(self, owner: Owner, pod: Pod, number: int) -> Way | None:
        """By how much quotas would have to be raised for so many more pods; None where they are not what refuses it."""
        created = self.again()._judged(self._sent(owner, pod), number).created
        return next(raising(created, number), None) if created is not None else None

    def remade(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Sequence[str]]]:
        """Pods that controllers recreate, each once the one before is gone, that are refused, and why."""
        known = self._known
        for pod in pods:
            namespace = pod.metadata.namespace
            before = self._quotas.of(namespace)
            key = namespace, id(pod.spec.containers), id(before)
            if key not in known:
                self.release([pod])
                tried = self._tried(self._sent(find_owner(pod), as_template(pod)))
                words = () if any(admission.allowed for admission in tried) else _words(tried)
                known[key] = words, (pod.spec.containers, before)
            if said := known[key][0]:
                yield pod, said
                self._quotas.now[namespace] = before
                self.release([pod])  # the old one is gone all the same
            else:
                self._quotas.now[namespace] = before

    def not_remade(self, pods: Iterable[Pod], before: Iterable[tuple[Pod, Sequence[str]]] = ()) -> list[NotCreated]:
        """How many of these pods there is none again, by workload, with those refused ``before``."""
        pods, before = list(pods), list(before)
        refused = [*before, *self.remade(pods)]
        return self.by_workload([*pods, *(pod for pod, _ in before)], refused)

    def by_workload(self, wanted: Iterable[Pod], refused: Iterable[tuple[Pod, Sequence[str]]]) -> list[NotCreated]:
        """How many of the wanted pods there is none, by workload, and why."""
        number = Counter(map(find_owner, wanted))
        words: dict[Owner, list[Sequence[str]]] = {}
        for pod, said in refused:
            words.setdefault(find_owner(pod), []).append(said)
        return [refusal_of(owner, said, number[owner]) for owner, said in words.items()]

    def come_again(self, going: Iterable[Pod], coming: Iterable[Pod]) -> list[tuple[Pod, Sequence[str]]]:
        """All of some pods go at once, then others come in order: those that are refused, and why."""
        self.release(list(going))
        refused: list[tuple[Pod, Sequence[str]]] = []
        alike: dict[tuple[Owner, int], list[Pod]] = {}
        for pod in coming:
            alike.setdefault((find_owner(pod), id(pod.spec.containers)), []).append(pod)
        for (owner, _), pods in alike.items():
            number, words = self._room_of(self._sent(owner, as_template(pods[0])), len(pods))
            refused += [(pod, words) for pod in pods[number:]]
        return refused

    def namespaces(self, workloads: Iterable[Struct]) -> dict[str, bool]:
        """Where pods of workloads come, and whether all of them are known as they are written."""
        wholly: dict[str, bool] = {}
        for owner in map(identity, workloads):
            wholly[owner.namespace] = wholly.get(owner.namespace, True) and owner in self._written
        return wholly

    def counted(self, cluster: Cluster) -> Cluster:
        """A cluster with the quotas as they are now; itself where nothing was counted."""
        return self._quotas.counted(cluster)

    def _room_of(self, asked: SentPod, most: int) -> tuple[int, Sequence[str]]:
        tried = self._tried(asked)
        created = next((admission for admission in tried if admission.allowed), None)
        if created is None or created.object is None:
            return 0, _words(tried)
        if by_chance := _words(tried):
            text = f"by chance, as any LimitRange may come first, a try fails: {by_chance[0]}"
            self.notes.append(WorkloadNote(str(asked.owner), text))
        request = self._quotas.request("Pod", created.object, asked.namespace)
        number = resource_quota.room(request, most)
        self._quotas.charge(request, number)
        return number, _words(self._tried(asked)) if number < most else ()

    def _claims(
        self, workload: Struct | None, pods: Sequence[Pod], number: int, words: Sequence[str]
    ) -> tuple[int, Sequence[str]]:
        """Pods less those of which a claim is refused, which is made before each."""
        if not isinstance(workload, StatefulSet):
            return number, words
        for at, pod in enumerate(pods[: number + 1]):
            for came, template in enumerate(workload.spec.volume_claim_templates):
                name = f"{template.metadata.name}-{pod.metadata.name}"
                if refused := self._of_claim(template, pod.metadata.namespace, name):
                    self._came[identity(workload)] = came
                    return min(at, number), refused if at <= number and at < len(pods) else words
        return number, words

    def _of_claim(self, template: PersistentVolumeClaim, namespace: str, name: str) -> Sequence[str]:
        """Why a claim is refused; where it is not, it counts. None is made that is there."""
        there = self._cluster.in_namespace("persistent_volume_claims", namespace)
        if any(claim.metadata.name == name for claim in there):
            return ()
        return self.of_one(sent_claim(template, namespace, name))

    def of_one(self, asked: SentPod) -> Sequence[str]:
        """Why an object that is no pod is refused; where it is not, it counts."""
        tried = self._tried(asked)
        created = next((admission for admission in tried if admission.allowed), None)
        if created is None or created.object is None:
            return _words(tried)
        made = {"apiVersion": asked.manifest["apiVersion"], **created.object}
        self._quotas.charge(self._quotas.request(asked.owner.kind, made, asked.namespace), 1)
        return ()

    def _claims_of(self, workload: Struct | None, namespace: str) -> Iterator[AdmissionRequest]:
        """A claim of each of its templates as it would be stored but for quotas."""
        for template in workload.spec.volume_claim_templates if isinstance(workload, StatefulSet) else ():
            tried = self._tried(sent_claim(template, namespace, template.metadata.name), quotas=())
            yield from (
                self._quotas.request("PersistentVolumeClaim", a.object, namespace) for a in tried[:1] if a.object
            )

    def of_object(self, owner: Owner, change: Change) -> Sequence[str]:
        """Why the workload itself, or the ReplicaSet of a Deployment, is refused; where they are not, they count."""
        if owner.kind == "Pod" or change.kept or change.removed or self._is_there(owner):
            return ()
        for kind in (owner.kind, "ReplicaSet")[: 1 + (owner.kind == "Deployment")]:
            made: JsonObject = {"apiVersion": KINDS[kind].versions[0] if kind in KINDS else CRON_JOB, "spec": {}}
            name = owner.name if kind == owner.kind else f"{owner.name}-*"
            request = self._quotas.request(kind, made, owner.namespace, name)
            written = owner in self._written
            if words := list(dict.fromkeys(self._against(request, self._left_out(owner.namespace, written=written)))):
                return words
            self._quotas.charge(request, 1)
        return ()

    def _left_out(self, namespace: str, *, written: bool) -> set[str]:
        """The plugins that look at what is not known; where pods are already, their namespace is."""
        unread = set(not_known(self._cluster, namespace))
        return unread - {LIFECYCLE} if written and is_missing(self._cluster, namespace) else unread

    def _against(self, request: AdmissionRequest, without: Collection[str]) -> Iterator[str]:
        for quotas in each_first(request.quotas):
            request.quotas = quotas
            try:
                if LIFECYCLE not in without:
                    check_namespace(request)
                resource_quota.check(request)
            except NotAdmittedError as error:
                yield error.message
            else:
                return  # what one order of quotas admits, all do

    def _is_there(self, owner: Owner) -> bool:
        there = self._cluster.in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
        return any(obj.metadata.name == owner.name for obj in there)

    def _sent(self, owner: Owner, pod: Pod) -> SentPod:
        return sent(owner, pod, self._written.get(owner))

    def _tried(self, asked: SentPod, quotas: Sequence[ResourceQuota] | None = None) -> list[Admission]:
        without = self._left_out(asked.namespace, written=asked.in_full)
        if asked.manifest["kind"] == "Pod":
            without.update(not_known_of(self._cluster, asked.namespace, object_at(asked.manifest, "spec")))
        if not asked.in_full:
            without |= {VALIDATION, POD_SECURITY, ACCOUNTS}
        if not self._cluster.in_namespace("limit_ranges", asked.namespace):
            without.add(VALIDATION)  # what is written was looked at when it was read; defaults may make it invalid
        if quotas is None:
            quotas = [
                q for q in self._quotas.of(asked.namespace) if resource_quota.is_counted(q, in_full=asked.in_full)
            ]
        admitted = outcomes(
            self._cluster, asked.manifest, asked.namespace, quotas=quotas, without=without, annotated=False
        )
        return list(admitted)

    def _counting(self, asked: SentPod) -> list[ResourceQuota]:
        """The quotas of which it is known whether they count the pod."""
        left = self._quotas.of(asked.namespace)
        return [quota for quota in left if resource_quota.is_counted(quota, in_full=asked.in_full)]

    def release(self, pods: Collection[Pod]) -> None:
        """What goes is not used any more."""
        self._quotas.release(pods)


def _words(tried: Iterable[Admission]) -> list[str]:
    """What those that refuse say, each once."""
    return list(dict.fromkeys(admission.message or "" for admission in tried if not admission.allowed))


VERSIONS = {
    "PersistentVolumeClaim": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
}


class WithNewObjects(NamedTuple):
    """The cluster less the objects that are refused, and with the others counted; and the refused ones."""

    cluster: Cluster
    refused: dict[Owner, NotCreated]


def with_new_objects(cluster: Cluster) -> WithNewObjects:
    """The objects that no API server has seen yet, created in the order of their names."""
    admissions, refused, fields = Admissions(cluster, {}), dict[Owner, NotCreated](), dict[str, Any]()
    for kind in VERSIONS:
        objects = getattr(cluster, FIELDS[kind])
        lacking = dict(_refused(kind, filter(_is_new, objects), admissions))
        if lacking:
            fields[FIELDS[kind]] = tuple(
                o for o in objects if Owner(kind, o.metadata.namespace, o.metadata.name) not in lacking
            )
            refused |= lacking
    counted = admissions.counted(cluster)
    return WithNewObjects(replace(counted, **fields) if fields else counted, refused)


def _refused(kind: str, objects: Iterable[Any], admissions: Admissions) -> Iterator[tuple[Owner, NotCreated]]:
    for obj in objects:
        meta = obj.metadata
        owner = Owner(kind, meta.namespace, meta.name)
        metadata = {"name": meta.name, "namespace": meta.namespace, "annotations": meta.annotations}
        manifest = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": metadata}
        asked = SentPod(owner, manifest | {"spec": msgspec.to_builtins(obj.spec)}, meta.namespace, in_full=False)
        if words := admissions.of_one(asked):
            yield owner, refusal(owner, words, 1, 1)


def _is_new(obj: PersistentVolumeClaim | ResourceClaim | PodGroup) -> bool:
    """Without what only a server sets."""
    if obj.metadata.uid:
        return False
    match obj:
        case ResourceClaim():
            return obj.status.allocation is None
        case PodGroup():
            return not obj.status.conditions
    return not obj.status.phase
