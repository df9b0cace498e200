"""TODO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kschedctl.admission.unknown import is_missing
from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.field_errors import Path
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Resources, Struct
from kschedctl.api.ownership import ADDED_LABELS
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import around_pods, written
from kschedctl.api.validation.manifests import KINDS, iter_pod_templates, validate_manifest
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.api.workloads import identity
from kschedctl.cluster import Cluster, describe, without_nulls
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.validation_options import validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates


class Denial(NamedTuple):
    """Why an object is not created, and the field that is to blame."""

    message: str
    path: Path
    hint: str = ""


def refuse(manifest: JsonObject, cluster: Cluster, *, admission: bool = True) -> None:
    """Raises InputError where the API server would not create what the manifest describes; ``also`` has the rest.

    ``admission``: as of ``refusals``.
    """
    kind, where = str(manifest["kind"]), describe(manifest)
    try:
        obj = convert_builtins(without_nulls(manifest), {**KINDS, **around_pods.KINDS}[kind])
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where) from None
    wrong = refusals(manifest, obj, cluster, admission=admission) if kind in KINDS else invalid_around(manifest, obj)
    raise_all([InputError(denial.message, where=where, hint=denial.hint) for denial in wrong])


def refuse_struct(obj: Struct, cluster: Cluster, *, admission: bool = True) -> None:
    """Raises InputError where the API server would not create a workload that is typed already.

    What its struct does not hold is taken for right. ``admission``: as of ``refusals``.
    """
    document = {"kind": identity(obj).kind, **msgspec.to_builtins(obj)}
    written_out = convert_builtins(without_nulls(document), KINDS[document["kind"]])
    wrong = refusals(document, written_out, cluster, admission=admission)
    raise_all([InputError(w.message, where=describe(document), hint=w.hint) for w in wrong if _holds(obj, w.path)])


def _holds(value: object, path: Path) -> bool:
    """Whether the structs have all fields of the path."""
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


def raise_all(input_errors: list[InputError]) -> None:
    """Raises the first of the errors, if there is one, which tells of the others."""
    if input_errors:
        input_errors[0].also = tuple(input_errors[1:])
        raise input_errors[0]


def refusals(
    manifest: JsonObject, obj: Struct, cluster: Cluster, namespace: str = "", *, admission: bool = True
) -> list[Denial]:
    """Why the API server would not create what the manifest describes, in its words; empty where it would.

    ``obj``: the manifest as a struct of kschedctl.api.validation.manifests.KINDS; ``namespace``: where it goes if it
    names none; without ``admission`` by validation alone, where admission is replayed by itself.
    """
    kind, meta = str(manifest["kind"]), obj.metadata  # type: ignore[attr-defined]
    goes_to = meta.namespace or namespace or DEFAULT_NAMESPACE
    wrong = [*_missing_namespace(goes_to, cluster)] if admission else []
    faults = validate_manifest(kind, obj, _options(cluster))
    wrong += [Denial(f'The {kind} "{meta.name or meta.generate_name}" is invalid: {e}', e.field) for e in faults]
    for template, path in iter_pod_templates(kind, obj) if admission or kind != "Pod" else ():
        wrong += _of_pod(template, path, obj, kind, cluster, faultless=not faults)
    return wrong


def invalid_around(manifest: JsonObject, obj: Struct) -> list[Denial]:
    """Why the API refuses a manifest that makes no pods; ``obj``: it as a struct of validation.around_pods.KINDS."""
    kind, meta = str(manifest["kind"]), obj.metadata  # type: ignore[attr-defined]
    faults = around_pods.validate_object(kind, obj)
    return [Denial(f'The {kind} "{meta.name or meta.generate_name}" is invalid: {e}', e.field) for e in faults]


def _options(cluster: Cluster) -> ValidationOptions:
    return validation_options(FeatureGates(cluster.kube_version, cluster.feature_gates))


def _missing_namespace(name: str, cluster: Cluster) -> Iterator[Denial]:
    if is_missing(cluster, name):
        hint = "add a manifest of it, or apply it to another"
        yield Denial(f'namespaces "{name}" not found', ("metadata", "namespace"), hint)


def _of_pod(
    template: written.Template, path: Path, obj: Struct, kind: str, cluster: Cluster, *, faultless: bool
) -> Iterator[Denial]:
    """What is said when the pods are created, by admission and, of those of a template that passes, by validation."""
    meta = obj.metadata  # type: ignore[attr-defined]
    if kind == "Pod":
        for field, why in _runtime_class(template.spec, cluster):
            yield Denial(f'pods "{meta.name or meta.generate_name}" is forbidden: {why}', (*path, "spec", field))
    elif faultless:
        name, so = f"{meta.name or meta.generate_name}-", f'The {kind} "{meta.name}" is accepted, but not its pods: '
        labels = {**template.metadata.labels, **dict.fromkeys(ADDED_LABELS.get(kind, ()), "0")}
        made = written.Pod(api.ObjectMeta(generate_name=name, labels=labels), template.spec)
        for error in validate_manifest("Pod", made, _options(cluster)):
            yield Denial(f'{so}Pod "{name}" is invalid: {error}', (*path, *error.field))


def _runtime_class(spec: written.PodSpec, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """(field, what the admission plugin RuntimeClass says)."""
    name = spec.runtime_class_name
    class_ = next((c for c in cluster.runtime_classes if c.metadata.name == name), None)
    if name is not None and class_ is None:
        if _covers(cluster, "RuntimeClass"):
            yield "runtimeClassName", f'pod rejected: RuntimeClass "{name}" not found'
        return
    fixed = class_.overhead.pod_fixed if class_ and class_.overhead else None
    if fixed is None and spec.overhead:
        yield "overhead", "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    elif fixed is not None and spec.overhead and not _equal(fixed, spec.overhead):
        yield "overhead", "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    selector = class_.scheduling.node_selector if class_ and class_.scheduling else {}
    for key, value in sorted(selector.items()):
        if spec.node_selector.get(key, value) != value:
            ours = f"pod.spec.nodeSelector[{key}] = {spec.node_selector[key]}"
            yield "nodeSelector", f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; {ours}"


def _equal(fixed: Resources, overhead: Resources) -> bool:
    try:
        return parse_quantities(fixed) == parse_quantities(overhead)
    except QuantityError:
        return True  # whoever reads them says so


def _covers(cluster: Cluster, kind: str) -> bool:
    """Whether an object of the kind that is not in the cluster does not exist."""
    return cluster.gap(kind) is None
