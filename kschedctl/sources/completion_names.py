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
    """True if it is a pod that waits for a node."""


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
    """The first fields of the record of pods in a snapshot. See archive_sections.py."""

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
    """Yield the names of objects of a kind in files and folders. Standard input and large files are skipped.

    Subfolders are read if ``recursive`` is true. Raises OSError, ValueError or KschedctlError if a file cannot be read
    or parsed.
    """
    for path in find_files([path for path in paths if path != STDIN], recursive).files:
        for document in _iter_documents(_read_file(path), path):
            yield from _iter_object_names(document, kind, item_kind="")


def list_names_in_snapshot(path: str, kind: str) -> list[ObjectName]:
    """Return the names of objects of a kind in a snapshot, or [] if there are too many to read quickly.

    Raises OSError, ValueError or KeyError if the file is not a readable snapshot with objects of this kind.
    """
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


_PARTS_OF_TEMPLATE = 5
"""A template is stored as the indexes of its metadata, spec, affinity, volumes and status."""


def _iter_pod_names(pods: _PodRecord) -> Iterator[ObjectName]:
    """Yield the name of each pod in a snapshot, and whether the pod is pending."""
    # The columns are int32 arrays, as archive_sections.py encodes them. Each template has a row of indexes of its
    # parts, of which the first is the metadata and the last the status.
    template_parts = array("i", pods.templates)
    template_of_pod = array("i", pods.template)
    node_of_pod = array("i", pods.node.data)
    for row, name in enumerate(pods.names):
        first_part = _PARTS_OF_TEMPLATE * template_of_pod[row]
        last_part = first_part + _PARTS_OF_TEMPLATE - 1
        metadata = pods.metadata[template_parts[first_part]]
        status = pods.statuses[template_parts[last_part]]
        is_bound = bool(pods.node.values[node_of_pod[row]])
        yield ObjectName(metadata.namespace, name, pending=not is_bound and status.phase not in ENDED_PHASES)


def _read_file(path: str) -> bytes:
    """Return the unpacked content of a regular file, or b"" if it is too large or not a regular file.

    A gzip file is cut off at MAX_SIZE.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SIZE:
            return b""
        is_gzip = path.endswith(".gz")
        return gzip.GzipFile(fileobj=file).read(MAX_SIZE) if is_gzip else file.read()


def _iter_documents(data: bytes, file: str) -> Iterator[_Object]:
    """Yield the object of a JSON file, or the documents of a YAML file that are mappings."""
    if data.lstrip().startswith(b"{"):
        yield decode_json(data, _Object)
        return
    from kschedctl.sources.documents.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

    for document in parse_yaml(data.decode(), file):
        if isinstance(document.value, dict):
            yield convert_builtins(document.value, _Object)


def _iter_object_names(document: _Object, kind: str, item_kind: str) -> Iterator[ObjectName]:
    """Yield the names of the objects of a kind in a document, which may be a list of objects.

    For a pod, the result also says whether the pod is pending. ``item_kind`` is the kind of a document that states
    none, such as an item of a typed list.
    """
    if document.items is not None:
        for item in document.items:
            yield from _iter_object_names(item, kind, document.kind.removesuffix("List"))
    elif (document.kind or item_kind) == kind:
        metadata = document.metadata
        if kind != "Pod":  # the other kinds that are completed have no namespaces
            yield ObjectName(metadata.namespace, metadata.name)
            return
        is_bound = document.spec is not None and bool(document.spec.node_name)
        has_ended = document.status is not None and document.status.phase in ENDED_PHASES
        yield ObjectName(metadata.namespace or "default", metadata.name, pending=not is_bound and not has_ended)


def merge_kubeconfigs(paths: Sequence[str]) -> Kubeconfig:
    """Merge the contexts, clusters and users of kubeconfig files. If a name occurs twice, the first file wins.

    The first file with a current context also decides this context. Each entry gets a field ``folder``, to which its
    relative paths refer. Missing files are skipped.
    """
    import yaml  # noqa: PLC0415 - only clusters need it

    merged: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": ""}
    for path in filter(os.path.isfile, paths):
        document = yaml.load(_read_file(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for section, field in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in document.get(section) or ():
                settings = {"folder": os.path.dirname(path), **(entry.get(field) or {})}
                merged[section].setdefault(str(entry["name"]), settings)
    return merged
