"""Manifests to apply, typed and sorted: what makes pods, and the other objects that scheduling reads."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import get_kind
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.validation.around_pods import KINDS as AROUND_PODS
from kschedctl.api.workloads import KINDS, decode, identity, is_not_installed, makes_pods
from kschedctl.cluster import FIELDS, Cluster, convert, describe, flatten, without_nulls
from kschedctl.errors import InputError, KschedctlError
from kschedctl.replay.denials import refuse, refuse_struct

NOT_INSTALLED = "left out, as Helm creates them neither on install nor on upgrade"


@dataclass
class Sorted:
    """``workloads`` by kind, namespace and name; other ``objects`` by kind; ``hooks`` of Helm that are left out.

    ``written``: the documents that no API server has seen, as far as they were given as documents; ``documents``: all
    those of workloads; ``typed``: the workloads that were given as structs.
    """

    workloads: dict[tuple[str, str, str], Struct] = field(default_factory=dict)
    objects: dict[str, list[Struct]] = field(default_factory=dict)
    hooks: list[str] = field(default_factory=list)
    written: list[JsonObject] = field(default_factory=list)
    documents: dict[Owner, JsonObject] = field(default_factory=dict)
    typed: dict[Owner, Struct] = field(default_factory=dict)

    @property
    def note(self) -> list[str]:
        return [f"{NOT_INSTALLED}: {', '.join(self.hooks)}"] if self.hooks else []


def sort_out(manifests: Iterable[JsonObject | Struct]) -> Sorted:
    """Documents, Lists too, and workloads that are typed already. Of two of a name the later counts.

    Raises InputError.
    """
    sorted_out = Sorted()
    for manifest in manifests:
        for document in flatten((manifest,)) if isinstance(manifest, Mapping) else (manifest,):
            _take(document, sorted_out)
    return sorted_out


def refuse_written(
    sorted_out: Sorted, cluster: Cluster, *, admission: bool, known: Container[Owner] = frozenset()
) -> None:
    """Raises InputError for documents that the API server would not create in the cluster, and for such structs.

    Without ``admission`` by validation alone, where admission is replayed by itself. ``known``: the structs of which
    somebody has looked at the documents.
    """
    for document in sorted_out.written:
        refuse(document, cluster, admission=admission)
    alike: set[tuple[str, bytes]] = set()
    for owner, workload in sorted_out.typed.items():
        spec = owner.kind, msgspec.json.encode(workload.spec)  # type: ignore[attr-defined]
        if owner not in known and not workload.metadata.uid and spec not in alike:  # type: ignore[attr-defined]
            refuse_struct(workload, cluster, admission=False)
            alike.add(spec)


def _take(manifest: JsonObject | Struct, sorted_out: Sorted) -> None:
    kind = str(manifest.get("kind", "")) if isinstance(manifest, Mapping) else ""
    if isinstance(manifest, Mapping) and not isinstance(manifest.get("kind"), str):
        raise InputError(f"kind: expected str, got {type_name(manifest.get('kind'))}", where=describe(manifest))
    if not isinstance(manifest, Mapping):
        sorted_out.typed[_add(manifest, sorted_out)] = manifest
    elif makes_pods(manifest) and is_not_installed(manifest):
        sorted_out.hooks.append(describe(manifest))
    elif makes_pods(manifest):
        typed = _typed(manifest)
        _check_name(manifest, typed.metadata.name or typed.metadata.generate_name)  # type: ignore[attr-defined]
        sorted_out.documents[_add(typed, sorted_out)] = manifest
        sorted_out.written += [] if typed.metadata.uid else [manifest]  # type: ignore[attr-defined]
    elif (kind := get_kind(manifest)) in FIELDS and kind not in KINDS:
        typed = convert(manifest)
        _check_name(manifest, typed.metadata.name)  # type: ignore[attr-defined]
        sorted_out.objects.setdefault(kind, []).append(typed)
        written = kind in AROUND_PODS and not typed.metadata.uid  # type: ignore[attr-defined]
        sorted_out.written += [manifest] if written else []


def _add(manifest: Struct, sorted_out: Sorted) -> Owner:
    workload = _named(manifest, sorted_out.workloads)
    owner = identity(workload)
    sorted_out.workloads[owner] = workload
    return owner


def _typed(manifest: JsonObject) -> Struct:
    try:
        return decode(without_nulls(manifest))
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=describe(manifest)) from None


def _check_name(manifest: JsonObject, name: str) -> None:
    if not name:
        raise InputError("metadata.name: required", where=describe(manifest))


def _named(workload: Struct, others: Container[tuple[str, str, str]]) -> Struct:
    """With a name of its own where the API server would generate one."""
    meta = workload.metadata  # type: ignore[attr-defined]
    kind, namespace, _ = identity(workload)
    if meta.name:
        return workload
    names = (f"{meta.generate_name}{number}" for number in count())
    name = next(name for name in names if (kind, namespace, name) not in others)
    return replace(workload, metadata=replace(meta, name=name))


def names_of(manifest: JsonObject) -> tuple[str, str]:
    """What errors call a manifest, without and with the namespace that it does not name."""
    metadata = object_at(manifest, "metadata")
    named = {**metadata, "namespace": metadata.get("namespace") or DEFAULT_NAMESPACE}
    return describe(manifest), describe({**manifest, "metadata": named})


@contextmanager
def in_files(places: Mapping[str, str]) -> Iterator[None]:
    """An InputError about one of these, ``Deployment shop/web`` -> where it stands, says that too."""
    try:
        yield
    except InputError as error:
        if error.where not in places:
            raise
        errors = [_in_file(kschedctl_error, places) for kschedctl_error in (error, *error.also)]
        errors[0].also = tuple(errors[1:])
        raise errors[0] from None


def _in_file(error: KschedctlError, places: Mapping[str, str]) -> InputError:
    where = f"{places[error.where]}, {error.where}" if error.where in places else error.where
    return InputError(error.what, where=where, hint=error.hint)
