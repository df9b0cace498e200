"""What the API server does not let change of objects that the cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.field_errors import FieldError, ValidationErrors, deduplicate, forbidden
from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.labels import Selector
from kschedctl.api.ownership import TEMPLATE_HASH, Owner, find_controller
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.api.validation import around_pods, manifests, updates, written
from kschedctl.cluster import Cluster, without_nulls
from kschedctl.lint.framework.context import LintContext, N
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import compiled
from kschedctl.lint.rules.api.creation import is_user_authored

STRUCTS = {**manifests.KINDS, **around_pods.KINDS}
SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
HOOKS = ("helm.sh/hook", "argocd.argoproj.io/hook")
"""Annotations of what is deleted before it is made anew."""


def changed(context: LintContext) -> Iterator[Problem]:
    deployed = _Deployed(context)
    for subject in context.subjects if context.cluster is not None and not context.own else ():
        if subject.kind not in STRUCTS or not is_user_authored(subject) or _is_hook(subject):
            continue
        try:
            new = convert_builtins(without_nulls(subject.document), STRUCTS[subject.kind])
        except msgspec.ValidationError:
            continue
        for fault in _first_of_each_field(_faults(subject, new, deployed)):
            yield subject.problem(fault.field, str(fault))


API_IMMUTABLE = Rule(
    "api-immutable",
    ERROR,
    changed,
    summary="A change to an immutable field of an existing object",
    why="kubectl apply and helm upgrade fail. Compared with what is known of the cluster: its classes and claims, "
    "the selectors of its workloads, the claims of its StatefulSets, and what its files hold.",
    fix="Keep the current value, or recreate the object",
    source="Validate…Update in pkg/apis/{apps,batch,core,scheduling,storage}/validation/validation.go (v1.36)",
    needs_cluster=True,
)


def _faults(subject: Subject, new: api.Struct, deployed: _Deployed) -> ValidationErrors:
    owner = Owner(subject.kind, subject.namespace or "default", subject.name)
    if isinstance(new, api.PriorityClass) and (priority_class := deployed.priority_classes.get(("", owner.name))):
        yield from updates.validate_priority_class_update(new, priority_class)
    elif isinstance(new, api.StorageClass) and (storage_class := deployed.storage_classes.get(("", owner.name))):
        yield from updates.validate_storage_class_update(new, storage_class)
    elif isinstance(new, api.PersistentVolumeClaim) and (claim := deployed.claims.get(owner[1:])):
        yield from updates.validate_claim_update(new.spec, claim.spec)
    elif isinstance(new, written.Workload):
        yield from _workload_faults(owner, new, without_nulls(object_at(subject.document, "spec")), deployed)


def _workload_faults(owner: Owner, new: written.Workload, spec: JsonObject, deployed: _Deployed) -> ValidationErrors:
    old = field_at(deployed.documents.get(owner), "spec")
    if owner.kind == "Job" and isinstance(old, Mapping):
        yield from updates.validate_job_update(spec, old)
    elif owner.kind in SELECTING and new.spec.selector is not None:
        yield from deployed.selected_otherwise(owner, new.spec.selector)
    if owner.kind == "StatefulSet":
        yield from deployed.claimed_otherwise(owner, new.spec.volume_claim_templates)
        if isinstance(old, Mapping):
            yield from updates.validate_stateful_set_update(spec, old)


@dataclass(frozen=True)
class _Deployed:
    """What the cluster has of what is to be applied: its objects, its pods, and manifests that its files hold."""

    context: LintContext

    @property
    def documents(self) -> Mapping[Owner, JsonObject]:
        return self.context.stored

    @property
    def cluster(self) -> Cluster:
        assert self.context.cluster is not None
        return self.context.cluster

    @cached_property
    def priority_classes(self) -> dict[tuple[str, str], api.PriorityClass]:
        return _by_name(self.cluster.priority_classes)

    @cached_property
    def storage_classes(self) -> dict[tuple[str, str], api.StorageClass]:
        return _by_name(self.cluster.storage_classes)

    @cached_property
    def claims(self) -> dict[tuple[str, str], api.PersistentVolumeClaim]:
        return _by_name(self.cluster.persistent_volume_claims)

    @cached_property
    def stateful_sets(self) -> dict[tuple[str, str], api.StoredWorkload]:
        return _by_name(self.cluster.stateful_sets)

    def selected_otherwise(self, owner: Owner, new: api.LabelSelector) -> ValidationErrors:
        """A selector that is not what it was, or that pods do not match which were made by the one that is there."""
        check = (
            updates.validate_stateful_set_selector_update
            if owner.kind == "StatefulSet"
            else updates.validate_selector_update
        )
        old, wanted = self._selectors.get(owner), compiled(new)
        if old is not None:
            yield from check(new, old)
        elif wanted and any(
            not wanted.matches(pod.metadata.labels) for pod in self.context.facts.owners.get(owner, ())
        ):
            yield updates.immutable_selector(new)

    def claimed_otherwise(self, owner: Owner, templates: tuple[api.PersistentVolumeClaim, ...]) -> ValidationErrors:
        """Templates of claims that the pods do not have, or that the claims were not made of."""
        at = ("spec", "volumeClaimTemplates")
        names = {template.metadata.name for template in templates}
        for pod in self.context.facts.owners.get(owner, ())[:1]:
            claims = {
                v.name: v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim
            }
            own = {name for name, claim in claims.items() if claim == f"{name}-{pod.metadata.name}"}
            if own != names and (own or not claims):
                yield forbidden(("spec",), updates.STATEFUL_SET)._replace(at=at)
        for i, template in enumerate(templates):
            for claim in self._claims_of(owner, template.metadata.name):
                if _is_other(template.spec, claim.spec):
                    yield forbidden(("spec",), updates.STATEFUL_SET)._replace(at=(*at, i))

    def _claims_of(self, owner: Owner, template: str) -> Iterator[api.PersistentVolumeClaim]:
        """The claims made since the StatefulSet is there: of its template, which cannot have changed."""
        stateful_set = self.stateful_sets.get(owner[1:])
        since = (stateful_set.metadata.creation_timestamp or "") if stateful_set else ""
        for pod in self.context.facts.owners.get(owner, ()) if since else ():
            claim = self.claims.get((owner.namespace, f"{template}-{pod.metadata.name}"))
            if claim is not None and (claim.metadata.creation_timestamp or "") >= since:
                yield claim

    @cached_property
    def _selectors(self) -> dict[Owner, Selector]:
        """The selectors of workloads; that of a Deployment is its ReplicaSets', less what it adds to them."""
        selectors: dict[Owner, Selector] = {}
        sets = [("ReplicaSet", stored) for stored in self.cluster.replica_sets]
        sets += [("StatefulSet", stored) for stored in self.cluster.stateful_sets]
        for kind, stored in sets:
            metadata, selector = stored.metadata, compiled(stored.spec.selector)
            if selector is None or stored.spec.selector is None:
                continue
            selectors[Owner(kind, metadata.namespace, metadata.name)] = selector
            controller = find_controller(metadata)
            if controller is not None and controller.kind == "Deployment":
                kept = tuple(r for r in selector.requirements if r.key != TEMPLATE_HASH)
                selectors[Owner("Deployment", metadata.namespace, controller.name)] = Selector(kept)
        return selectors | self._written_selectors

    @property
    def _written_selectors(self) -> dict[Owner, Selector]:
        selectors = {}
        for owner, document in self.documents.items():
            try:
                typed = convert_builtins(without_nulls(document), written.Workload)
            except msgspec.ValidationError:
                continue
            selector = compiled(typed.spec.selector)
            if owner.kind in SELECTING and selector is not None and typed.spec.selector is not None:
                selectors[owner] = selector
        return selectors


def _by_name(objects: Iterable[N]) -> dict[tuple[str, str], N]:
    return {(known.metadata.namespace, known.metadata.name): known for known in objects}


def _is_other(template: api.PersistentVolumeClaimSpec, claim: api.PersistentVolumeClaimSpec) -> bool:
    """Whether a claim cannot have been made of the template; it may have grown since."""
    if next(updates.validate_claim_update(template, claim), None) is not None:
        return True
    try:
        asked, held = (parse(spec.resources.requests.get("storage", 0)) for spec in (template, claim))
    except QuantityError:
        return False
    return asked.cmp(held) > 0


def _first_of_each_field(faults: ValidationErrors) -> Iterator[FieldError]:
    fields = set()
    for fault in deduplicate(faults):
        if fault.field not in fields:
            fields.add(fault.field)
            yield fault


def _is_hook(subject: Subject) -> bool:
    annotations = object_at(subject.document, "metadata", "annotations")
    return any(name in annotations for name in HOOKS)
