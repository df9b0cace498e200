"""The collector of everything that is read from files: objects by kind, manifests, gaps and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.component_flags import ApiServerInstance, AutoscalerInstance, read_api_server, read_autoscaler
from kschedctl.api.decoding import type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.events import is_irrelevant_object
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import (
    KINDS,
    OTHER_CUSTOM_RESOURCE,
    describe_lifecycle,
    get_kind,
    get_unique_kind_name,
    is_read_name,
)
from kschedctl.api.operator_resources import build_custom_resource, may_create_pods
from kschedctl.api.pod_table import PodRows, PodTableBuilder
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, POD_HOLDERS, iter_unknown_fields
from kschedctl.api.validation.written import AROUND_PODS
from kschedctl.api.versions_read import check_api_version, describe_accepted_version, is_unknown_newer_version
from kschedctl.cluster import (
    CLUSTER_SCOPED,
    CREATION_KINDS,
    FIELDS,
    NOT_GIVEN,
    OBSERVED,
    Gap,
    build_gaps,
    fill_namespace,
    read_newer_version,
)
from kschedctl.errors import InputError
from kschedctl.sources.decoding import RESOURCE_FIELDS, decode_document, validate_names, validate_quantities
from kschedctl.sources.documents.place import Place, get_origin_file
from kschedctl.sources.list_items import NodeItems, PodItems, to_plain_struct
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewFieldWarnings
from kschedctl.text.counts import agreeing, counted

CONFIGURATION = "KubeSchedulerConfiguration"
MAX_REPORTED_FIELDS = 20
"""The maximum number of unknown fields of one document that are reported one by one."""
MAX_REPORTED_CONFLICTS = 5
"""The maximum number of objects with different definitions that are reported one by one."""
STORED_WORKLOADS = frozenset(CREATION_KINDS) & POD_HOLDERS
"""The kinds of workloads. Objects without a UID are manifests, which are not part of the cluster."""


class ObjectBatch(NamedTuple):
    """Objects of one kind from one document."""

    kind: str
    origin: str
    """The file of the document, as ``file`` or ``file, document 3``."""
    namespaces: Sequence[str]
    """The namespace of each object, or "" if the document does not set one."""
    names: Sequence[str]
    """The name of each object."""


class Manifest(NamedTuple):
    """The document of a pod or workload: written by a person, or stored by an API server if it has a UID."""

    document: JsonObject
    place: Place


class Origins(Mapping[tuple[str, str, str], str]):
    """The files with the objects of a cluster, by kind, namespace and name, as ``file`` or ``file, document 3``.

    The map is built on its first access.
    """

    def __init__(self, batches: list[ObjectBatch]) -> None:
        self._batches = batches

    @cached_property
    def _origin_by_key(self) -> dict[tuple[str, str, str], str]:
        """The origin of each object, by kind, namespace and name."""
        return {
            _build_object_key(batch.kind, *key): batch.origin
            for batch in self._batches
            for key in zip(batch.namespaces, batch.names, strict=True)
        }

    def get_files(self, kind: str) -> set[str]:
        """Return the names of the files that contain objects of a kind, without the numbers of the documents."""
        origins = {batch.origin for batch in self._batches if batch.kind == kind and batch.names}
        return {get_origin_file(origin) for origin in origins}

    def get_file(self, kind: str, namespace: str, name: str) -> str:
        """Return the name of the file that contains an object, without the number of the document."""
        return get_origin_file(self._origin_by_key[_build_object_key(kind, namespace, name)])

    def __getitem__(self, key: tuple[str, str, str]) -> str:
        return self._origin_by_key[key]

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return iter(self._origin_by_key)

    def __len__(self) -> int:
        return len(self._origin_by_key)


class Collector:
    """A collector of documents and list items, in the order in which they are read."""

    def __init__(self) -> None:
        self.batches: list[ObjectBatch] = []
        self.manifests: list[Manifest] = []
        """The pods and workloads without UID."""
        self.stored: list[Manifest] = []
        """The workloads with a UID, as documents."""
        self.around: list[Manifest] = []
        """The objects without UID of kinds that pods refer to, such as claims and PriorityClasses."""
        self.skipped: Counter[str] = Counter()
        """The number of objects of each kind that are not read."""
        self.warnings: list[str] = []
        self.configuration: JsonObject | None = None
        self.autoscaler: AutoscalerInstance | None = None
        self.api_server: ApiServerInstance | None = None
        self.documents = 0
        """The number of documents and list items, except items that become structs directly."""
        self.covered: set[str] = set()
        """The kinds of which a complete list was read."""
        self.left_out: dict[str, Gap] = {}
        """The kinds with objects in a newer API version that could not be read."""
        self._truncated: set[str] = set()
        """The kinds of which a list was cut into pages."""
        self._faulty: set[str] = set()
        """The kinds of workloads with objects that could not be decoded."""
        self._new_field_warnings = NewFieldWarnings()
        self._objects: dict[str, list[object]] = {}
        self._pods = PodTableBuilder()
        self._items = PodItems(self._pods)
        self._nodes = NodeItems()

    @property
    def objects(self) -> dict[str, Sequence[Any]]:
        """All collected objects by kind, with pods as a table. No more objects can be added afterwards.

        A stored workload, which has a UID, is not replaced by a manifest that has yet to be applied.
        """
        objects: dict[str, Sequence[Any]] = {
            kind: _drop_manifests_of_stored_objects(kind, collected) if kind in POD_HOLDERS else collected
            for kind, collected in self._objects.items()
        }
        if "Pod" in objects:
            objects["Pod"] = self._items.build_table()
        return objects

    def list_conflicts(self) -> list[str]:
        """Return a warning for each object that is defined differently in two documents, which says which one is used.

        A manifest that changes an object of the cluster, which has a UID, is meant to differ and does not count. At
        most MAX_REPORTED_CONFLICTS objects are named, and the remaining ones are only counted. Conflicts of pods are
        known once `objects` was read.
        """
        batches_by_kind: dict[str, list[ObjectBatch]] = {}
        for batch in self.batches:
            batches_by_kind.setdefault(batch.kind, []).append(batch)
        conflicts: list[str] = []
        for kind, batches in batches_by_kind.items():
            if kind == "Pod":
                conflicts += _iter_conflicts_of_pods(batches, self._items.conflicts)
            elif kind not in OBSERVED and kind != OTHER_CUSTOM_RESOURCE:
                conflicts += _iter_conflicts_of_kind(kind, batches, self._objects[kind])
        conflicts += _iter_conflicts_of_manifests(self.manifests)
        if len(conflicts) > MAX_REPORTED_CONFLICTS:
            further_count = len(conflicts) - MAX_REPORTED_CONFLICTS
            verb = agreeing(further_count, "differs", "differ")
            conflicts[MAX_REPORTED_CONFLICTS:] = [f"{counted(further_count, 'more object')} {verb} between documents"]
        return conflicts

    def add_document(self, document: object, place: Place) -> None:
        """Add a parsed document or list item to the cluster's objects, to the manifests, or to both.

        A document that is neither is counted as skipped. The flags in a pod of the Cluster Autoscaler or kube-apiserver
        are recorded as well. Raises InputError if the document is invalid.
        """
        if not isinstance(document, dict):
            raise place.error(f"expected an object, got {type_name(document)}")
        kind, version = (_get_string_field(document, field, place) for field in ("kind", "apiVersion"))
        self.documents += 1
        self._add_as_object(document, kind, version, place)
        self.autoscaler = self.autoscaler or read_autoscaler(document)
        self.api_server = self.api_server or read_api_server(document)
        self._add_manifest_or_warn(document, kind, version, place)

    def _add_as_object(self, document: dict[str, object], kind: str, version: str, place: Place) -> None:
        """Add the document's object, or the items of its list, to the cluster.

        A KubeSchedulerConfiguration is stored. An unknown object that may create pods is added in a reduced form. Other
        unknown objects are counted as skipped. Raises InputError if an object is malformed.
        """
        if kind.endswith("List") and "items" in document:
            self._add_list(document, kind, version, place)
        elif kind == CONFIGURATION:
            self._set_configuration(document, place)
        elif self.accepts_kind_and_version(get_unique_kind_name(kind, version), version, place):
            self._add_object_in_any_version(document, get_unique_kind_name(kind, version), version, place)
        elif may_create_pods(document) and (resource := build_custom_resource(document)):
            self.add_objects(OTHER_CUSTOM_RESOURCE, [resource], place.origin)
        else:
            self.skipped[kind] += 1

    def _add_manifest_or_warn(self, document: dict[str, object], kind: str, version: str, place: Place) -> None:
        """Add a document without UID as a manifest if it is a pod, a workload, or of a kind in AROUND_PODS.

        A document with a UID exists in a cluster already: a workload is collected as a stored one, and a pod only gets
        warnings about new fields. Karpenter's objects only get warnings about unknown fields. All other documents, and
        documents in AROUND_PODS whose API is custom or newer, are ignored.
        """
        has_uid = _has_uid(document)
        if kind in POD_HOLDERS and not has_uid:
            self._add_manifest(document, place)
        elif kind == "Pod":  # a stored one, as are the workloads below
            self.warn_of_new_pod_fields(document, place)
        elif kind in POD_HOLDERS:
            self.stored.append(Manifest(document, place))
        elif kind in KARPENTER_KINDS:
            self._warn_of_unknown_fields(document, place)
        elif kind in AROUND_PODS:
            has_known_schema = not is_custom_api(version) and not is_unknown_newer_version(kind, version)
            if has_known_schema and not has_uid:
                self.around.append(Manifest(document, place))

    def prepare_items(self, kind: str, items: list[Any], get_place: Callable[[int], Place]) -> list[Any] | PodRows:
        """Validate decoded items, and return the objects or pod rows to pass to ``add_objects``.

        Items that are not needed, such as irrelevant events and workloads without UID, are left out. ``get_place``
        returns the place of the item at an index. Raises InputError if a name or quantity is invalid, and
        msgspec.ValidationError if a pod cannot be decoded.
        """
        if kind == "Pod":
            return self._items.build_rows(items, get_place)
        if kind in OBSERVED:
            return self._filter_relevant(kind, [to_plain_struct(kind, item) for item in items])
        if KINDS[kind].names:  # only objects with these names are read, such as certain ConfigMaps
            read_items = [item for item in items if is_read_name(kind, item.metadata.name)]
            self.skipped[kind] += len(items) - len(read_items)
            items = read_items
        if kind in STORED_WORKLOADS:
            items = [item for item in items if item.metadata.uid and item.metadata.name]
        for index, item in enumerate(items):
            _validate_object(kind, item, partial(get_place, index))
        if kind == "Node":
            return self._nodes.build_nodes(items)
        return [to_plain_struct(kind, item) for item in items]

    def add_objects(self, kind: str, objects: list[Any] | PodRows, origin: str) -> None:
        """Add objects or pod rows returned by ``prepare_items``, and record their file."""
        collected = self._objects.setdefault(kind, [])  # stays empty for pods, which become a table at the end
        if isinstance(objects, PodRows):
            self._pods.add_rows(objects)
            self.batches.append(ObjectBatch(kind, origin, objects.namespaces, objects.names))
            return
        if kind == "Pod":
            self._pods.add_pods(objects)
        else:
            collected += objects
        metas = [obj.metadata for obj in objects]
        self.batches.append(
            ObjectBatch(kind, origin, [meta.namespace for meta in metas], [meta.name for meta in metas])
        )

    def accepts_kind_and_version(self, kind: str, version: str, place: Place) -> bool:
        """Return whether objects of this kind are read.

        Raises InputError if the document is not an object of a cluster, or if its version is too old to be read.
        """
        if not kind:
            raise place.error("not a Kubernetes object: it has no kind")
        if kind in ("Table", "Status"):
            raise place.error(
                f"a {kind} is not a cluster object", hint="use the output of kubectl get -o json or -o yaml"
            )
        return check_api_version(kind, version, place.error)

    @property
    def gaps(self) -> dict[str, Gap]:
        """The kinds that may have more objects than were read, each with the reason."""
        gaps = build_gaps(self.covered, NOT_GIVEN)
        gaps |= dict.fromkeys(self._truncated & FIELDS.keys(), Gap("were read only in part, because of a limit"))
        gaps |= dict.fromkeys(self._faulty, Gap("could not all be read: some have unexpected fields"))
        return gaps | self.left_out

    def add_covered_kinds(self, kinds: Iterable[str], metadata: object, place: Place) -> None:
        """Record that a list contained all objects of these kinds.

        If the list's metadata says that more pages follow, record a warning instead.
        """
        if isinstance(metadata, dict) and metadata.get("continue"):
            self.warnings.append(f"{place}: incomplete list, because it was read with a limit")
            self._truncated.update(kinds)
        else:
            self.covered.update(kinds)

    def _add_list(self, document: dict[str, object], kind: str, version: str, place: Place) -> None:
        """Add the items of a List, and record which kinds the List covers.

        Items of a typed list get its kind and version. Raises InputError if an item is malformed.
        """
        items = document["items"]
        if items is None:
            items = []
        if not isinstance(items, list):
            raise place.error(f"expected array, got {type_name(items)}", "items")
        item_kind = kind.removesuffix("List")
        if item_kind:
            kinds = [get_unique_kind_name(item_kind, version)]
            defaults = {"apiVersion": version, "kind": item_kind}
        else:
            kinds = [get_kind(item) for item in items if isinstance(item, dict)]
            defaults = {}
        self.add_covered_kinds(kinds, document.get("metadata"), place)
        for index, item in enumerate(items):
            self.add_document({**defaults, **item} if isinstance(item, dict) else item, place.item(index))

    def _add_object_in_any_version(self, document: dict[str, object], kind: str, version: str, place: Place) -> None:
        """Add an object of a kind that is read, in a known or a newer API version.

        Raises InputError if the object is malformed.
        """
        if is_unknown_newer_version(kind, version):
            self._add_newer_version(document, kind, place)
        else:
            self._add_object(document, kind, place)

    def _add_newer_version(self, document: dict[str, object], kind: str, place: Place) -> None:
        """Read an object as the newest known version, because its apiVersion is newer, and add it.

        If the object cannot be read, record that its kind is incomplete. Otherwise, record a warning once per version.
        """

        add_in_known_version = partial(self._add_object, document, kind, place)
        gap = read_newer_version(kind, document, add_in_known_version)
        if gap is not None:
            self.left_out.setdefault(kind, gap)
            self.skipped[kind] += 1
            return
        warning = describe_accepted_version(kind, str(document["apiVersion"]))
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _add_object(self, document: dict[str, object], kind: str, place: Place) -> None:
        """Decode, validate and add an object of a kind that is read, and warn about unknown fields.

        Workloads without UID are ignored, and a malformed workload only leaves a gap. Objects that do not matter for
        scheduling are counted as skipped. Raises InputError if any other object is malformed.
        """
        if kind in STORED_WORKLOADS:
            self._add_stored_workload(document, kind, place)
            return
        if not is_read_name(kind, object_at(document, "metadata").get("name")):
            self.skipped[kind] += 1
            return
        obj = decode_document(document, KINDS[kind].struct, place)
        if kind in FULLY_KNOWN_KINDS:
            self.warn_of_new_fields(kind, document, place)
        if kind in OBSERVED:
            if relevant := self._filter_relevant(kind, [obj]):
                self.add_objects(kind, relevant, place.origin)
            return
        _validate_object(kind, obj, lambda: place)
        self.add_objects(kind, [obj], place.origin)

    def _add_stored_workload(self, document: dict[str, object], kind: str, place: Place) -> None:
        """Add a workload of a cluster, or record that its kind is incomplete if the workload is invalid.

        Workloads without UID are ignored.
        """
        if not _has_uid(document):
            return
        try:
            obj = decode_document(document, KINDS[kind].struct, place)
            _validate_object(kind, obj, lambda: place)
        except InputError:
            self._faulty.add(kind)
        else:
            self.add_objects(kind, [obj], place.origin)

    def _filter_relevant(self, kind: str, objects: list[Any]) -> list[Any]:
        """Return the events and other observed objects that concern scheduling, and count the others as skipped."""
        relevant = [obj for obj in objects if not is_irrelevant_object(obj)]
        if len(relevant) < len(objects):
            self.skipped[kind] += len(objects) - len(relevant)
        return relevant

    def _set_configuration(self, document: dict[str, object], place: Place) -> None:
        """Store the scheduler's configuration. Raises InputError if there already is one."""
        if self.configuration is not None:
            raise place.error(f"a second {CONFIGURATION}", hint="a scheduler has only one")
        self.configuration = document

    def _add_manifest(self, document: dict[str, object], place: Place) -> None:
        """Add the manifest of a pod or workload, and warn about its API version and its fields."""
        self.manifests.append(Manifest(document, place))
        kind = str(document["kind"])
        version = str(document.get("apiVersion"))
        if warning := describe_lifecycle(version, kind):
            self.warnings.append(f"{place}: {kind} in apiVersion {version} {warning}")
        self._warn_of_unknown_fields(document, place)

    def warn_of_new_pod_fields(self, pod: JsonObject, place: Place) -> None:
        """Warn about each field in a stored pod's spec that only a newer API has, once per field."""
        self.warnings += self._new_field_warnings.iter_pod_warnings(pod, place)

    def warn_of_new_fields(self, kind: str, document: JsonObject, place: Place) -> None:
        """Warn about each unknown field of an object of one of FULLY_KNOWN_KINDS, once per field."""
        self.warnings += self._new_field_warnings.iter_warnings(kind, document, place)

    def _warn_of_unknown_fields(self, document: dict[str, object], place: Place) -> None:
        """Warn about fields of a manifest that the API does not know and would drop.

        At most MAX_REPORTED_FIELDS of the fields are named. The remaining fields are only counted.
        """
        unknown = list(iter_unknown_fields(document))
        self.warnings += [f"{place}: {field}" for field in unknown[:MAX_REPORTED_FIELDS]]
        if len(unknown) > MAX_REPORTED_FIELDS:
            self.warnings.append(f"{place}: {counted(len(unknown) - MAX_REPORTED_FIELDS, 'more unknown field')}")


