"""What the API server does not let change of objects that the cluster has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.decoding import from_builtins
from kschedctl.api.field_errors import FieldError, Found, each_once, forbidden
from kschedctl.api.labels import Selector
from kschedctl.api.ownership import TEMPLATE_HASH, Owner, controller_of
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.api.validation import around_pods, manifests, updates, written
from kschedctl.cluster import FIELDS, without_nulls
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import compiled
from kschedctl.lint.rules.api.creation import is_written

STRUCTS = {**manifests.KINDS, **around_pods.KINDS}
SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
HOOKS = ("helm.sh/hook", "argocd.argoproj.io/hook")
"""Annotations of what is deleted before it is made anew."""


def changed(context: LintContext) -> Iterator[Problem]:
    there = There(context)
    for subject in context.subjects if context.cluster is not None and not context.own else ():
        if subject.kind not in STRUCTS or not is_written(subject) or _is_hook(subject):
            continue
        try:
            found = from_builtins(without_nulls(subject.document), STRUCTS[subject.kind])
        except msgspec.ValidationError:
            continue
        for fault in _one_a_field(_faults(subject, found, there)):
            yield subject.problem(fault.field, str(fault))


def _faults(subject: Subject, found: Any, there: There) -> Found:
    key = Owner(subject.kind, subject.namespace or "default", subject.name)
    document = there.documents.get(key)
    new = without_nulls(subject.document).get("spec") or {}
    old = document.get("spec") if document else None
    match subject.kind:
        case "PriorityClass" | "StorageClass" | "PersistentVolumeClaim" as kind:
            yield from there.changed(kind, key, found)
        case "Job" if isinstance(old, Mapping):
            yield from updates.job(new, old)
        case kind if kind in SELECTING and found.spec.selector is not None:
            yield from there.selected_otherwise(key, found.spec.selector)
    if subject.kind == "StatefulSet":
        yield from there.claimed_otherwise(key, found.spec.volume_claim_templates)
        if isinstance(old, Mapping):
            yield from updates.stateful_set(new, old)


@dataclass(frozen=True)
class There:
    """What the cluster has of what is to be applied: its objects, its pods, and manifests that its files hold."""

    context: LintContext

    @property
    def documents(self) -> Mapping[Owner, Mapping[str, Any]]:
        return self.context.stored

    def changed(self, kind: str, key: Owner, new: Any) -> Found:
        """Of what makes no pods."""
        scoped = kind == "PersistentVolumeClaim"
        old = self._objects.get((kind, key.namespace if scoped else "", key.name))
        if old is None:
            return
        if kind == "PriorityClass":
            yield from updates.priority_class(new, old)
        elif kind == "StorageClass":
            yield from updates.storage_class(new, old)
        else:
            yield from updates.claim(new.spec, old.spec)

    def selected_otherwise(self, key: Owner, new: api.LabelSelector) -> Found:
        """A selector that is not what it was, or that pods do not match which were made by the one that is there."""
        check = updates.stateful_set_selector if key.kind == "StatefulSet" else updates.selector
        old, mine = self._selectors.get(key), compiled(new)
        if old is not None:
            yield from check(new, old)
        elif mine and any(not mine.matches(pod.metadata.labels) for pod in self.context.facts.owners.get(key, ())):
            yield updates.immutable_selector(new)

    def claimed_otherwise(self, key: Owner, templates: tuple[api.PersistentVolumeClaim, ...]) -> Found:
        """Templates of claims that the pods do not have, or that the claims were not made of."""
        at = ("spec", "volumeClaimTemplates")
        names = {template.metadata.name for template in templates}
        for pod in self.context.facts.owners.get(key, ())[:1]:
            claims = {
                v.name: v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim
            }
            own = {name for name, claim in claims.items() if claim == f"{name}-{pod.metadata.name}"}
            if own != names and (own or not claims):
                yield forbidden(("spec",), updates.STATEFUL_SET)._replace(at=at)
        for i, template in enumerate(templates):
            for claim in self._claims_of(key, template.metadata.name):
                if _is_other(template.spec, claim.spec):
                    yield forbidden(("spec",), updates.STATEFUL_SET)._replace(at=(*at, i))

    def _claims_of(self, key: Owner, template: str) -> Iterator[api.PersistentVolumeClaim]:
        """Those that were made since the StatefulSet is there: of its template, which cannot have changed."""
        made = self._objects.get(tuple(key))
        since: str = (made.metadata.creation_timestamp or "") if made else ""
        for pod in self.context.facts.owners.get(key, ()) if since else ():
            claim = self._objects.get(("PersistentVolumeClaim", key.namespace, f"{template}-{pod.metadata.name}"))
            if claim is not None and (claim.metadata.creation_timestamp or "") >= since:
                yield claim

    @cached_property
    def _objects(self) -> dict[tuple[str, ...], Any]:
        kinds = ("PriorityClass", "StorageClass", "PersistentVolumeClaim", "StatefulSet")
        objects = ((kind, each) for kind in kinds for each in getattr(self.context.cluster, FIELDS[kind]))
        return {(kind, each.metadata.namespace, each.metadata.name): each for kind, each in objects}

    @cached_property
    def _selectors(self) -> dict[Owner, Selector]:
        """Of the workloads that are read; of a Deployment that of its ReplicaSets, less what it adds to them."""
        found: dict[Owner, Selector] = {}
        for kind in ("ReplicaSet", "StatefulSet"):
            for each in getattr(self.context.cluster, FIELDS[kind]):
                selector = compiled(each.spec.selector)
                if selector is None or each.spec.selector is None:
                    continue
                found[Owner(kind, each.metadata.namespace, each.metadata.name)] = selector
                controller = controller_of(each.metadata)
                if controller is not None and controller.kind == "Deployment":
                    kept = tuple(r for r in selector.requirements if r.key != TEMPLATE_HASH)
                    found[Owner("Deployment", each.metadata.namespace, controller.name)] = Selector(kept)
        return found | self._written_selectors

    @property
    def _written_selectors(self) -> dict[Owner, Selector]:
        found = {}
        for key, document in self.documents.items():
            try:
                typed = from_builtins(without_nulls(document), written.Workload)
            except msgspec.ValidationError:
                continue
            selector = compiled(typed.spec.selector)
            if key.kind in SELECTING and selector is not None and typed.spec.selector is not None:
                found[key] = selector
        return found


def _is_other(template: api.PersistentVolumeClaimSpec, claim: api.PersistentVolumeClaimSpec) -> bool:
    """Whether a claim cannot have been made of the template; it may have grown since."""
    if next(updates.claim(template, claim), None) is not None:
        return True
    try:
        asked, held = (parse(each.resources.requests.get("storage", 0)) for each in (template, claim))
    except QuantityError:
        return False
    return asked.cmp(held) > 0


def _one_a_field(faults: Found) -> Iterator[FieldError]:
    said = set()
    for fault in each_once(faults):
        if fault.field not in said:
            said.add(fault.field)
            yield fault


def _is_hook(subject: Subject) -> bool:
    metadata = subject.document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and any(name in annotations for name in HOOKS)


RULES = (
    Rule(
        "api-immutable",
        ERROR,
        changed,
        summary="A field of an object that is there, which the API server does not let change",
        why="kubectl apply and helm upgrade fail. Compared with what is known of the cluster: its classes and claims, "
        "the selectors of its workloads, the claims of its StatefulSets, and what its files hold.",
        fix="Keep what is there, or delete the object before it is made anew",
        source="Validate…Update in pkg/apis/{apps,batch,core,scheduling,storage}/validation/validation.go (v1.36)",
        needs_cluster=True,
    ),
)
