"""What lets pods be created that the API server refuses: each fix is replayed through admission and scheduling."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.admission import resource_quota
from kschedctl.admission.pod_security_policy import IN_SPEC, TEMPLATES
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.objects import ResourceQuota, ResourceQuotaStatus, Struct
from kschedctl.api.ownership import Owner, find_controller
from kschedctl.api.workloads import StatefulSet
from kschedctl.cluster import FIELDS, Cluster, convert
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.creation import create
from kschedctl.replay.controllers.creation_fix_steps import AroundPod, RefusedPod, StepKind, Way, ways
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import json_patch, of_template, plain, strategic_patch
from kschedctl.reports.not_created import CreationFix
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.scheduler import Scheduler

LITTLE = {"cpu": "1m", "memory": "1Mi"}
"""An amount for who has to say some."""
MOST_WAYS, MOST_FIXES = 6, 4
"""Changes in a fix, and fixes."""
ROLLED_OUT = frozenset({"Deployment", "DaemonSet", "StatefulSet"})
"""Kinds that replace the pods that they have when their template changes."""
ADDED_ANEW = frozenset({"Job", "Pod"})
"""Kinds whose template cannot be patched where they are."""


class CreationReplay(NamedTuple):
    """What the API server says to the pods that are missing: ``words`` where it refuses some.

    ``created``: one of them as it would be stored but for quotas, with the quotas that count it.
    """

    words: Sequence[str]
    created: AdmissionRequest | None


class Mended(msgspec.Struct, frozen=True):
    """A pod as it is sent, the cluster and what is left of the quotas, after some changes."""

    cluster: Cluster
    quotas: tuple[ResourceQuota, ...]
    manifest: JsonObject
    ways: tuple[Way, ...] = ()

    def after(self, way: Way) -> Mended:
        manifest: Writable = copy.deepcopy(dict(self.manifest))
        if way.edit is not None:
            way.edit(manifest.setdefault("spec", {}))
        around = {type(o.after).__name__: [o.after] for o in way.objects if not isinstance(o.after, ResourceQuota)}
        cluster = self.cluster.with_objects(around) if around else self.cluster
        return Mended(cluster, raised_by(way, self.quotas), manifest, (*self.ways, way))


def raised_by(way: Way, quotas: Iterable[ResourceQuota]) -> tuple[ResourceQuota, ...]:
    """Quotas of a namespace once they were raised, and their controller has seen that."""
    hard = {o.after.metadata.name: o.after.spec.hard for o in way.objects if isinstance(o.after, ResourceQuota)}
    return tuple(_holding(quota, hard.get(quota.metadata.name, {})) for quota in quotas)


def _holding(quota: ResourceQuota, hard: Mapping[str, Any]) -> ResourceQuota:
    known = {name: amount for name, amount in hard.items() if name in quota.status.hard}
    return replace(quota, status=ResourceQuotaStatus({**quota.status.hard, **known}, quota.status.used))


@dataclass(frozen=True, eq=False)
class MissingPods:
    """So many pods of a workload that are refused, and those that are ``kept``.

    ``document``: the workload as it is written, where it is; ``scheduler``: of the cluster.
    """

    cluster: Cluster
    owner: Owner
    workload: Struct | None
    number: int
    kept: int
    document: JsonObject | None
    scheduler: Callable[[], Scheduler]

    def fixes(self, start: Mended, ask: Callable[[Mended], CreationReplay]) -> Iterator[CreationFix]:
        """What lets all of them be created, the best first; with what scheduling says then, where it refuses them."""
        for mended, created in islice(self._mended(start, ask), MOST_FIXES):
            if mended.ways and created is not None:
                yield self._fix(mended, created)

    def _mended(
        self, state: Mended, ask: Callable[[Mended], CreationReplay]
    ) -> Iterator[tuple[Mended, AdmissionRequest | None]]:
        answer = ask(state)
        if not answer.words:
            yield state, answer.created
        elif len(state.ways) < MOST_WAYS:
            refused = RefusedPod(state.cluster, self.owner.namespace, state.manifest, answer.words[0])
            known = ways(refused) if answer.created is None else _of_quotas(answer.created, self.number)
            for way in known:
                after = state.after(way)
                if (after.cluster, after.quotas, after.manifest) != (state.cluster, state.quotas, state.manifest):
                    yield from self._mended(after, ask)

    @cached_property
    def _top(self) -> Owner:
        """The Deployment behind a ReplicaSet of the cluster, whose template people write."""
        owner = self.owner
        sets = self.cluster.in_namespace("replica_sets", owner.namespace) if owner.kind == "ReplicaSet" else ()
        controllers = (find_controller(found.metadata) for found in sets if found.metadata.name == owner.name)
        by = next(controllers, None)
        return Owner(by.kind, owner.namespace, by.name) if by is not None else owner

    @cached_property
    def _stored(self) -> JsonObject | None:
        """The workload as it was read; None where it is not there, or not read."""
        owner = self._top
        there = self.cluster.in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
        found: Struct | None = next((obj for obj in there if obj.metadata.name == owner.name), None)
        return None if found is None else {"kind": owner.kind, **plain(found)}

    @cached_property
    def _with_claims(self) -> Scheduler:
        """The scheduler of the cluster, with the claims that are made for the pods."""
        workload = self.workload
        if isinstance(workload, StatefulSet) and workload.spec.volume_claim_templates:
            return Scheduler(create(self.cluster, [workload], include_denied=True).apply_to(self.cluster))
        return self.scheduler()

    def _fix(self, mended: Mended, created: AdmissionRequest) -> CreationFix:
        by_author = [way for way in mended.ways if way.edit is not None]
        objects = [change for way in mended.ways for change in way.objects]
        top, before = self._top, self.document or self._stored or {}
        after = _edited(top.kind, before, by_author) if before else before
        patch = strategic_patch(_pod(top.kind, before), _pod(top.kind, after))
        owner_patch = {} if any(map(_is_guessed, by_author)) or not patch else of_template(top.kind, patch)
        opens, then = _scheduled(self._with_claims, created)
        return CreationFix(
            what=", and ".join(way.what for way in mended.ways),
            commands=(*map(_command, objects), *self._commands(owner_patch)),
            by="operator" if any(way.by == "operator" for way in mended.ways) else "author",
            kinds=tuple(way.kind for way in mended.ways),
            weakens="; ".join(way.weakens for way in mended.ways if way.weakens),
            then=then,
            opens=opens,
            changes=(*map(_change, objects), *([self._written(before, after)] if patch else ())),
            owner=str(top) if owner_patch else "",
            owner_patch=dict(owner_patch),
            restarts=self.kept if patch and top.kind in ROLLED_OUT else 0,
        )

    def _commands(self, patch: JsonObject) -> Iterator[str]:
        """What the author types; nothing for a manifest that is not applied yet."""
        if patch and self._stored is not None and self._top.kind not in ADDED_ANEW:
            key = ObjectKey(*self._top)
            yield kubectl.run("patch", *kubectl.named(key), "--type", "strategic", "-p", kubectl.compact(patch))

    def _written(self, before: JsonObject, after: JsonObject) -> dict[str, Json]:
        kind, namespace, name = self._top
        operations = list(json_patch(dict(before), dict(after)))
        return {"kind": kind, "namespace": namespace, "name": name, "patch": operations}


def _pod(kind: str, document: JsonObject) -> JsonObject:
    return {"spec": object_at(document, *TEMPLATES.get(kind, IN_SPEC), "spec")}


def _edited(kind: str, document: JsonObject, by_author: Sequence[Way]) -> JsonObject:
    """The workload with the edits of its pod."""
    edited: Any = copy.deepcopy(dict(document))
    spec: Any = edited
    for part in (*TEMPLATES.get(kind, IN_SPEC), "spec"):
        spec = spec.setdefault(part, {})
    for way in by_author:
        assert way.edit is not None
        way.edit(spec)
    found: JsonObject = edited
    return found


def _command(change: AroundPod) -> str:
    key = ObjectKey.of(change.after)  # type: ignore[arg-type]
    if change.before is None:
        return kubectl.apply({**kubectl.manifest(key, change.after), **change.more})
    return kubectl.patch(key, kubectl.merged(change.before, change.after))


def around_fix(way: Way) -> CreationFix:
    """The fix that changes nothing but what is around the pods."""
    return CreationFix(
        what=way.what,
        commands=tuple(map(_command, way.objects)),
        by=way.by,
        kinds=(way.kind,),
        weakens=way.weakens,
        changes=tuple(map(_change, way.objects)),
    )


def _change(change: AroundPod) -> dict[str, Json]:
    """In the form of ``Remedy.changes``."""
    key = ObjectKey.of(change.after)  # type: ignore[arg-type]
    if change.before is None:
        return {"create": {**kubectl.manifest(key, change.after), **change.more}}
    named = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
    return {**named, "patch": list(json_patch(plain(change.before), plain(change.after)))}


# -- quotas ----------------------------------------------------------------------------------------------------------


def _of_quotas(created: AdmissionRequest, missing: int) -> Iterator[Way]:
    """What a quota wants said is said; of what is left the quotas get as much more as is lacking."""
    if said := resource_quota.not_said(created):
        yield Way(StepKind.SET_RESOURCES, f"set {'; '.join(said)}", partial(_say, said))
        return
    yield from raising(created, missing)


def raising(created: AdmissionRequest, missing: int) -> Iterator[Way]:
    """The quotas raised by what they lack for so many more such pods; nothing where they lack nothing."""
    raised = resource_quota.raised(created, missing)
    if raised:
        yield _raise_to(created, raised)


def for_claims(claims: Sequence[AdmissionRequest], missing: Sequence[int]) -> Way | None:
    """The quotas raised by what they lack for so many of each of the claims; None where they lack nothing."""
    hard: dict[str, dict[str, str]] = {}
    quotas = claims[0].quotas if claims else ()
    for claim, number in zip(claims, missing, strict=True):
        raised = resource_quota.raised(dataclasses.replace(claim, quotas=quotas), number)
        hard |= {name: {**hard.get(name, {}), **amounts} for name, amounts in raised.items()}
        holding = [_holding(quota, raised.get(quota.metadata.name, {})) for quota in quotas]
        quotas = resource_quota.charged(dataclasses.replace(claim, quotas=holding), number)
    return _raise_to(claims[0], hard) if hard else None


def _raise_to(created: AdmissionRequest, raised: Mapping[str, dict[str, str]]) -> Way:
    found = {q.metadata.name: q for q in created.cluster.in_namespace("resource_quotas", created.namespace)}
    changes = tuple(AroundPod(found[name], _raised(found[name], hard)) for name, hard in raised.items())
    listed = (f"ResourceQuota {name} to {_listed(hard)}" for name, hard in raised.items())
    return Way(StepKind.RAISE_RESOURCE_QUOTA, f"raise {' and '.join(listed)}", objects=changes)


def _raised(quota: ResourceQuota, hard: dict[str, str]) -> ResourceQuota:
    return replace(quota, spec=replace(quota.spec, hard={**quota.spec.hard, **dict(sorted(hard.items()))}))


def _listed(hard: dict[str, str]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(hard.items()))


def _say(said: Sequence[str], spec: Writable) -> None:
    """A little of what the containers do not say; as much as they request, or are limited to, where they say that."""
    for name in (message.partition(" ")[0] for message in said):
        part, _, resource = name.rpartition(".")
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container.setdefault("resources", {})
            other = "limits" if part != "limits" else "requests"
            amount = (resources.get(other) or {}).get(resource, LITTLE[resource])
            resources.setdefault(part or "requests", {}).setdefault(resource, amount)


def _is_guessed(way: Way) -> bool:
    """Whether nobody knows the amounts that it sets."""
    return isinstance(way.edit, partial) and way.edit.func is _say


# -- scheduling ------------------------------------------------------------------------------------------------------


def _scheduled(scheduler: Scheduler, created: AdmissionRequest) -> tuple[tuple[str, ...], str]:
    """The nodes on which one of the pods fits once it is created, or what kube-scheduler says; of no node nothing."""
    view = scheduler.view
    if not len(view.nodes):
        return (), ""
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": created.obj["metadata"], "spec": created.spec}
    pod: Any = convert(document)
    pod = view.admitted(view.stored(pod))
    framework = scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        return (), f'no profile serves scheduler name "{pod.spec.scheduler_name}"'
    cycle = scheduler.cycle(framework.unasked(), pod)
    return (tuple(cycle.passed.names), "") if cycle.schedulable else ((), cycle.error or fit_error(cycle))
