"""Manifests to be applied, decoded and sorted into workloads and other objects that scheduling reads."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.kinds import get_kind
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.validation.written import AROUND_PODS
from kschedctl.api.workloads import KINDS, decode_workload, get_identity, is_non_install_hook, is_workload_manifest
from kschedctl.cluster import FIELDS, Cluster, convert_document, describe_document, flatten_lists
from kschedctl.errors import InputError, KschedctlError

SKIPPED_HOOKS_NOTE = "left out, as Helm creates them neither on install nor on upgrade"


@dataclass
class ClassifiedManifests:
    """Decoded manifests: workloads, and other objects."""

    workloads: dict[tuple[str, str, str], Struct] = field(default_factory=dict)
    """Workloads by kind, namespace and name."""
    objects: dict[str, list[Struct]] = field(default_factory=dict)
    """Other objects by kind."""
    hooks: list[str] = field(default_factory=list)
    """Helm hooks that are skipped."""
    new_documents: list[JsonObject] = field(default_factory=list)
    """Documents that no API server has seen."""
    documents: dict[Owner, JsonObject] = field(default_factory=dict)
    """Documents of workloads."""
    structs: dict[Owner, Struct] = field(default_factory=dict)
    """Workloads that were given as structs."""

    @property
    def notes(self) -> list[str]:
        """The note about skipped Helm hooks, if there are any."""
        return [f"{SKIPPED_HOOKS_NOTE}: {', '.join(self.hooks)}"] if self.hooks else []


def classify_manifests(manifests: Iterable[JsonObject | Struct]) -> ClassifiedManifests:
    """Decode documents, Lists and typed workloads, and separate workloads from other objects.

    Raises InputError if a manifest is malformed. A later manifest replaces an earlier one with the same name.
    """
    result = ClassifiedManifests()
    for manifest in manifests:
        if isinstance(manifest, Mapping):
            for document in flatten_lists((manifest,)):
                _decode_and_add_manifest(document, result)
        else:
            _decode_and_add_manifest(manifest, result)
    return result


def validate_new_manifests(
    manifests: ClassifiedManifests, cluster: Cluster, *, admission: bool, validated: Container[Owner] = frozenset()
) -> None:
    """Raise InputError if the API server would not create one of the new manifests.

    A manifest is new if it has no UID. Documents are validated and, if ``admission`` is set, also admitted. Callers
    that replay admission themselves do not set it. Typed workloads are only validated, except for the owners in
    ``validated``, whose documents were validated elsewhere.
    """
    new_structs = {
        owner: workload
        for owner, workload in manifests.structs.items()
        if owner not in validated and not workload.metadata.uid  # type: ignore[attr-defined]
    }
    if not manifests.new_documents and not new_structs:
        return
    from kschedctl.replay.denials import raise_if_denied, raise_if_struct_denied  # noqa: PLC0415 - only for new objects

    for document in manifests.new_documents:
        raise_if_denied(document, cluster, admission=admission)

    seen_specs: set[tuple[str, bytes]] = set()  # equal specs are validated once
    for owner, workload in new_structs.items():
        spec = owner.kind, msgspec.json.encode(workload.spec)  # type: ignore[attr-defined]
        if spec not in seen_specs:
            raise_if_struct_denied(workload, cluster, admission=False)
            seen_specs.add(spec)


def _decode_and_add_manifest(manifest: JsonObject | Struct, result: ClassifiedManifests) -> None:
    """Decode a manifest, and add it to ``result`` by its kind. Raises InputError if the manifest is malformed.

    Kinds that scheduling does not read are ignored. Of Helm hooks that do not run on install, only the names are kept.
    """
    if not isinstance(manifest, Mapping):
        owner = _add_workload(manifest, result)
        result.structs[owner] = manifest
        return
    if not isinstance(manifest.get("kind"), str):
        raise InputError(
            f"kind: expected str, got {type_name(manifest.get('kind'))}", where=describe_document(manifest)
        )
    kind = get_kind(manifest)
    if is_workload_manifest(manifest) and is_non_install_hook(manifest):
        result.hooks.append(describe_document(manifest))
    elif is_workload_manifest(manifest):
        struct = _decode_workload(manifest)
        _validate_name(manifest, struct.metadata.name or struct.metadata.generate_name)  # type: ignore[attr-defined]
        owner = _add_workload(struct, result)
        result.documents[owner] = manifest
        if not struct.metadata.uid:  # type: ignore[attr-defined]
            result.new_documents.append(manifest)
    # Other objects that scheduling reads
    elif kind in FIELDS and kind not in KINDS:
        struct = convert_document(manifest)
        _validate_name(manifest, struct.metadata.name)  # type: ignore[attr-defined]
        result.objects.setdefault(kind, []).append(struct)
        if kind in AROUND_PODS and not struct.metadata.uid:  # type: ignore[attr-defined]
            result.new_documents.append(manifest)


def _add_workload(manifest: Struct, result: ClassifiedManifests) -> Owner:
    """Add a workload to the result, with a generated name if it has none, and return its key."""
    workload = _ensure_name(manifest, result.workloads)
    owner = get_identity(workload)
    result.workloads[owner] = workload
    return owner


def _decode_workload(manifest: JsonObject) -> Struct:
    """Decode a workload's manifest. Raises InputError if a field has the wrong type."""
    try:
        return decode_workload(drop_nulls(manifest))
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=describe_document(manifest)) from None


def _validate_name(manifest: JsonObject, name: str) -> None:
    """Raise InputError if the manifest has no name."""
    if not name:
        raise InputError("metadata.name: required", where=describe_document(manifest))


def _ensure_name(workload: Struct, taken: Container[tuple[str, str, str]]) -> Struct:
    """Return the workload, with a generated name that is not `taken` if it has no name."""
    meta = workload.metadata  # type: ignore[attr-defined]
    kind, namespace, _ = get_identity(workload)
    if meta.name:
        return workload
    names = (f"{meta.generate_name}{number}" for number in count())
    name = next(name for name in names if (kind, namespace, name) not in taken)
    return replace(workload, metadata=replace(meta, name=name))


def build_error_names(manifest: JsonObject) -> tuple[str, str]:
    """Return the two names that errors may use for a manifest: without and with the default namespace."""
    metadata = object_at(manifest, "metadata")
    named = {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}
    return describe_document(manifest), describe_document({**manifest, "metadata": named})


@contextmanager
def locate_errors(places: Mapping[str, object]) -> Iterator[None]:
    """Add the place in the files to InputErrors about manifests, and to the errors in their `also`.

    ``places`` maps names such as ``Deployment shop/web`` to places. An error about anything else is raised unchanged.
    """
    try:
        yield
    except InputError as error:
        if error.where not in places:
            raise
        first, *others = [_add_place(kschedctl_error, places) for kschedctl_error in (error, *error.also)]
        first.also = tuple(others)
        raise first from None


def _add_place(error: KschedctlError, places: Mapping[str, object]) -> InputError:
    """Return the error with the place of its manifest."""
    where = f"{places[error.where]}, {error.where}" if error.where in places else error.where
    return InputError(error.what, where=where, hint=error.hint)
