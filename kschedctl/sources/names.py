"""The names of objects in files and snapshots, for completion: decoded to nothing else, so that it takes no time."""

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

LARGEST = 64 << 20
"""Bytes of a file; a larger one takes longer than anybody waits for a name."""
ENDED = ("Succeeded", "Failed")
Kubeconfig = Mapping[str, Any]
"""What kubeconfig files say, or one entry of them."""


class Name(NamedTuple):
    """``pending``: a pod that waits for a node."""

    namespace: str
    name: str
    pending: bool = False


class Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Status(msgspec.Struct):
    phase: str | None = None


class _Object(msgspec.Struct):
    """An object, or a list of them."""

    kind: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _Spec | None = None
    status: _Status | None = None
    items: list[_Object] | None = None


class _Texts(msgspec.Struct, array_like=True):
    form: str
    data: bytes
    values: list[str]


class _Pods(msgspec.Struct, array_like=True):
    """What comes first in the record of pods of a snapshot; see snapshot_sections."""

    metadata: list[Meta]
    specs: msgspec.Raw
    affinities: msgspec.Raw
    volumes: msgspec.Raw
    statuses: list[_Status]
    templates: bytes
    template: bytes
    names: list[str]
    uids: msgspec.Raw
    node: _Texts


class _Nodes(msgspec.Struct, array_like=True):
    nodes: list[_Object]


def in_files(paths: Sequence[str], kind: str, recursive: bool = False) -> Iterator[Name]:
    """The objects of a kind. Raises OSError, ValueError, KschedctlError for what cannot be read."""
    for path in find_files([path for path in paths if path != STDIN], recursive).files:
        for document in _documents(_read(path), path):
            yield from _named(document, kind, "")


def in_snapshot(path: str, kind: str) -> list[Name]:
    """The objects of a kind. Raises OSError, ValueError, KeyError for what cannot be read."""
    with zipfile.ZipFile(path) as members:
        member = members.getinfo(f"{kind}.msgpack")
        if member.file_size > LARGEST:
            return []
        data = members.read(member)
    if kind == "Pod":
        return list(_of_table(decode_msgpack(data, _Pods)))
    nodes = kind == "Node"
    objects = decode_msgpack(data, _Nodes).nodes if nodes else decode_msgpack(data, list[_Object])
    return [Name(obj.metadata.namespace, obj.metadata.name) for obj in objects]


def _of_table(pods: _Pods) -> Iterator[Name]:
    """The columns of a snapshot are int32, in the order of this machine's bytes on all that there are."""
    templates, template, nodes = (array("i", data) for data in (pods.templates, pods.template, pods.node.data))
    for row, name in enumerate(pods.names):
        first = 5 * template[row]
        ended = pods.statuses[templates[first + 4]].phase in ENDED
        bound = bool(pods.node.values[nodes[row]])
        yield Name(pods.metadata[templates[first]].namespace, name, not (bound or ended))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return b""
        packed = path.endswith(".gz")
        return gzip.GzipFile(fileobj=file).read(LARGEST) if packed else file.read()


def _documents(data: bytes, file: str) -> Iterator[_Object]:
    if data.lstrip().startswith(b"{"):
        yield decode_json(data, _Object)
        return
    from kschedctl.sources.documents.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

    for document in parse_yaml(data.decode(), file):
        if isinstance(document.value, dict):
            yield convert_builtins(document.value, _Object)


def _named(document: _Object, kind: str, given: str) -> Iterator[Name]:
    """``given``: the kind that the items of a typed list have."""
    if document.items is not None:
        for item in document.items:
            yield from _named(item, kind, document.kind.removesuffix("List"))
    elif (document.kind or given) == kind:
        bound = bool(document.spec and document.spec.node_name) or bool(
            document.status and document.status.phase in ENDED
        )
        namespace = document.metadata.namespace or ("default" if kind == "Pod" else "")
        yield Name(namespace, document.metadata.name, kind == "Pod" and not bound)


def kubeconfig(paths: Sequence[str]) -> Kubeconfig:
    """What the files say, the first that names a thing counting: contexts, clusters and users by name."""
    import yaml  # noqa: PLC0415 - only clusters need it

    merged: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": ""}
    for path in filter(os.path.isfile, paths):
        document = yaml.load(_read(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for kind, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in document.get(kind) or ():
                merged[kind].setdefault(
                    str(entry["name"]), {"folder": os.path.dirname(path), **(entry.get(inner) or {})}
                )
    return merged
