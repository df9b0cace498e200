"""Reading of clusters and manifests from files, folders and standard input, as YAML or JSON, also packed with gzip."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from kschedctl.api.component_flags import ApiServerInstance, AutoscalerInstance
from kschedctl.api.decoding import type_name
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Gap
from kschedctl.errors import InputError
from kschedctl.sources.applied import kustomizations
from kschedctl.sources.collector import CONFIGURATION, Collector, Manifest, Origins
from kschedctl.sources.documents.documents import SMALL, load_documents, parse_documents, read_content
from kschedctl.sources.documents.files import STDIN, find_files, format_file_path, open_file
from kschedctl.sources.documents.place import ParsedDocument, Place
from kschedctl.sources.json_lists import ListReader, match_list_head

if TYPE_CHECKING:
    from kschedctl.sources.builds.build import Build

BUILD_OPTIONS = {
    **dict.fromkeys(kustomizations.FILE_NAMES, "--kustomize"),
    "Chart.yaml": "--helm",
}
"""The option that builds a folder, by the file that describes the build."""
NOT_IN_DUMPS = "namespaces, volumes, claims, disruption budgets, storage and priority classes"


class ReadResult(msgspec.Struct, frozen=True):
    """The content of the files that were read."""

    objects: Mapping[str, Sequence[Struct]]
    """The objects by kind, in order, with pods as a table."""
    manifests: tuple[Manifest, ...]
    """The pods and workloads that a person wrote."""
    stored: tuple[Manifest, ...]
    """The workloads of a cluster, except those in long lists."""
    around: tuple[Manifest, ...]
    """Manifests of kinds that create no pods but are validated like pods."""
    skipped: Mapping[str, int]
    """The number of objects that scheduling does not read, by kind."""
    skipped_files: int
    """The number of files in folders that are not documents."""
    warnings: tuple[str, ...]
    configuration: JsonObject | None
    origins: Origins
    gaps: Mapping[str, Gap]
    """The kinds of which no list was read, or which are incomplete."""
    left_out: Mapping[str, Gap]
    """The gaps due to objects that could not be read."""
    autoscaler: AutoscalerInstance | None
    """The settings of the Cluster Autoscaler, if its pod was read."""
    api_server: ApiServerInstance | None
    """The settings of kube-apiserver, if its pod was read."""

    @property
    def pods(self) -> PodTable:
        """The pods as a table."""
        return PodTable.from_pods(self.objects.get("Pod", ()))  # type: ignore[arg-type]


def read_paths(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    stdin: BinaryIO | None = None,
    find_builds: Callable[[Sequence[str]], Sequence[Build]] = lambda files: (),
) -> ReadResult:
    """Read the files, folders and ``-`` in the given order, after all builds.

    ``find_builds`` returns the builds for the files. A build's objects replace the files that it uses. Raises
    InputError naming the file, the document and the field if the input is invalid or contains no object.
    """
    files = find_files(paths, recursive)
    collector = Collector()
    with without_garbage_collection():
        built_files = _collect_builds(find_builds(files.files), collector)
        for file in files.files:
            if file == STDIN or os.path.abspath(file) not in built_files:
                _collect_file(file, collector, stdin, is_named=file in paths)
    if not collector.documents:
        build_options = [BUILD_OPTIONS.get(os.path.basename(file)) for file in files.files]
        hint = next((f"build it with {option}" for option in build_options if option), "")
        raise InputError("contains no Kubernetes objects", where=", ".join(paths) or "no file", hint=hint)
    collector.warnings += [f"{dump}: a cluster-info dump does not include {NOT_IN_DUMPS}" for dump in files.dumps]
    objects = collector.objects
    collector.warnings += collector.list_conflicts()
    return ReadResult(
        objects=objects,
        manifests=tuple(collector.manifests),
        stored=tuple(collector.stored),
        around=tuple(collector.around),
        skipped=dict(collector.skipped),
        skipped_files=files.skipped_count,
        warnings=tuple(collector.warnings),
        configuration=collector.configuration,
        origins=Origins(collector.batches),
        gaps=collector.gaps,
        left_out=dict(collector.left_out),
        autoscaler=collector.autoscaler,
        api_server=collector.api_server,
    )


def load_configuration_file(path: str, stdin: BinaryIO | None = None) -> JsonObject:
    """Return the KubeSchedulerConfiguration in a file, without validating its fields.

    Raises InputError if the file cannot be read or parsed, or does not hold exactly one mapping.
    """
    documents = load_documents(path, stdin)
    if len(documents) != 1:
        raise InputError(
            f"expected one {CONFIGURATION}, found {len(documents)} documents", where=format_file_path(path)
        )
    value, number, line = documents[0]
    if not isinstance(value, dict):
        raise Place(format_file_path(path), number, line).error(f"expected a {CONFIGURATION}, got {type_name(value)}")
    return value


def read_documents(path: str, stdin: BinaryIO | None = None) -> list[JsonObject]:
    """Return the documents of a file, or of ``stdin`` for ``-``. Raises InputError if a document is not an object."""
    return [_require_object(document.value, path, document) for document in load_documents(path, stdin)]


def read_objects(path: str) -> list[JsonObject]:
    """Return the objects in a file. A document that is an array is replaced by its items.

    Raises InputError if the file cannot be read, or if a document or item is not an object.
    """
    objects = []
    for document in load_documents(path):
        values = document.value if isinstance(document.value, list) else [document.value]
        objects += [_require_object(value, path, document) for value in values]
    return objects


def _require_object(value: object, path: str, document: ParsedDocument) -> JsonObject:
    """Return the value if it is an object. Otherwise, raise InputError about the document."""
    if not isinstance(value, dict):
        place = Place(format_file_path(path), document.number, document.line)
        raise place.error(f"expected an object, got {type_name(value)}")
    return value


def _collect_builds(builds: Iterable[Build], collector: Collector) -> set[str]:
    """Collect the objects of builds, and return the absolute paths of the files that they use.

    Raises InputError if a build fails.
    """
    used_files = set[str]()
    for build in builds:
        for built in build.build_objects():
            root = ()  # the path of the object itself
            line, _ = built.locate(root)
            place = Place(format_file_path(built.find_file(root)), line=line)
            collector.add_document(built.value, place)
        used_files |= build.source_files
    return used_files


def _collect_file(path: str, collector: Collector, stdin: BinaryIO | None, *, is_named: bool) -> None:
    """Collect the documents of a file.

    ``is_named`` says whether the user named the file itself. A kustomization or chart that was only found in a folder
    is skipped with a warning. Raises InputError if the file cannot be read or parsed.
    """
    build_option = BUILD_OPTIONS.get(os.path.basename(path))
    if build_option and not is_named:
        warning = f"not built, so its files are read as they are; {build_option} builds it"
        collector.warnings.append(f"{format_file_path(path)}: {warning}")
        return
    try:
        _collect_documents(path, collector, stdin, is_named=is_named)
    except RecursionError:
        raise InputError("nested too deeply", where=format_file_path(path)) from None


def _collect_documents(path: str, collector: Collector, stdin: BinaryIO | None, *, is_named: bool) -> None:
    """Collect the documents of a file.

    Long JSON lists are read piece by piece. Documents that are not objects are an error if the user named the file
    (``is_named``), and otherwise cause a warning. Raises InputError if the file cannot be read or parsed.
    """
    with open_file(path, stdin) as reader:
        previous_count = collector.documents
        other_documents: list[Place] = []
        number = 1

        # Long JSON lists at the beginning
        data = reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
        while len(data) >= SMALL and (head := match_list_head(data)):
            place = Place(reader.name, number)
            data = ListReader(data, head, reader, collector, place).read_list().lstrip()
            data += reader.read(max(SMALL - len(data), 0))
            number += 1
            collector.documents += 1

        # All other documents
        for value, document_number, line in parse_documents(read_content(reader, data), number):
            place = Place(reader.name, document_number, line)
            if is_named or (isinstance(value, dict) and value.get("kind")):
                collector.add_document(value, place)
            else:
                other_documents.append(place)
        if collector.documents == previous_count:
            collector.warnings.append(f"{reader.name}: ignored, since it contains no Kubernetes objects")
        else:
            collector.warnings += [f"{place}: no Kubernetes object, so it is ignored" for place in other_documents]
