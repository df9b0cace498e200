"""Validation of a pod's volumes and of PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kschedctl.api.field_errors import (
    FieldError,
    Key,
    Path,
    TypedString,
    ValidationErrors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    quote_like_go,
    required,
)
from kschedctl.api.objects import PersistentVolumeClaimSpec
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.api.validation import ValidationOptions, names
from kschedctl.api.validation.names import validate_label_selector
from kschedctl.api.validation.written import Volume

SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""Volume sources in the order in which upstream checks them. Of two sources, the second is the error."""
_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(Volume)}
_UPSTREAM_SPELLING = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
"""Names that upstream's error message spells differently."""
_REQUIRED_FIELDS = {
    "hostPath": ("path",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "configMap": ("name",),
    "azureDisk": ("diskName", "diskURI"),
    "csi": ("driver",),
}
"""Fields of each source that may not be empty, limited to those that decide placement and those often missed."""
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", READ_WRITE_ONCE_POD)
VOLUME_MODES = ("Block", "Filesystem")


def validate_volumes(
    volumes: Sequence[Volume], pod_name: str, path: Path, options: ValidationOptions
) -> tuple[list[FieldError], frozenset[str]]:
    """Return the errors of a pod's volumes, and the volume names that mounts may use. Upstream: ValidateVolumes.

    ``pod_name`` is "" if the pod has no name yet.
    """
    errors: list[FieldError] = []
    valid_names: set[str] = set()
    ephemeral_claims = {f"{pod_name}-{volume.name}" for volume in volumes if pod_name and volume.ephemeral is not None}
    for i, volume in enumerate(volumes):
        volume_path = (*path, i)
        volume_errors = [
            *_validate_volume_source(volume, pod_name, volume_path, options),
            *_validate_volume_name(volume.name, valid_names, (*volume_path, "name")),
        ]
        errors += volume_errors
        if not volume_errors:
            valid_names.add(volume.name)
        claim = volume.persistent_volume_claim
        if claim is not None and claim.claim_name in ephemeral_claims:
            rule = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid((*volume_path, "persistentVolumeClaim", "claimName"), claim.claim_name, rule))
    return errors, frozenset(valid_names)


def _validate_volume_name(name: str, used_names: set[str], path: Path) -> ValidationErrors:
    """Validate that a volume's name is a DNS label and not yet used."""
    if name:
        yield from names.validate_syntax(path, name, names.validate_dns_label)
    else:
        yield required(path)
    if name in used_names:
        yield duplicate(path, name)


def _validate_volume_source(volume: Volume, pod_name: str, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate that a volume has at most one source, and validate the first source.

    A volume without a source becomes an emptyDir by default. Upstream: validateVolumeSource.
    """
    values_by_source = {source: getattr(volume, _ATTRIBUTES[source]) for source in SOURCES}
    present_sources = [(source, value) for source, value in values_by_source.items() if value is not None]
    if not present_sources:
        return
    (source, value), *further_sources = present_sources
    yield from _validate_required_source_fields(source, value, path)
    if source == "ephemeral":
        yield from _validate_ephemeral_volume(volume, pod_name, path)
    if source == "image" and options.is_pod and not value.reference:
        yield required((*path, "image", "reference"))
    for further_source, _ in further_sources:
        field = _UPSTREAM_SPELLING.get(further_source, further_source)
        yield forbidden((*path, field), "may not specify more than 1 volume type")


def _validate_required_source_fields(source: str, value: object, path: Path) -> ValidationErrors:
    """Validate that the required fields of a volume source are set."""
    fields = msgspec.to_builtins(value)
    printed_source = "persistentDisk" if source == "gcePersistentDisk" else source
    for field in _REQUIRED_FIELDS.get(source, ()):
        if not (isinstance(fields, dict) and fields.get(field)):
            yield required((*path, printed_source, field))


def _validate_ephemeral_volume(volume: Volume, pod_name: str, path: Path) -> ValidationErrors:
    """Validate the claim template of an ephemeral volume, and the name of the claim that it creates."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
    template_path = (*path, "ephemeral", "volumeClaimTemplate")
    if template is None:
        yield required(template_path)
    else:
        yield from validate_claim_spec(template.spec or PersistentVolumeClaimSpec(), (*template_path, "spec"))
    if pod_name and volume.name:
        name = f"{pod_name}-{volume.name}"
        for problem in names.validate_dns_subdomain(name):
            yield invalid((*path, "name"), volume.name, f"PVC name {quote_like_go(name)}: {problem}")


def validate_claim_spec(spec: PersistentVolumeClaimSpec, path: Path) -> ValidationErrors:
    """Validate the spec of a PersistentVolumeClaim. Upstream: ValidatePersistentVolumeClaimSpec."""
    modes = spec.access_modes
    if not modes:
        yield required((*path, "accessModes"), "at least 1 access mode is required")
    yield from validate_label_selector(spec.selector, (*path, "selector"))
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported((*path, "accessModes"), TypedString(mode), ACCESS_MODES)
    if READ_WRITE_ONCE_POD in modes and {*modes} & ({*ACCESS_MODES} - {READ_WRITE_ONCE_POD}):
        yield forbidden((*path, "accessModes"), "may not use ReadWriteOncePod with other access modes")
    yield from _validate_storage_request(spec, (*path, "resources", Key("storage")))
    if spec.storage_class_name:
        yield from names.validate_syntax(
            (*path, "storageClassName"), spec.storage_class_name, names.validate_dns_subdomain
        )
    if spec.volume_mode is not None and spec.volume_mode not in VOLUME_MODES:
        yield not_supported((*path, "volumeMode"), TypedString(spec.volume_mode), VOLUME_MODES)


def _validate_storage_request(spec: PersistentVolumeClaimSpec, path: Path) -> ValidationErrors:
    """Validate that the claim requests a positive amount of storage."""
    text = spec.resources.requests.get("storage")
    if text is None:
        yield required(path)
        return
    try:
        amount = parse_quantities({"storage": text})["storage"]
    except QuantityError:
        return  # is reported where the quantity is decoded
    if amount <= parse_quantity("0"):
        yield invalid(path, str(amount), "must be greater than zero")