def _validate_object(kind: str, obj: Any, get_place: Callable[[], Place]) -> None:
    """Raise InputError if an object has an invalid name or quantity. Only pods may have a generateName instead."""
    validate_names(obj.metadata, get_place, may_be_generated=kind == "Pod")
    if kind in RESOURCE_FIELDS:
        validate_quantities(RESOURCE_FIELDS[kind](obj), get_place)


def _drop_manifests_of_stored_objects(kind: str, objects: Sequence[Any]) -> list[Any]:
    """Return the objects of a kind without those that have no UID although another one of their name has."""

    def build_key(obj: Any) -> tuple[str, str, str]:
        """Return the object's kind, namespace and name."""
        return _build_object_key(kind, obj.metadata.namespace, obj.metadata.name)

    stored = {build_key(obj) for obj in objects if obj.metadata.uid}
    return [obj for obj in objects if obj.metadata.uid or build_key(obj) not in stored]


def _iter_conflicts_of_kind(kind: str, batches: Sequence[ObjectBatch], objects: Sequence[object]) -> Iterator[str]:
    """Yield a warning for each object of a kind that has different contents in two documents.

    `objects` are the objects of all batches, in the same order.
    """
    if len({batch.origin for batch in batches}) < 2:
        return
    latest: dict[tuple[str, str, str], tuple[int, str]] = {}
    index = 0
    for batch in batches:
        for namespace, name in zip(batch.namespaces, batch.names, strict=True):
            key = _build_object_key(kind, namespace, name)
            if key in latest:
                earlier_index, earlier_origin = latest[key]
                earlier_object, later_object = fill_namespace(objects[earlier_index]), fill_namespace(objects[index])
                is_changed_by_manifest = bool(earlier_object.metadata.uid) != bool(later_object.metadata.uid)
                is_same_document = earlier_origin == batch.origin
                if earlier_object != later_object and not is_changed_by_manifest and not is_same_document:
                    yield _describe_conflict(key, earlier_origin, batch.origin)
            latest[key] = index, batch.origin
            index += 1


