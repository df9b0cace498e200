"""Names of objects in files and snapshots, for shell completion. Only names are decoded, to be fast."""

from __future__ import annotations

import gzip
import os
import stat
import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins, decode_json, decode_msgpack
from kschedctl.sources.documents.files import STDIN, find_files

MAX_SIZE = 64 << 20
"""The maximum size of a file in bytes. Nobody waits for completions from a larger file."""
ENDED_PHASES = ("Succeeded", "Failed")
Kubeconfig = Mapping[str, Any]
"""The merged content of kubeconfig files, or one of its entries."""


class ObjectName(NamedTuple):
    """The name of an object."""

    namespace: str
    name: str
    pending: bool = False
    """Whether it is a pod that waits for a node."""


class Meta(msgspec.Struct):
    """Namespace and name in the metadata of an object."""

    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    """The field of a pod's spec that shows whether the pod is bound."""

    node_name: str | None = None


class _Status(msgspec.Struct):
    """The field of a pod's status that shows whether the pod has ended."""

    phase: str | None = None


class _Object(msgspec.Struct):
    """An object or a list of objects."""

    kind: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _Spec | None = None
    status: _Status | None = None
    items: list[_Object] | None = None


class _TextColumn(msgspec.Struct, array_like=True):
    """A column of texts in a snapshot: indices, and the distinct values."""

    form: str
    data: bytes
    values: list[str]


class _PodRecord(msgspec.Struct, array_like=True):
    """The first fields of the record of pods in a snapshot. See archive/sections.py."""

    metadata: list[Meta]
    specs: msgspec.Raw
    affinities: msgspec.Raw
    volumes: msgspec.Raw
    statuses: list[_Status]
    templates: bytes
    template: bytes
    names: list[str]
    uids: msgspec.Raw
    node: _TextColumn


class _NodeRecord(msgspec.Struct, array_like=True):
    """The first field of the record of nodes in a snapshot."""

    nodes: list[_Object]


def iter_names_in_files(paths: Sequence[str], kind: str, recursive: bool = False) -> Iterator[ObjectName]:
    """Yield the names of objects of a kind in files. Raises OSError, ValueError, KschedctlError."""
    for path in find_files([path for path in paths if path != STDIN], recursive).files:
        for document in _iter_documents(_read_file(path), path):
            yield from _iter_names(document, kind, "")


def list_names_in_snapshot(path: str, kind: str) -> list[ObjectName]:
    """Return the names of objects of a kind in a snapshot. Raises OSError, ValueError, KeyError."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{kind}.msgpack")
        if member.file_size > MAX_SIZE:
            return []
        data = archive.read(member)
    if kind == "Pod":
        return list(_iter_pod_names(decode_msgpack(data, _PodRecord)))
    is_node = kind == "Node"
    objects = decode_msgpack(data, _NodeRecord).nodes if is_node else decode_msgpack(data, list[_Object])
    return [ObjectName(obj.metadata.namespace, obj.metadata.name) for obj in objects]


def _iter_pod_names(pods: _PodRecord) -> Iterator[ObjectName]:
    """Yield the names of the pods in a snapshot, whose columns are little-endian int32."""
    templates, template, nodes = (array("i", data) for data in (pods.templates, pods.template, pods.node.data))
    for row, name in enumerate(pods.names):
        offset = 5 * template[row]
        has_ended = pods.statuses[templates[offset + 4]].phase in ENDED_PHASES
        is_bound = bool(pods.node.values[nodes[row]])
        yield ObjectName(pods.metadata[templates[offset]].namespace, name, not (is_bound or has_ended))


def _read_file(path: str) -> bytes:
    """Return the unpacked content of a regular file, or b"" if it is too large or not a regular file."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SIZE:
            return b""
        is_gzip = path.endswith(".gz")
        return gzip.GzipFile(fileobj=file).read(MAX_SIZE) if is_gzip else file.read()


def _iter_documents(data: bytes, file: str) -> Iterator[_Object]:
    """Yield the documents of a JSON or YAML file."""
    if data.lstrip().startswith(b"{"):
        yield decode_json(data, _Object)
        return
    from kschedctl.sources.documents.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

    for document in parse_yaml(data.decode(), file):
        if isinstance(document.value, dict):
            yield convert_builtins(document.value, _Object)


def _iter_names(document: _Object, kind: str, item_kind: str) -> Iterator[ObjectName]:
    """Yield the names of objects of the kind in a document or list."""
    if document.items is not None:
        for item in document.items:
            yield from _iter_names(item, kind, document.kind.removesuffix("List"))
    elif (document.kind or item_kind) == kind:
        is_bound_or_ended = bool(document.spec and document.spec.node_name) or bool(
            document.status and document.status.phase in ENDED_PHASES
        )
        namespace = document.metadata.namespace or ("default" if kind == "Pod" else "")
        yield ObjectName(namespace, document.metadata.name, kind == "Pod" and not is_bound_or_ended)


def merge_kubeconfigs(paths: Sequence[str]) -> Kubeconfig:
    """Merge contexts, clusters and users of kubeconfig files. The first file with a name counts."""
    import yaml  # noqa: PLC0415 - only clusters need it

    merged: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": ""}
    for path in filter(os.path.isfile, paths):
        document = yaml.load(_read_file(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for kind, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in document.get(kind) or ():
                merged[kind].setdefault(
                    str(entry["name"]), {"folder": os.path.dirname(path), **(entry.get(inner) or {})}
                )
    return merged
