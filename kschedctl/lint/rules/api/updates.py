"""The rule about changes to immutable fields of objects that exist in the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.field_errors import FieldError, ValidationErrors, deduplicate_errors, forbidden
from kschedctl.api.json_values import JsonObject, drop_nulls, field_at, object_at
from kschedctl.api.labels import Selector
from kschedctl.api.ownership import TEMPLATE_HASH, Owner, find_controller
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.api.validation import around_pods, manifests, updates, written
from kschedctl.cluster import Cluster
from kschedctl.lint.context import LintContext, N
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import compile_selector
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.lint.rules.api.creation import is_user_authored

VALIDATED_STRUCTS = {**manifests.KINDS, **around_pods.KINDS}
SELECTOR_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
HOOK_ANNOTATIONS = ("helm.sh/hook", "argocd.argoproj.io/hook")
"""Annotations of objects that are deleted and recreated instead of updated."""


def find_immutable_field_changes(context: LintContext) -> Iterator[Problem]:
    """Find changes to immutable fields, which the API server would reject when the manifests are applied.

    Helm hooks and manifests that cannot be decoded are skipped. Nothing is yielded without a cluster, or if the
    manifests themselves describe the cluster.
    """
    if context.cluster is None or context.is_self_described:
        return
    deployed = _DeployedObjects(context)
    for subject in context.subjects:
        if subject.kind not in VALIDATED_STRUCTS or not is_user_authored(subject) or _is_hook(subject):
            continue
        try:
            manifest = convert_builtins(drop_nulls(subject.document), VALIDATED_STRUCTS[subject.kind])
        except msgspec.ValidationError:
            continue
        for error in _keep_first_error_per_field(_iter_update_errors(subject, manifest, deployed)):
            yield subject.build_problem(error.field, str(error))


API_IMMUTABLE = Rule(
    "api-immutable",
    ERROR,
    find_immutable_field_changes,
    summary="A change to an immutable field of an existing object",
    why="kubectl apply and helm upgrade fail. The rule compares classes, claims, the selectors of workloads, and the "
    "volumeClaimTemplates of StatefulSets.",
    fix="Keep the current value, or recreate the object",
    source="Validate…Update in pkg/apis/{apps,batch,core,scheduling,storage}/validation/validation.go (v1.36)",
    needs_cluster=True,
)


def _iter_update_errors(subject: Subject, manifest: api.Struct, deployed: _DeployedObjects) -> ValidationErrors:
    """Yield the errors of updating the deployed object to the manifest.

    Yields nothing if the cluster has no object of this kind and name.
    """
    owner = Owner(subject.kind, subject.namespace or "default", subject.name)
    match manifest:
        case api.PriorityClass():
            priority_class = deployed.priority_classes.get(("", owner.name))
            if priority_class is not None:
                yield from updates.validate_priority_class_update(manifest, priority_class)
        case api.StorageClass():
            storage_class = deployed.storage_classes.get(("", owner.name))
            if storage_class is not None:
                yield from updates.validate_storage_class_update(manifest, storage_class)
        case api.PersistentVolumeClaim():
            claim = deployed.claims.get((owner.namespace, owner.name))
            if claim is not None:
                yield from updates.validate_claim_update(manifest.spec, claim.spec)
        case written.Workload():
            spec = drop_nulls(object_at(subject.document, "spec"))
            yield from _iter_workload_update_errors(owner, manifest, spec, deployed)


def _iter_workload_update_errors(
    owner: Owner, manifest: written.Workload, spec: JsonObject, deployed: _DeployedObjects
) -> ValidationErrors:
    """Yield the errors of changing a workload's selector, claim templates or other immutable fields.

    ``spec`` is the spec as the manifest has it, before it is converted to a struct.
    """
    old_spec = field_at(deployed.documents.get(owner), "spec")
    if owner.kind == "Job" and isinstance(old_spec, Mapping):
        yield from updates.validate_job_update(spec, old_spec)
    elif owner.kind in SELECTOR_KINDS and manifest.spec.selector is not None:
        yield from deployed.validate_selector(owner, manifest.spec.selector)
    if owner.kind == "StatefulSet":
        yield from deployed.validate_claim_templates(owner, manifest.spec.volume_claim_templates)
        if isinstance(old_spec, Mapping):
            yield from updates.validate_stateful_set_update(spec, old_spec)


@dataclass(frozen=True)
class _DeployedObjects:
    """The objects, pods and stored manifests of the cluster that manifests are compared with."""

    context: LintContext

    @property
    def documents(self) -> Mapping[Owner, JsonObject]:
        """The manifests of the cluster's workloads in its files."""
        return self.context.stored_manifests

    @property
    def cluster(self) -> Cluster:
        """The cluster that the manifests are applied to."""
        assert self.context.cluster is not None
        return self.context.cluster

    @cached_property
    def priority_classes(self) -> dict[tuple[str, str], api.PriorityClass]:
        """The PriorityClasses by namespace, which is "", and name."""
        return _index_by_name(self.cluster.priority_classes)

    @cached_property
    def storage_classes(self) -> dict[tuple[str, str], api.StorageClass]:
        """The StorageClasses by namespace, which is "", and name."""
        return _index_by_name(self.cluster.storage_classes)

    @cached_property
    def claims(self) -> dict[tuple[str, str], api.PersistentVolumeClaim]:
        """The PersistentVolumeClaims by namespace and name."""
        return _index_by_name(self.cluster.persistent_volume_claims)

    @cached_property
    def stateful_sets(self) -> dict[tuple[str, str], api.StoredWorkload]:
        """The StatefulSets by namespace and name."""
        return _index_by_name(self.cluster.stateful_sets)

    def validate_selector(self, owner: Owner, selector: api.LabelSelector) -> ValidationErrors:
        """Yield an error if a workload's selector differs from the deployed selector.

        If the deployed selector is unknown, the new one has to match all pods of the workload.
        """
        deployed_selector = self._deployed_selectors.get(owner)
        if deployed_selector is not None and owner.kind == "StatefulSet":
            yield from updates.validate_stateful_set_selector_update(selector, deployed_selector)
        elif deployed_selector is not None:
            yield from updates.validate_selector_update(selector, deployed_selector)
        elif compiled_selector := compile_selector(selector):
            pods = self.context.facts.pods_by_owner.get(owner, ())
            if not all(compiled_selector.matches(pod.metadata.labels) for pod in pods):
                yield updates.build_selector_error(selector)

    def validate_claim_templates(
        self, owner: Owner, templates: tuple[api.PersistentVolumeClaim, ...]
    ) -> ValidationErrors:
        """Yield errors if the pods or claims of a StatefulSet were created from claim templates other than these.

        The names of the templates are compared with the volumes of the first pod, and each template with the claims of
        all pods.
        """
        path = ("spec", "volumeClaimTemplates")
        error = forbidden(("spec",), updates.STATEFUL_SET_RULE)

        # All pods have the same volumes, so the first one tells the names of the deployed templates.
        template_names = {template.metadata.name for template in templates}
        for pod in self.context.facts.pods_by_owner.get(owner, ())[:1]:
            claim_names = {
                v.name: v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim
            }
            deployed_names = {
                name for name, claim_name in claim_names.items() if claim_name == f"{name}-{pod.metadata.name}"
            }
            # If the pod has claims, but none is named after a template, its claims prove nothing.
            are_names_known = bool(deployed_names) or not claim_names
            if are_names_known and deployed_names != template_names:
                yield error.located_at(path)

        for i, template in enumerate(templates):
            for claim in self._iter_template_claims(owner, template.metadata.name):
                if _contradicts_claim_template(template.spec, claim.spec):
                    yield error.located_at((*path, i))

    def _iter_template_claims(self, owner: Owner, template_name: str) -> Iterator[api.PersistentVolumeClaim]:
        """Yield the claims of a StatefulSet's pods that were created from a claim template.

        Claims that are older than the StatefulSet are left out: they may come from an earlier StatefulSet of the same
        name.
        """
        stateful_set = self.stateful_sets.get((owner.namespace, owner.name))
        if stateful_set is None or not stateful_set.metadata.creation_timestamp:
            return
        for pod in self.context.facts.pods_by_owner.get(owner, ()):
            claim = self.claims.get((owner.namespace, f"{template_name}-{pod.metadata.name}"))
            if claim is None:
                continue
            if (claim.metadata.creation_timestamp or "") >= stateful_set.metadata.creation_timestamp:
                yield claim

    @cached_property
    def _deployed_selectors(self) -> dict[Owner, Selector]:
        """The selectors of the deployed workloads, by owner. Selectors in the cluster's files take precedence.

        A Deployment gets the selector of its ReplicaSets without pod-template-hash.
        """
        selectors: dict[Owner, Selector] = {}
        stored_workloads = [("ReplicaSet", stored) for stored in self.cluster.replica_sets]
        stored_workloads += [("StatefulSet", stored) for stored in self.cluster.stateful_sets]
        for kind, stored in stored_workloads:
            metadata, selector = stored.metadata, compile_selector(stored.spec.selector)
            if selector is None or stored.spec.selector is None:
                continue
            selectors[Owner(kind, metadata.namespace, metadata.name)] = selector
            controller = find_controller(metadata)
            if controller is not None and controller.kind == "Deployment":
                without_hash = tuple(
                    requirement for requirement in selector.requirements if requirement.key != TEMPLATE_HASH
                )
                selectors[Owner("Deployment", metadata.namespace, controller.name)] = Selector(without_hash)
        return selectors | self._manifest_selectors_by_owner

    @property
    def _manifest_selectors_by_owner(self) -> dict[Owner, Selector]:
        """The selectors of the cluster's workloads that are known from their manifests as written.

        These manifests are in the files that the cluster was read from. Only kinds in SELECTOR_KINDS are included.
        Invalid manifests, and selectors that are missing or invalid, are left out.
        """
        selectors = {}
        for owner, document in self.documents.items():
            if owner.kind not in SELECTOR_KINDS:
                continue
            try:
                workload = convert_builtins(drop_nulls(document), written.Workload)
            except msgspec.ValidationError:
                continue
            if workload.spec.selector is None:
                continue
            selector = compile_selector(workload.spec.selector)
            if selector is not None:  # it is None if it is invalid
                selectors[owner] = selector
        return selectors


def _index_by_name(objects: Iterable[N]) -> dict[tuple[str, str], N]:
    """Return the objects by namespace and name."""
    return {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}


def _contradicts_claim_template(template: api.PersistentVolumeClaimSpec, claim: api.PersistentVolumeClaimSpec) -> bool:
    """Return whether a claim cannot have been created from the template.

    A claim that is larger than the template may have been enlarged since. Invalid sizes prove nothing.
    """
    if next(updates.validate_claim_update(template, claim), None) is not None:
        return True
    try:
        template_size = parse_quantity(template.resources.requests.get("storage", 0))
        claim_size = parse_quantity(claim.resources.requests.get("storage", 0))
    except QuantityError:
        return False
    return template_size.cmp(claim_size) > 0


def _keep_first_error_per_field(errors: ValidationErrors) -> Iterator[FieldError]:
    """Yield the first error of each field and drop the others."""
    fields = set()
    for error in deduplicate_errors(errors):
        if error.field not in fields:
            fields.add(error.field)
            yield error


def _is_hook(subject: Subject) -> bool:
    """Return whether the object is a hook of Helm or Argo CD."""
    annotations = object_at(subject.document, "metadata", "annotations")
    return any(name in annotations for name in HOOK_ANNOTATIONS)