def _iter_conflicts_of_pods(
    batches: Sequence[ObjectBatch], conflicting_pods: Iterable[tuple[str, str]]
) -> Iterator[str]:
    """Yield a warning for each of the conflicting pods, given as namespace and name."""
    origins_by_pod: dict[tuple[str, str], list[str]] = {pod: [] for pod in conflicting_pods}
    if not origins_by_pod:
        return
    for batch in batches:
        for pod in zip(batch.namespaces, batch.names, strict=True):
            if pod in origins_by_pod:
                origins_by_pod[pod].append(batch.origin)
    for pod, origins in origins_by_pod.items():
        *_, earlier_origin, later_origin = origins
        yield _describe_conflict(_build_object_key("Pod", *pod), earlier_origin, later_origin)


def _iter_conflicts_of_manifests(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield a warning for each workload to create that two documents define differently.

    Pods are left out, because they are objects as well. So are workloads with only a generateName, which are all new.
    """
    latest: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        kind, metadata = str(manifest.document["kind"]), object_at(manifest.document, "metadata")
        if kind == "Pod" or not metadata.get("name"):
            continue
        key = _build_object_key(kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
        earlier = latest.get(key)
        if earlier is not None and earlier.document != manifest.document:
            yield _describe_conflict(key, earlier.place.origin, manifest.place.origin)
        latest[key] = manifest


def _describe_conflict(key: tuple[str, str, str], earlier_origin: str, later_origin: str) -> str:
    """Describe that the object with this key is defined in two documents, of which the later one is used."""
    kind, namespace, name = key
    title = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    if earlier_origin == later_origin:
        return f"{title} is defined twice in {later_origin}, differently; the later definition is used"
    return f"{title} differs between {earlier_origin} and {later_origin}; the one in {later_origin} is used"


def _build_object_key(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    """Build the key of an object: its kind, namespace and name.

    The namespace is "" for cluster-scoped kinds, and otherwise the default namespace if none is set.
    """
    if kind in CLUSTER_SCOPED:
        return kind, "", name
    return kind, namespace or DEFAULT_NAMESPACE, name


def _get_string_field(document: dict[str, object], field: str, place: Place) -> str:
    """Return the string in a field, or "" if it is unset. Raises InputError for other types."""
    value = document.get(field)
    if value is not None and not isinstance(value, str):
        raise place.error(f"expected str, got {type_name(value)}", field)
    return value or ""


def _has_uid(document: dict[str, object]) -> bool:
    """Return whether the document has a UID. An object with a UID was stored by an API server."""
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))
