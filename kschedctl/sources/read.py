"""Clusters and manifests from files, folders and standard input: YAML, JSON, lists of both, gzip."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from kschedctl.api.objects import Struct
from kschedctl.cluster import Gap
from kschedctl.errors import InputError
from kschedctl.sources.collector import CONFIGURATION, Collector, Manifest, Origins
from kschedctl.sources.files import Reader, find_files, open_file, shown
from kschedctl.sources.garbage import without_garbage_collection
from kschedctl.sources.json_documents import parse_json
from kschedctl.sources.json_lists import ListReader, big_list
from kschedctl.sources.place import Document, Place

SMALL = 1 << 20  # bytes; what a person writes is smaller, and is parsed strictly
LARGEST = 256 << 20  # bytes of what is parsed as a whole
_SNIFFED = 64 << 10
_JSON = re.compile(rb'\s*\{\s*["}]')
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NOT_IN_DUMPS = "namespaces, volumes, claims, disruption budgets, storage and priority classes"


@dataclass(frozen=True)
class ReadResult:
    """What the files hold.

    ``objects`` by kind, in order; ``manifests``: the pods and pod templates that somebody wrote; ``stored``: the pod
    templates of workloads that a cluster has, those of long lists aside; ``skipped``: how many objects of kinds that
    scheduling does not read; ``skipped_files``: how many files of folders are no documents; ``gaps``: the kinds that no
    list covers.
    """

    objects: Mapping[str, list[Struct]]
    manifests: tuple[Manifest, ...]
    stored: tuple[Manifest, ...]
    skipped: Mapping[str, int]
    skipped_files: int
    warnings: tuple[str, ...]
    configuration: Mapping[str, Any] | None
    origins: Origins
    gaps: Mapping[str, Gap]


def read(paths: Sequence[str], *, recursive: bool = False, stdin: BinaryIO | None = None) -> ReadResult:
    """Read files, folders and ``-``, one after the other.

    Raises InputError, which names file, document and field, for all that cannot be read or is not what it should be,
    and when there is no object at all.
    """
    found = find_files(paths, recursive)
    collector = Collector()
    with without_garbage_collection():
        for file in found.files:
            try:
                _read_file(file, file in paths, collector, stdin)
            except RecursionError:
                raise InputError("nested too deeply", where=shown(file)) from None
    if not collector.documents:
        raise InputError("no Kubernetes object in it", where=", ".join(paths) or "no file")
    collector.warnings += [f"{dump}: a cluster-info dump has no {NOT_IN_DUMPS}" for dump in found.dumps]
    return ReadResult(
        objects=collector.objects,
        manifests=tuple(collector.manifests),
        stored=tuple(collector.stored),
        skipped=dict(collector.skipped),
        skipped_files=found.passed_over,
        warnings=tuple(collector.warnings),
        configuration=collector.configuration,
        origins=Origins(collector.found),
        gaps=collector.gaps,
    )


def load_configuration_file(path: str, stdin: BinaryIO | None = None) -> Mapping[str, Any]:
    """The one document of a file, which should be a KubeSchedulerConfiguration; that it is one is checked later."""
    with open_file(path, stdin) as reader:
        documents = list(_documents(b"", reader))
        if len(documents) != 1:
            raise InputError(f"expected one {CONFIGURATION}, found {len(documents)} documents", where=reader.name)
        value, number, line = documents[0]
        if not isinstance(value, dict):
            place = Place(reader.name, number, line)
            raise place.error(f"expected a {CONFIGURATION}, got {type(value).__name__}")
        return value


def read_documents(path: str, stdin: BinaryIO | None = None) -> list[Mapping[str, Any]]:
    """The documents of a file as they are. Raises InputError, also for one that is not an object."""
    found: list[Mapping[str, Any]] = []
    with open_file(path, stdin) as reader:
        for value, number, line in _documents(b"", reader):
            if not isinstance(value, dict):
                raise Place(reader.name, number, line).error(f"expected an object, got {type(value).__name__}")
            found.append(value)
    return found


def _read_file(path: str, named: bool, collector: Collector, stdin: BinaryIO | None) -> None:
    """``named``: by the user; in other files of a folder, documents that are no objects are passed over."""
    with open_file(path, stdin) as reader:
        before, number = collector.documents, 1
        data = reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
        while len(data) >= SMALL and (head := big_list(data)):
            place = Place(reader.name, number)
            data = ListReader(data, head, reader, collector, place).read().lstrip()
            data += reader.read(max(SMALL - len(data), 0))
            number, collector.documents = number + 1, collector.documents + 1
        for value, index, line in _documents(data, reader, number):
            place = Place(reader.name, index, line)
            if named or (isinstance(value, dict) and value.get("kind")):
                collector.document(value, place)
            else:
                collector.warnings.append(f"{place}: no Kubernetes object")
        if collector.documents == before:
            collector.warnings.append(f"{reader.name}: no Kubernetes object in it")


def _documents(data: bytes, reader: Reader, number: int = 1) -> Iterator[Document]:
    """The documents of what was read and the rest of the file; the first has this number."""
    data = data or reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
    is_json = bool(_JSON.match(data))
    if not is_json:
        _check_text(data[:_SNIFFED], reader.name)
    if len(data) >= SMALL:
        data += reader.read(LARGEST)
    if len(data) > LARGEST:
        hint = "only JSON lists can be larger"
        raise InputError(f"larger than {LARGEST >> 20} MiB", where=reader.name, hint=hint)
    text = _decoded(data, reader.name)
    if is_json:
        yield from parse_json(text, reader.name, number)
    elif text.strip():
        from kschedctl.sources.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

        yield from parse_yaml(text, reader.name)


def _check_text(data: bytes, file: str) -> None:
    """Refuse what is neither JSON nor YAML before all of it is read."""
    if data.startswith(_UTF16):
        raise InputError("encoded as UTF-16", where=file, hint="save it as UTF-8")
    if _NOT_TEXT.search(data):
        raise InputError("neither JSON nor YAML, but binary data", where=file)
    if len(data) >= _SNIFFED and b"\n" not in data:
        raise InputError("neither JSON nor YAML: its first line has no end", where=file)


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: byte {error.start + 1} is 0x{data[error.start]:02x}", where=file) from None
