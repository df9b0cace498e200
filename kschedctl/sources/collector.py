"""What is read, put together: objects by kind, and everything that is not an object of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.decoding import type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import (
    KINDS,
    OTHER_CUSTOM_RESOURCE,
    describe_lifecycle,
    get_kind,
    is_read_name,
    unique_kind_name,
)
from kschedctl.api.newer_versions import describe_accepted
from kschedctl.api.observed.api_server import ApiServerInstance, read_api_server
from kschedctl.api.observed.autoscaler import AutoscalerInstance, read_autoscaler
from kschedctl.api.observed.events import is_irrelevant
from kschedctl.api.operator_resources import build_custom_resource, may_create_pods
from kschedctl.api.pod_table import PodRows, PodTableBuilder
from kschedctl.api.validation.around_pods import KINDS as AROUND_PODS
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, POD_HOLDERS, find_unknown_fields
from kschedctl.api.versions_read import is_newer_version, is_readable
from kschedctl.cluster import CLUSTER_SCOPED, FIELDS, NOT_GIVEN, OBSERVED, OF_CREATION, Gap, gaps_of, read_newer
from kschedctl.errors import InputError
from kschedctl.sources.documents.place import Place
from kschedctl.sources.kinds import to_plain_struct
from kschedctl.sources.list_items import NodeItems, PodItems
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewFieldWarnings
from kschedctl.sources.object_checks import RESOURCE_FIELDS, validate_names, validate_quantities
from kschedctl.sources.typed import decode_document
from kschedctl.text.counts import counted

CONFIGURATION = "KubeSchedulerConfiguration"
MOST_TOLD = 20
"""Unknown fields of one document that are named."""
ONLY_STORED = frozenset(OF_CREATION) & POD_HOLDERS
"""The kinds of which a manifest is no object of the cluster: they are read for what became of them."""


class FoundObjects(NamedTuple):
    """Objects of a kind, and where they came from."""

    kind: str
    origin: str
    namespaces: Sequence[str]
    names: Sequence[str]


class Manifest(NamedTuple):
    """A pod, or what holds the template of pods, as somebody wrote it or as an API server gave it, with a UID."""

    document: JsonObject
    place: Place


class Origins(Mapping[tuple[str, str, str], str]):
    """(kind, namespace, name) -> "file" or "file, document 3"; made when it is first looked at."""

    def __init__(self, batches: list[FoundObjects]) -> None:
        self._found = batches

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str], str]:
        return {
            _key(batch.kind, *key): batch.origin
            for batch in self._found
            for key in zip(batch.namespaces, batch.names, strict=True)
        }

    def files_of(self, kind: str) -> set[str]:
        """The files that hold objects of a kind."""
        origins = {batch.origin for batch in self._found if batch.kind == kind and batch.names}
        return {origin.rpartition(", document ")[0] or origin for origin in origins}

    def __getitem__(self, key: tuple[str, str, str]) -> str:
        return self._by_key[key]

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


class Collector:
    """Takes documents and items in the order in which they are read."""

    def __init__(self) -> None:
        self.found: list[FoundObjects] = []
        self.manifests: list[Manifest] = []
        self.stored: list[Manifest] = []
        self.around: list[Manifest] = []
        self.skipped: Counter[str] = Counter()
        self.warnings: list[str] = []
        self.configuration: JsonObject | None = None
        self.autoscaler: AutoscalerInstance | None = None
        self.api_server: ApiServerInstance | None = None
        self.documents = 0
        self.covered: set[str] = set()
        self._cut: set[str] = set()
        self._faulty: set[str] = set()
        self._told_fields = NewFieldWarnings()
        self.left_out: dict[str, Gap] = {}
        self._objects: dict[str, list[object]] = {}
        self._pods = PodTableBuilder()
        self._items = PodItems(self._pods)
        self._nodes = NodeItems()

    @property
    def objects(self) -> dict[str, Sequence[Any]]:
        """All that was added, by kind; of pods a table. No more can be added."""
        return {
            kind: self._items.build_table() if kind == "Pod" else objects for kind, objects in self._objects.items()
        }

    def document(self, document: object, place: Place, listed: bool = False) -> None:
        """A document, or an item of a list, as it was parsed. Raises InputError."""
        if not isinstance(document, dict):
            raise place.error(f"expected an object, got {type_name(document)}")
        kind, version = (_text(document, field, place) for field in ("kind", "apiVersion"))
        self.documents += 1
        if kind.endswith("List") and "items" in document:
            self._list(document, kind, version, place)
        elif kind == CONFIGURATION:
            self._configure(document, place)
        elif self.wanted(unique_kind_name(kind, version), version, place):
            newer = is_newer_version(unique_kind_name(kind, version), version)
            (self._newer if newer else self._object)(document, unique_kind_name(kind, version), place)
        elif may_create_pods(document) and (resource := build_custom_resource(document)):
            self.add(OTHER_CUSTOM_RESOURCE, [resource], place.origin)
        else:
            self.skipped[kind] += 1
        self.autoscaler = self.autoscaler or read_autoscaler(document)
        self.api_server = self.api_server or read_api_server(document)
        if kind in POD_HOLDERS and not _has_uid(document):
            self._manifest(document, place)
        elif kind in POD_HOLDERS and kind != "Pod":
            self.stored.append(Manifest(document, place))
        elif kind == "Pod":
            self.look_for_new_fields(document, place)
        elif kind in KARPENTER_KINDS:
            self._warn_of_fields(document, place)
        elif kind in AROUND_PODS and not (
            _has_uid(document) or is_custom_api(version) or is_newer_version(kind, version)
        ):
            self.around.append(Manifest(document, place))

    def checked(self, kind: str, items: list[Any], where: Callable[[int], Place]) -> list[Any] | PodRows:
        """Decoded items as they are added; ``where``: the place of one. Raises InputError, msgspec.ValidationError.

        Nothing is added yet. InputError is about names and quantities.
        """
        if kind == "Pod":
            return self._items.build_rows(items, where)
        if kind in OBSERVED:
            return self._told(kind, [to_plain_struct(kind, item) for item in items])
        if KINDS[kind].names:
            named = [item for item in items if is_read_name(kind, item.metadata.name)]
            self.skipped[kind] += len(items) - len(named)
            items = named
        if kind in ONLY_STORED:
            items = [item for item in items if item.metadata.uid and item.metadata.name]
        for index, item in enumerate(items):
            _check(kind, item, partial(where, index))
        return self._nodes.build_nodes(items) if kind == "Node" else [to_plain_struct(kind, item) for item in items]

    def add(self, kind: str, objects: list[Any] | PodRows, origin: str) -> None:
        """Add objects of one kind, which have passed all checks, and note the file that they come from."""
        kept = self._objects.setdefault(kind, [])
        if isinstance(objects, PodRows):
            self._pods.extend(objects)
            self.found.append(FoundObjects(kind, origin, objects.namespaces, objects.names))
            return
        if kind == "Pod":
            self._pods.add(objects)
        else:
            kept += objects
        metas = [obj.metadata for obj in objects]
        self.found.append(FoundObjects(kind, origin, [meta.namespace for meta in metas], [meta.name for meta in metas]))

    def wanted(self, kind: str, version: str, place: Place) -> bool:
        """Whether to read an object of this kind. Raises InputError where it is no object at all."""
        if not kind:
            raise place.error("not a Kubernetes object: it has no kind")
        if kind in ("Table", "Status"):
            raise place.error(f"a {kind} is no object of a cluster", hint="print the objects with -o json or -o yaml")
        return is_readable(kind, version, place.error)

    @property
    def gaps(self) -> dict[str, Gap]:
        """The kinds of which there may be more than was read."""
        cut = Gap("were read with a limit, so only a part of them")
        faulty = dict.fromkeys(self._faulty, Gap("could not all be read: some are of another shape"))
        return (
            gaps_of(self.covered, NOT_GIVEN)
            | {kind: cut for kind in self._cut if kind in FIELDS}
            | faulty
            | self.left_out
        )

    def covers(self, kinds: Iterable[str], metadata: object, place: Place) -> None:
        """The end of a list that holds all objects of these kinds, unless it was cut into pages: then it warns."""
        if isinstance(metadata, dict) and metadata.get("continue"):
            self.warnings.append(f"{place}: only part of the list: it was read with a limit")
            self._cut.update(kinds)
        else:
            self.covered.update(kinds)

    def _list(self, document: dict[str, object], kind: str, version: str, place: Place) -> None:
        items = document["items"]
        if items is not None and not isinstance(items, list):
            raise place.error(f"expected array, got {type_name(items)}", "items")
        own = kind.removesuffix("List")
        kinds = (
            [unique_kind_name(own, version)]
            if own
            else [get_kind(item) for item in items or () if isinstance(item, dict)]
        )
        self.covers(kinds, document.get("metadata"), place)
        given = {"apiVersion": version, "kind": own} if own else {}
        for index, item in enumerate(items or ()):
            self.document({**given, **item} if isinstance(item, dict) else item, place.item(index))

    def _newer(self, document: dict[str, object], kind: str, place: Place) -> None:
        """Take an object of a version that came later, or leave it out; that costs no other."""
        gap = read_newer(kind, document, lambda: self._object(document, kind, place))
        if gap is not None:
            self.left_out.setdefault(kind, gap)
            self.skipped[kind] += 1
        elif (said := describe_accepted(kind, str(document["apiVersion"]))) not in self.warnings:
            self.warnings.append(said)

    def _object(self, document: dict[str, object], kind: str, place: Place) -> None:
        if kind in ONLY_STORED:
            self._stored(document, kind, place)
            return
        if not is_read_name(kind, object_at(document, "metadata").get("name")):
            self.skipped[kind] += 1
            return
        obj = decode_document(document, KINDS[kind].struct, place)
        if kind in FULLY_KNOWN_KINDS:
            self.look_at_all_fields(kind, document, place)
        if kind in OBSERVED:
            if kept := self._told(kind, [obj]):
                self.add(kind, kept, place.origin)
            return
        _check(kind, obj, lambda: place)
        self.add(kind, [obj], place.origin)

    def _stored(self, document: dict[str, object], kind: str, place: Place) -> None:
        """A workload that a cluster has; where it cannot be read, that is told to whoever asks about it."""
        if not _has_uid(document):
            return
        try:
            obj = decode_document(document, KINDS[kind].struct, place)
            _check(kind, obj, lambda: place)
        except InputError:
            self._faulty.add(kind)
        else:
            self.add(kind, [obj], place.origin)

    def _told(self, kind: str, objects: list[Any]) -> list[Any]:
        """The objects that tell how scheduling went; the others are counted as skipped."""
        kept = [obj for obj in objects if not is_irrelevant(obj)]
        if len(kept) < len(objects):
            self.skipped[kind] += len(objects) - len(kept)
        return kept

    def _configure(self, document: dict[str, object], place: Place) -> None:
        if self.configuration is not None:
            raise place.error(f"a second {CONFIGURATION}", hint="one scheduler has one")
        self.configuration = document

    def _manifest(self, document: dict[str, object], place: Place) -> None:
        self.manifests.append(Manifest(document, place))
        kind, version = str(document["kind"]), str(document.get("apiVersion"))
        if said := describe_lifecycle(version, kind):
            self.warnings.append(f"{place}: {kind} in apiVersion {version} {said}")
        self._warn_of_fields(document, place)

    def look_for_new_fields(self, pod: JsonObject, place: Place) -> None:
        """Warn once of each field of a stored pod's spec that only a newer API can know."""
        self.warnings += self._told_fields.iter_pod_warnings(pod, place)

    def look_at_all_fields(self, kind: str, document: JsonObject, place: Place) -> None:
        """The same of an object of a kind that is in FULLY_KNOWN_KINDS."""
        self.warnings += self._told_fields.iter_warnings(kind, document, place)

    def _warn_of_fields(self, document: dict[str, object], place: Place) -> None:
        """Warn of fields that the API does not know: it drops them."""
        unknown = list(find_unknown_fields(document))
        self.warnings += [f"{place}: {field}" for field in unknown[:MOST_TOLD]]
        if len(unknown) > MOST_TOLD:
            self.warnings.append(f"{place}: {counted(len(unknown) - MOST_TOLD, 'more unknown field')}")


def _check(kind: str, obj: Any, where: Callable[[], Place]) -> None:
    """Raises InputError for an object without a name that can be one, and for quantities that are none."""
    validate_names(obj.metadata, where, may_be_generated=kind == "Pod")
    if kind in RESOURCE_FIELDS:
        validate_quantities(RESOURCE_FIELDS[kind](obj), where)


def _key(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    return kind, "" if kind in CLUSTER_SCOPED else namespace or DEFAULT_NAMESPACE, name


def _text(document: dict[str, object], field: str, place: Place) -> str:
    value = document.get(field)
    if value is not None and not isinstance(value, str):
        raise place.error(f"expected str, got {type_name(value)}", field)
    return value or ""


def _has_uid(document: dict[str, object]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))
