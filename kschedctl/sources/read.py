"""Clusters and manifests from files, folders and standard input: YAML, JSON, lists of both, gzip."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from kschedctl.api.decoding import type_name
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.observed.api_server import ApiServerInstance
from kschedctl.api.observed.autoscaler import AutoscalerInstance
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Gap
from kschedctl.errors import InputError
from kschedctl.sources.applied import kustomizations
from kschedctl.sources.collector import CONFIGURATION, Collector, Manifest, Origins
from kschedctl.sources.documents.documents import SMALL, load_documents, parse_documents, read_content
from kschedctl.sources.documents.files import STDIN, display_path, find_files, open_file
from kschedctl.sources.documents.place import ParsedDocument, Place
from kschedctl.sources.json_lists import ListReader, big_list

if TYPE_CHECKING:
    from kschedctl.sources.builds.build import Build

RECIPES = {
    **dict.fromkeys(kustomizations.NAMES, "--kustomize"),
    "Chart.yaml": "--helm",
}
"""File of a folder that says how something is built -> the option that has it built."""
NOT_IN_DUMPS = "namespaces, volumes, claims, disruption budgets, storage and priority classes"


class ReadResult(msgspec.Struct, frozen=True):
    """What the files hold.

    ``objects`` by kind, in order, of pods a table; ``manifests``: the pods and pod templates that somebody wrote;
    ``stored``: the pod templates of workloads that a cluster has, those of long lists aside; ``around``: what somebody
    wrote that makes no pods, but is validated as they are; ``skipped``: how many objects of kinds that scheduling does
    not read; ``skipped_files``: how many files of folders are no documents;
    ``gaps``: the kinds that no list covers; ``left_out``: those of them of which there are objects that were not read;
    ``autoscaler``, ``api_server``: how the Cluster Autoscaler and kube-apiserver run, if they tell.
    """

    objects: Mapping[str, Sequence[Struct]]
    manifests: tuple[Manifest, ...]
    stored: tuple[Manifest, ...]
    around: tuple[Manifest, ...]
    skipped: Mapping[str, int]
    skipped_files: int
    warnings: tuple[str, ...]
    configuration: JsonObject | None
    origins: Origins
    gaps: Mapping[str, Gap]
    left_out: Mapping[str, Gap]
    autoscaler: AutoscalerInstance | None
    api_server: ApiServerInstance | None

    @property
    def pods(self) -> PodTable:
        return PodTable.from_pods(self.objects.get("Pod", ()))  # type: ignore[arg-type]


def read(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    stdin: BinaryIO | None = None,
    builds: Callable[[Sequence[str]], Sequence[Build]] = lambda files: (),
) -> ReadResult:
    """Read files, folders and ``-``, one after the other; what ``builds`` make of the files stands for theirs.

    Raises InputError, which names file, document and field, for all that cannot be read or is not what it should be,
    and when there is no object at all.
    """
    files = find_files(paths, recursive)
    collector = Collector()
    with without_garbage_collection():
        built = _build(builds(files.files), collector)
        for file in files.files:
            if file == STDIN or os.path.abspath(file) not in built:
                _read_file(file, file in paths, collector, stdin)
    if not collector.documents:
        recipes = (RECIPES.get(os.path.basename(file)) for file in files.files)
        hint = next((f"{option} builds what is there" for option in recipes if option), "")
        raise InputError("no Kubernetes object in it", where=", ".join(paths) or "no file", hint=hint)
    collector.warnings += [f"{dump}: a cluster-info dump has no {NOT_IN_DUMPS}" for dump in files.dumps]
    return ReadResult(
        objects=collector.objects,
        manifests=tuple(collector.manifests),
        stored=tuple(collector.stored),
        around=tuple(collector.around),
        skipped=dict(collector.skipped),
        skipped_files=files.skipped_count,
        warnings=tuple(collector.warnings),
        configuration=collector.configuration,
        origins=Origins(collector.found),
        gaps=collector.gaps,
        left_out=dict(collector.left_out),
        autoscaler=collector.autoscaler,
        api_server=collector.api_server,
    )


def load_configuration_file(path: str, stdin: BinaryIO | None = None) -> JsonObject:
    """The one document of a file, which should be a KubeSchedulerConfiguration; that it is one is checked later."""
    documents = load_documents(path, stdin)
    if len(documents) != 1:
        raise InputError(f"expected one {CONFIGURATION}, found {len(documents)} documents", where=display_path(path))
    value, number, line = documents[0]
    if not isinstance(value, dict):
        raise Place(display_path(path), number, line).error(f"expected a {CONFIGURATION}, got {type_name(value)}")
    return value


def read_documents(path: str, stdin: BinaryIO | None = None) -> list[JsonObject]:
    """The documents of a file as they are. Raises InputError, also for one that is not an object."""
    return [_require_object(document.value, path, document) for document in load_documents(path, stdin)]


def read_objects(path: str) -> list[JsonObject]:
    """The objects of a file, those of lists one by one. Raises InputError, also for what is neither."""
    return [
        _require_object(element, path, document)
        for document in load_documents(path)
        for element in (document.value if isinstance(document.value, list) else [document.value])
    ]


def _require_object(value: object, path: str, document: ParsedDocument) -> JsonObject:
    """Return the value of a document, or an element of it. Raises InputError if it is not an object."""
    if not isinstance(value, dict):
        place = Place(display_path(path), document.number, document.line)
        raise place.error(f"expected an object, got {type_name(value)}")
    return value


def _build(builds: Iterable[Build], collector: Collector) -> set[str]:
    """Take in what is built; the absolute paths of the files that went into it. Raises InputError."""
    parts = set[str]()
    for build in builds:
        for made in build.objects():
            collector.document(made.value, Place(display_path(made.file_of(())), 1, made.locate(())[0]))
        parts |= build.files
    return parts


def _read_file(path: str, named: bool, collector: Collector, stdin: BinaryIO | None) -> None:
    """``named``: by the user; in other files of a folder, documents that are no objects are passed over."""
    if not named and (option := RECIPES.get(os.path.basename(path))):
        not_built = "not built, the other files are taken as they stand"
        collector.warnings.append(f"{display_path(path)}: {not_built}: {option} builds it")
        return
    try:
        _read_documents(path, named, collector, stdin)
    except RecursionError:
        raise InputError("nested too deeply", where=display_path(path)) from None


def _read_documents(path: str, named: bool, collector: Collector, stdin: BinaryIO | None) -> None:
    with open_file(path, stdin) as reader:
        before, number = collector.documents, 1
        data = reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
        while len(data) >= SMALL and (head := big_list(data)):
            place = Place(reader.name, number)
            data = ListReader(data, head, reader, collector, place).read().lstrip()
            data += reader.read(max(SMALL - len(data), 0))
            number, collector.documents = number + 1, collector.documents + 1
        for value, index, line in parse_documents(read_content(reader, data), number):
            place = Place(reader.name, index, line)
            if named or (isinstance(value, dict) and value.get("kind")):
                collector.document(value, place)
            else:
                collector.warnings.append(f"{place}: no Kubernetes object")
        if collector.documents == before:
            collector.warnings.append(f"{reader.name}: no Kubernetes object in it")
