"""Reasons for which the API server does not create manifests of pods and of objects that create pods.

Besides validation, these are the admission plugins NamespaceLifecycle and, for bare pods, RuntimeClass. PriorityClasses
are in `kschedctl.api.priority`, and denials of pods that controllers create are in
`kschedctl.replay.controllers.admissions`. Upstream:
staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go and
plugin/pkg/admission/runtimeclass/admission.go (v1.36); the first words are kubectl's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kschedctl.admission.not_replayed import is_missing_namespace
from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.field_errors import Path
from kschedctl.api.json_values import JsonObject, drop_nulls
from kschedctl.api.objects import Resources, Struct
from kschedctl.api.ownership import ADDED_LABELS
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import ValidationOptions, around_pods, written
from kschedctl.api.validation.manifests import KINDS, iter_pod_templates, validate_manifest
from kschedctl.api.workloads import get_identity
from kschedctl.cluster import Cluster, describe_document
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.version_fields import build_validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates


class Denial(NamedTuple):
    """The reason why an object is not created, and the field that causes it."""

    message: str
    path: Path
    hint: str = ""


def raise_if_denied(manifest: JsonObject, cluster: Cluster, *, admission: bool = True) -> None:
    """Raise InputError if the API server would not create the manifest's object.

    The attribute ``also`` of the error has further errors. Without ``admission``, only validation is checked.
    """
    kind = str(manifest["kind"])
    where = describe_document(manifest)
    creates_pods = kind in KINDS
    struct = KINDS[kind] if creates_pods else around_pods.KINDS[kind]
    try:
        obj = convert_builtins(drop_nulls(manifest), struct)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where) from None
    if creates_pods:
        denials = find_creation_denials(manifest, obj, cluster, admission=admission)
    else:
        denials = find_validation_errors(manifest, obj)
    raise_errors([InputError(denial.message, where=where, hint=denial.hint) for denial in denials])


def raise_if_struct_denied(obj: Struct, cluster: Cluster, *, admission: bool = True) -> None:
    """Raise InputError if the API server would not create a typed workload.

    Fields that the struct lacks are assumed to be valid. Without ``admission``, only validation is checked.
    """
    # Manifests are validated as structs with more fields, so convert the object to a manifest and to such a struct.
    document = {"kind": get_identity(obj).kind, **msgspec.to_builtins(obj)}
    manifest_struct = convert_builtins(drop_nulls(document), KINDS[document["kind"]])
    denials = find_creation_denials(document, manifest_struct, cluster, admission=admission)
    raise_errors(
        [
            InputError(denial.message, where=describe_document(document), hint=denial.hint)
            for denial in denials
            if _has_all_fields_of_path(obj, denial.path)
        ]
    )


def _has_all_fields_of_path(value: object, path: Path) -> bool:
    """Return whether the structs along the path have all fields that it names.

    The check ends at the first value that is neither a struct nor a tuple with the item. The rest of the path is then
    assumed to exist.
    """
    for step in path:
        if isinstance(value, Struct):
            names = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
            if step not in names:
                return False
            value = getattr(value, names[str(step)])
        elif isinstance(value, tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return True
    return True


def raise_errors(input_errors: list[InputError]) -> None:
    """Raise the first error with the others in its ``also``, or do nothing if there are no errors."""
    if input_errors:
        first, *further_errors = input_errors
        first.also = tuple(further_errors)
        raise first


def find_creation_denials(
    manifest: JsonObject, obj: Struct, cluster: Cluster, namespace: str = "", *, admission: bool = True
) -> list[Denial]:
    """Return the reasons, in the API server's words, why it would not create the manifest's object.

    ``obj`` is the manifest as a struct of `kschedctl.api.validation.manifests.KINDS`. ``namespace`` is used if the
    manifest names none. Without ``admission``, only validation is checked, for callers that replay admission
    themselves.
    """
    kind = str(manifest["kind"])
    metadata = obj.metadata  # type: ignore[attr-defined]
    full_namespace = metadata.namespace or namespace or DEFAULT_NAMESPACE
    namespace_denial = _build_namespace_denial(full_namespace, cluster) if admission else None
    denials = [namespace_denial] if namespace_denial else []
    field_errors = validate_manifest(kind, obj, _build_validation_options(cluster))
    name = metadata.name or metadata.generate_name
    denials += [Denial(f'The {kind} "{name}" is invalid: {error}', error.field) for error in field_errors]
    if admission or kind != "Pod":
        for template, path in iter_pod_templates(kind, obj):
            denials += _iter_template_denials(template, path, obj, kind, cluster, is_valid=not field_errors)
    return denials


def find_validation_errors(manifest: JsonObject, obj: Struct) -> list[Denial]:
    """Return the validation errors of a manifest that creates no pods.

    ``obj`` is the manifest as a struct of `kschedctl.api.validation.around_pods.KINDS`.
    """
    kind = str(manifest["kind"])
    metadata = obj.metadata  # type: ignore[attr-defined]
    name = metadata.name or metadata.generate_name
    field_errors = around_pods.validate_object(kind, obj)
    return [Denial(f'The {kind} "{name}" is invalid: {error}', error.field) for error in field_errors]


def _build_validation_options(cluster: Cluster) -> ValidationOptions:
    """Build the validation options for the cluster's version and feature gates."""
    return build_validation_options(FeatureGates(cluster.kube_version, cluster.feature_gates))


