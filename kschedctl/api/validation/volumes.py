"""Volumes of a pod, and the claims that are made for it."""

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
    go_quote,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.objects import PersistentVolumeClaimSpec
from kschedctl.api.pod_requests import quantities
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.api.validation import names
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.api.validation.selectors import label_selector
from kschedctl.api.validation.written import Volume

SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""In the order in which upstream looks at them: of two, the second is at fault."""
_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(Volume)}
_MISSPELT = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
"""What upstream calls a second source."""
_NEEDED = {
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
"""Source -> the fields of it that may not be empty: those that decide where the pod goes, and those often missed."""
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def volumes(
    written: Sequence[Volume], pod: str, path: Path, options: ValidationOptions
) -> tuple[list[FieldError], frozenset[str]]:
    """What is wrong, and the names of the volumes that are right; ``pod``: its name, if it has one already.

    Upstream: ValidateVolumes.
    """
    errors: list[FieldError] = []
    right: set[str] = set()
    made = {f"{pod}-{volume.name}" for volume in written if pod and volume.ephemeral is not None}
    for i, volume in enumerate(written):
        at = (*path, i)
        faults = [*_sources(volume, pod, at, options), *_name(volume.name, right, (*at, "name"))]
        errors += faults
        right |= set() if faults else {volume.name}
        claim = volume.persistent_volume_claim
        if claim is not None and claim.claim_name in made:
            rule = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid((*at, "persistentVolumeClaim", "claimName"), claim.claim_name, rule))
    return errors, frozenset(right)


def _name(name: str, taken: set[str], path: Path) -> ValidationErrors:
    if name:
        yield from names.check(path, name, names.dns_label)
    else:
        yield required(path)
    if name in taken:
        yield duplicate(path, name)


def _sources(volume: Volume, pod: str, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Upstream: validateVolumeSource; a volume without a source becomes an emptyDir by default."""
    given = {source: value for source in SOURCES if (value := getattr(volume, _ATTRIBUTES[source])) is not None}
    for number, (source, value) in enumerate(given.items()):
        if number:
            yield forbidden((*path, _MISSPELT.get(source, source)), "may not specify more than 1 volume type")
            continue
        yield from _missing(source, value, path)
        if source == "ephemeral":
            yield from _ephemeral(volume, pod, path)
        if source == "image" and options.is_pod and not value.reference:
            yield required((*path, "image", "reference"))


def _missing(source: str, value: object, path: Path) -> ValidationErrors:
    fields = msgspec.to_builtins(value)
    at = "persistentDisk" if source == "gcePersistentDisk" else source
    for field in _NEEDED.get(source, ()):
        if not (isinstance(fields, dict) and fields.get(field)):
            yield required((*path, at, field))


def _ephemeral(volume: Volume, pod: str, path: Path) -> ValidationErrors:
    template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
    at = (*path, "ephemeral", "volumeClaimTemplate")
    if template is None:
        yield required(at)
    else:
        yield from claim(template.spec or PersistentVolumeClaimSpec(), (*at, "spec"))
    if pod and volume.name:
        name = f"{pod}-{volume.name}"
        for problem in names.dns_subdomain(name):
            yield invalid((*path, "name"), volume.name, f"PVC name {go_quote(name)}: {problem}")


def claim(spec: PersistentVolumeClaimSpec, path: Path) -> ValidationErrors:
    """The spec of a PersistentVolumeClaim. Upstream: ValidatePersistentVolumeClaimSpec."""
    modes = spec.access_modes
    if not modes:
        yield required((*path, "accessModes"), "at least 1 access mode is required")
    yield from label_selector(spec.selector, (*path, "selector"))
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported((*path, "accessModes"), TypedString(mode), ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*ACCESS_MODES[:3]}:
        yield forbidden((*path, "accessModes"), "may not use ReadWriteOncePod with other access modes")
    yield from _storage(spec, (*path, "resources", Key("storage")))
    if spec.storage_class_name:
        yield from names.check((*path, "storageClassName"), spec.storage_class_name, names.dns_subdomain)
    if spec.volume_mode is not None and spec.volume_mode not in VOLUME_MODES:
        yield not_supported((*path, "volumeMode"), TypedString(spec.volume_mode), VOLUME_MODES)


def _storage(spec: PersistentVolumeClaimSpec, path: Path) -> ValidationErrors:
    text = spec.resources.requests.get("storage")
    if text is None:
        yield required(path)
        return
    try:
        amount = quantities({"storage": text})["storage"]
    except QuantityError:
        return  # whoever reads it says so
    if amount <= parse("0"):
        yield invalid(path, str(amount), "must be greater than zero")
