"""Validation of updates: fields of an existing object that the API server does not allow to change.

A field that a manifest leaves out stays as it is, as with kubectl apply, and so does what defaulting or admission
added. Upstream: the functions Validate…Update that are named at each, with registry/…/strategy.go that calls them
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kschedctl.api import objects as api
from kschedctl.api.field_errors import FieldError, Path, ValidationErrors, forbidden, invalid
from kschedctl.api.labels import Selector, SelectorError, selector_from_api
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.api.workloads import USUAL_TEMPLATE_PATH

IMMUTABLE = "field is immutable"
STATEFUL_SET_RULE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
CLAIM_RULE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
SPEC: Path = ("spec",)
AMOUNTS = ("requests", "limits")
Document = Mapping[str, Any]


def validate_priority_class_update(new: api.PriorityClass, old: api.PriorityClass) -> ValidationErrors:
    """Validate the update of a PriorityClass. Upstream: ValidatePriorityClassUpdate."""
    if new.value != old.value:
        yield forbidden(("value",), "may not be changed in an update.")
    default = "PreemptLowerPriority"
    if (new.preemption_policy or default) != (old.preemption_policy or default):
        yield invalid(("preemptionPolicy",), new.preemption_policy or default, IMMUTABLE)


def validate_storage_class_update(new: api.StorageClass, old: api.StorageClass) -> ValidationErrors:
    """Validate the update of a StorageClass. Upstream: ValidateStorageClassUpdate.

    Parameters and reclaimPolicy are not compared, since they are not read from clusters.
    """
    if new.provisioner != old.provisioner:
        yield invalid(("provisioner",), new.provisioner, IMMUTABLE)
    default = "Immediate"
    if (new.volume_binding_mode or default) != (old.volume_binding_mode or default):
        yield invalid(("volumeBindingMode",), new.volume_binding_mode or default, IMMUTABLE)


def validate_claim_update(new: api.PersistentVolumeClaimSpec, old: api.PersistentVolumeClaimSpec) -> ValidationErrors:
    """Validate the update of a PersistentVolumeClaim. Upstream: ValidatePersistentVolumeClaimUpdate.

    Sizes of volumes are not compared, since they are not read from clusters.
    """
    has_classes = new.storage_class_name is not None and old.storage_class_name is not None
    is_changed = {
        "storageClassName": has_classes and new.storage_class_name != old.storage_class_name,
        "accessModes": bool(new.access_modes) and set(new.access_modes) != set(old.access_modes),
        "volumeName": bool(new.volume_name and old.volume_name) and new.volume_name != old.volume_name,
    }
    for field, changed in is_changed.items():
        if changed:  # upstream reports a change of any of these fields at the spec
            yield forbidden(SPEC, CLAIM_RULE).located_at((*SPEC, field))
    if (new.volume_mode or "Filesystem") != (old.volume_mode or "Filesystem"):
        fault = invalid(("volumeMode",), new.volume_mode or "Filesystem", IMMUTABLE)
        yield fault.located_at((*SPEC, "volumeMode"))


def validate_selector_update(new: api.LabelSelector | None, old: Selector) -> ValidationErrors:
    """Validate that an update keeps a workload's selector.

    Upstream: ValidateDeploymentUpdate, ValidateReplicaSetUpdate, ValidateDaemonSetSpecUpdate.
    """
    compiled = _compile_selector_if_valid(new)
    if compiled is not None and set(compiled.requirements) != set(old.requirements):
        yield build_selector_error(new)


def build_selector_error(new: api.LabelSelector | None) -> FieldError:
    """Build the error for a changed selector."""
    return invalid((*SPEC, "selector"), new, IMMUTABLE)


def validate_stateful_set_selector_update(new: api.LabelSelector | None, old: Selector) -> ValidationErrors:
    """Validate the update of a StatefulSet's selector. Upstream: ValidateStatefulSetUpdate."""
    for fault in validate_selector_update(new, old):
        yield forbidden(SPEC, STATEFUL_SET_RULE).located_at(fault.field)


def validate_stateful_set_update(new: Document, old: Document) -> ValidationErrors:
    """Validate the update of a StatefulSet's spec. Upstream: ValidateStatefulSetUpdate."""
    for field in ("serviceName", "podManagementPolicy"):
        if new.get(field) is not None and new[field] != old.get(field):
            yield forbidden(SPEC, STATEFUL_SET_RULE).located_at((*SPEC, field))
    templates = new.get("volumeClaimTemplates") or []
    old_templates = old.get("volumeClaimTemplates") or []
    difference = find_first_difference(templates, old_templates, (*SPEC, "volumeClaimTemplates"))
    if difference is not None or len(templates) != len(old_templates):
        yield forbidden(SPEC, STATEFUL_SET_RULE).located_at(difference or (*SPEC, "volumeClaimTemplates"))


def validate_job_update(new: Document, old: Document) -> ValidationErrors:
    """Validate the update of a Job's spec. Upstream: ValidateJobSpecUpdate.

    The pod template may only change while the Job is suspended, and completions only if the Job is indexed.
    """
    immutable_fields = ["completions", "completionMode"]
    if old.get("completionMode") == "Indexed":
        immutable_fields.remove("completions")
    for field in immutable_fields:
        if new.get(field) is not None and new[field] != old.get(field):
            yield invalid((*SPEC, field), new[field], IMMUTABLE)
    if old.get("suspend"):
        return
    difference = find_first_difference(new.get("template") or {}, old.get("template"), USUAL_TEMPLATE_PATH)
    if difference is not None:
        yield invalid(USUAL_TEMPLATE_PATH, "…", IMMUTABLE).located_at(difference)


def find_first_difference(new: object, old: object, location: Path) -> Path | None:
    """Return the path of the first field in which the manifest differs from the stored object, or None.

    Empty values in the manifest are not compared, since the API server may have set a default. Items of a stored list
    after the end of the manifest's list are not compared either. ``location`` is the path of both values in their
    objects.

    >>> find_first_difference({"a": [{"b": 1}]}, {"a": [{"b": 2, "c": 3}]}, ())
    ('a', 0, 'b')
    """
    parts: list[tuple[str | int, object, object]]
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        parts = [(key, value, old.get(key)) for key, value in new.items() if not _is_unset(value)]
    elif isinstance(new, Sequence) and isinstance(old, Sequence) and not isinstance(new, str):
        if len(new) > len(old):
            return (*location, len(old))
        parts = [(i, new[i], old[i]) for i in range(len(new))]
    else:
        is_unset_in_both = not new and old is None
        are_equal = new == old or is_unset_in_both or _are_equal_amounts(new, old, location)
        return None if are_equal else location
    for step, new_part, old_part in parts:
        difference = find_first_difference(new_part, old_part, (*location, step))
        if difference is not None:
            return difference
    return None


def _is_unset(value: object) -> bool:
    """Return whether the value is empty, so that defaulting may fill it."""
    return value is None or value in ("", [], {})


def _are_equal_amounts(new: object, old: object, path: Path) -> bool:
    """Return whether a field at this path holds a resource amount and both values are equal quantities."""
    if len(path) < 2 or path[-2] not in AMOUNTS:
        return False
    if not isinstance(new, str | int | float) or not isinstance(old, str | int | float):
        return False
    try:
        return parse_quantity(new) == parse_quantity(old)
    except QuantityError:
        return False


def _compile_selector_if_valid(label_selector: api.LabelSelector | None) -> Selector | None:
    """Compile a selector, or return None if the API server would reject it."""
    try:
        return selector_from_api(label_selector)
    except SelectorError:
        return None