def _build_namespace_denial(name: str, cluster: Cluster) -> Denial | None:
    """Build the denial of an object whose namespace does not exist, or return None if the namespace exists."""
    if not is_missing_namespace(cluster, name):
        return None
    hint = "add a manifest for the namespace, or use another namespace"
    return Denial(f'namespaces "{name}" not found', ("metadata", "namespace"), hint)


def _iter_template_denials(
    template: written.Template, path: Path, obj: Struct, kind: str, cluster: Cluster, *, is_valid: bool
) -> Iterator[Denial]:
    """Yield the denials of a template's pods: by admission for bare pods, or by validation for pods of workloads.

    The pods of an invalid workload are not checked.
    """
    meta = obj.metadata  # type: ignore[attr-defined]
    if kind == "Pod":
        for field, reason in _iter_runtime_class_denials(template.spec, cluster):
            yield Denial(f'pods "{meta.name or meta.generate_name}" is forbidden: {reason}', (*path, "spec", field))
    elif is_valid:
        name = f"{meta.name or meta.generate_name}-"
        prefix = f'The {kind} "{meta.name}" is accepted, but not its pods: '
        controller_labels = dict.fromkeys(ADDED_LABELS.get(kind, ()), "0")  # any valid value will do
        labels = {**template.metadata.labels, **controller_labels}
        pod = written.Pod(api.ObjectMeta(generate_name=name, labels=labels), template.spec)
        for error in validate_manifest("Pod", pod, _build_validation_options(cluster)):
            yield Denial(f'{prefix}Pod "{name}" is invalid: {error}', (*path, *error.field))


def _iter_runtime_class_denials(spec: written.PodSpec, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the fields that the admission plugin RuntimeClass rejects, each with its message.

    If RuntimeClasses were not read, a class that is not among them is not rejected.
    """
    name = spec.runtime_class_name
    runtime_class = next((candidate for candidate in cluster.runtime_classes if candidate.metadata.name == name), None)
    if name is not None and runtime_class is None:
        if _was_kind_read(cluster, "RuntimeClass"):
            yield "runtimeClassName", f'pod rejected: RuntimeClass "{name}" not found'
        return

    # The pod's overhead must be that of its class
    class_overhead = runtime_class.overhead.pod_fixed if runtime_class and runtime_class.overhead else None
    if class_overhead is None and spec.overhead:
        yield "overhead", "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    elif class_overhead is not None and spec.overhead and not _is_equal_overhead(class_overhead, spec.overhead):
        yield "overhead", "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

    # The pod's node selector must not contradict its class
    selector = runtime_class.scheduling.node_selector if runtime_class and runtime_class.scheduling else {}
    for key, value in sorted(selector.items()):
        if spec.node_selector.get(key, value) != value:
            pod_value = f"pod.spec.nodeSelector[{key}] = {spec.node_selector[key]}"
            yield "nodeSelector", f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; {pod_value}"


def _is_equal_overhead(class_overhead: Resources, overhead: Resources) -> bool:
    """Return whether the overheads are equal. Invalid quantities count as equal, since they are reported elsewhere."""
    try:
        return parse_quantities(class_overhead) == parse_quantities(overhead)
    except QuantityError:
        return True


def _was_kind_read(cluster: Cluster, kind: str) -> bool:
    """Return whether all objects of the kind were read."""
    return cluster.find_gap(kind) is None
