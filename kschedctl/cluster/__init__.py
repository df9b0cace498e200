"""The cluster as read at one moment: typed objects by kind, and the kinds that were not read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import msgspec

from kschedctl.api import admission_hooks
from kschedctl.api import objects as api
from kschedctl.api.component_flags import (
    DEFAULT_API_SERVER,
    OPTIONAL_PLUGINS,
    OTHER_PLUGINS,
    ApiServerInstance,
    AutoscalerInstance,
    read_api_server,
    read_autoscaler,
)
from kschedctl.api.decoding import convert_builtins, type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.kinds import (
    KINDS,
    OTHER_CUSTOM_RESOURCE,
    Objects,
    ReadFor,
    get_kind,
    get_unique_kind_name,
    is_read_name,
)
from kschedctl.api.kube_version import KUBE_VERSION, KubeVersion, VersionMix
from kschedctl.api.operator_resources import build_custom_resource, may_create_pods
from kschedctl.api.ownership import COPIED_FROM_NODES, Owner
from kschedctl.api.pod_table import PodTable
from kschedctl.api.versions_read import (
    describe_accepted_version,
    describe_skipped,
    find_unknown_field,
    is_relevant_kind,
    is_unknown_newer_version,
)
from kschedctl.errors import InputError, UsageError

FIELDS = {kind.name: kind.field for kind in KINDS.values()}
"""Kind -> the attribute of a Cluster that holds its objects."""
_KINDS_WITH_TEMPLATES = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")

CLUSTER_SCOPED = frozenset(kind.name for kind in KINDS.values() if not kind.namespaced)


def _list_kinds(*purposes: ReadFor) -> tuple[str, ...]:
    """Return the kinds that are read for one of these purposes."""
    return tuple(kind.name for kind in KINDS.values() if kind.read_for in purposes)


OBSERVED = _list_kinds(ReadFor.HISTORY)
"""The kinds that record how scheduling went. They change all the time, and no verdict depends on them."""

LIMITS = _list_kinds(ReadFor.LIMITS)
ADMISSION_HOOK_KINDS = tuple(admission_hooks.KINDS)
"""Admission webhooks and policies. A server that does not serve these kinds has no such objects."""
QUEUE_KINDS = _list_kinds(ReadFor.ELSEWHERE)
"""The kinds that hold back pods before kube-scheduler sees them: kinds of job queues, and custom resources."""

CREATION_KINDS = _list_kinds(ReadFor.CREATION, ReadFor.ELSEWHERE, ReadFor.LIMITS)
"""The kinds that scheduling does not read. They determine which pods are created and admitted."""


class Gap(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why a kind is not covered. Objects of such a kind may exist without having been read."""

    why: str
    """Completes a sentence that begins with the kind's plural, such as "could not be read: forbidden"."""
    namespace: str = ""
    """The only namespace in which the kind is covered, or ""."""

    @property
    def is_unrequested(self) -> bool:
        """True if the kind was not requested, rather than refused by the API server.

        A snapshot stores only the text of a gap, so the text decides.
        """
        return self.why.startswith(NOT_ASKED_FOR)

    @property
    def is_not_given(self) -> bool:
        """True if the input files merely contain no objects of the kind. The text decides here too."""
        return self.why.startswith(NOT_GIVEN)

    @property
    def is_not_listed(self) -> bool:
        """True if the kind was not requested from the API server. The text decides here too."""
        return self.why.startswith(NOT_LISTED)


NOT_GIVEN = "were not among the files"
NOT_AMONG_OBJECTS = "were not among the objects"
NOT_LISTED = "were not read"
NOT_HELD = "are not in snapshots of that version"
NOT_ASKED_FOR = (NOT_GIVEN, NOT_AMONG_OBJECTS, NOT_LISTED, NOT_HELD)
"""Reasons for which kinds are not covered although the API server did not refuse them."""
CONTROLLER_ALLOCATION_GAP = Gap("that a driver's controller allocates are not replayed")


def build_gaps(covered: Collection[str], reason: str) -> dict[str, Gap]:
    """Build a gap with this reason for each kind that is not covered."""
    return {kind: Gap(reason) for kind in FIELDS if kind not in covered}


class SchedulerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of kube-scheduler."""

    name: str
    version: str = ""
    """Tag of its image."""
    flags: dict[str, str] = {}
    """The flags that affect what it does."""


class Provenance(msgspec.Struct, frozen=True, rename="camel"):
    """When and from which live cluster the objects were read."""

    server: str
    context: str = ""
    namespace: str = DEFAULT_NAMESPACE
    server_version: str = ""
    read_at: str = ""
    resource_versions: dict[str, str] = {}
    """Resource version of the list of each kind."""
    changed: dict[str, int] = {}
    """Number of objects by kind that changed between the first list and the last. The changes are applied."""
    leader: str = ""
    """The instance of kube-scheduler that leads."""
    configured_by: str = ""
    """The place at which the scheduler's configuration was found."""
    instances: tuple[SchedulerInstance, ...] = ()
    """The pods of kube-scheduler, if they may be read."""


class ClusterSettings(TypedDict, total=False):
    """Fields of a Cluster other than its objects."""

    configuration: JsonObject | None
    feature_gates: Mapping[str, bool]
    kube_version: str
    admit: bool
    origins: Mapping[tuple[str, str, str], str]
    skipped: Mapping[str, int]
    gaps: Mapping[str, Gap]
    warnings: tuple[str, ...]
    other_builds: bool
    listed: Mapping[str, Mapping[tuple[str, str], int]]
    autoscaler: AutoscalerInstance | None
    api_server: ApiServerInstance


@dataclass(frozen=True, repr=False)
class Cluster(Objects):
    """The objects of a cluster by kind, sorted by namespace and name.

    No two objects of a kind have the same namespace and name. ``pods`` becomes a table. An object that is not in the
    cluster is absent if its kind is covered. Otherwise, it is unknown whether the object exists.
    """

    configuration: JsonObject | None = None
    """A KubeSchedulerConfiguration document, or None for the default."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """The gates that are set explicitly."""
    kube_version: str = KUBE_VERSION
    version_mix: VersionMix | None = None
    """The parts of the scheduler that have another version than ``kube_version``."""
    kueue_version: str = ""
    """The release of Kueue to replay, or "" for that of its Deployment."""
    admit: bool = False
    """True if admission is replayed for unbound pods."""
    origins: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """(kind, namespace, name) -> ``file`` or ``file, document 3``, for objects whose origin is known."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of objects of each kind that scheduling does not read."""
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    """The kinds that are not covered."""
    provenance: Provenance | None = None
    """When and where a live cluster was read."""
    warnings: tuple[str, ...] = ()
    """Warnings for those who provided the files."""
    other_builds: bool = True
    """True if unknown plugins of the configuration are assumed to be compiled into the scheduler."""
    listed: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    """The index of each node and pod among the objects, if they were given one by one."""
    autoscaler: AutoscalerInstance | None = None
    """The settings of the Cluster Autoscaler, if they were read."""
    api_server: ApiServerInstance = DEFAULT_API_SERVER
    """The settings of kube-apiserver, or the defaults if they were not read."""

    def __post_init__(self) -> None:
        """Convert the pods to a table."""
        object.__setattr__(self, "pods", PodTable.from_pods(self.pods))

    @classmethod
    def of(cls, objects: Mapping[str, Iterable[api.Struct]], **settings: Unpack[ClusterSettings]) -> Self:
        """Build a cluster from typed objects by kind. A later object replaces an earlier one of the same name.

        Missing namespaces become ``default``. `settings` are the other fields of the cluster.
        """
        fields: dict[str, Any] = {}
        for kind, objects_of_kind in objects.items():
            if kind == "Pod":
                fields["pods"] = _build_pod_table(objects_of_kind)
            else:
                fields[FIELDS[kind]] = _sort_and_deduplicate(kind, objects_of_kind)
        return cls(**fields, **settings)

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[JsonObject],
        config: JsonObject | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        admit: bool = False,
        other_builds: bool = False,
        *,
        assume_complete: bool = True,
        kube_version: str = KUBE_VERSION,
    ) -> Self:
        """Build a cluster from documents as kubectl prints them, including Lists.

        The documents count as all objects that exist. If ``assume_complete`` is false, only the kinds of Lists count as
        complete. An object of a newer API version is read if all its fields are known, and otherwise leaves a gap. An
        object of an older API version is read like an object of the supported version. ``config`` is the scheduler's
        configuration. ``kube_version`` is the version of the replayed scheduler: a minor version (its newest patch) or
        a release such as ``v1.34.1-eks-…``. The other arguments are fields of the cluster. Raises InputError for fields
        of a wrong type, and ConfigurationError for a version that cannot be replayed.
        """
        KubeVersion.parse_supported(kube_version)
        if not isinstance(objects, Iterable):
            raise InputError(f"expected a list of objects, got {type_name(objects)}")
        documents = list(objects)
        decoded = _decode_documents(documents)
        gaps = {} if assume_complete else build_gaps(set(_iter_kinds_of_lists(documents)), NOT_AMONG_OBJECTS)
        autoscalers = filter(None, map(read_autoscaler, flatten_lists(documents)))
        api_servers = filter(None, map(read_api_server, flatten_lists(documents)))
        return cls.of(
            decoded.by_kind,
            configuration=config,
            feature_gates=feature_gates or {},
            admit=admit,
            other_builds=other_builds,
            gaps=gaps | decoded.gaps,
            kube_version=kube_version,
            warnings=tuple(decoded.warnings),
            listed={kind: _index_by_name(decoded.by_kind.get(kind, ())) for kind in ("Node", "Pod")},
            autoscaler=next(autoscalers, None),
            api_server=next(api_servers, DEFAULT_API_SERVER),
        )

    def find_gap(self, kind: str, namespace: str = "") -> Gap | None:
        """Return the reason why some objects of the kind may not have been read, or None if all were read.

        With `namespace`, only the objects in this namespace matter.
        """
        gap = self.gaps.get(kind)
        if gap is None:
            return None
        # A gap with a namespace means that only the objects of this namespace were read
        was_namespace_read = bool(namespace) and gap.namespace == namespace
        return None if was_namespace_read else gap

    def gap(self, kind: str, namespace: str = "") -> Gap | None:
        """Return `find_gap` with these arguments. Deprecated since 1.1: call `find_gap`."""
        warnings.warn("Cluster.gap is deprecated: call find_gap", DeprecationWarning, stacklevel=2)
        return self.find_gap(kind, namespace)

    def __repr__(self) -> str:
        """Return one line with the number of objects of each kind."""
        counts = ((kind, len(getattr(self, name))) for kind, name in FIELDS.items())
        kinds_held = ", ".join(f"{number:,} {kind}" for kind, number in counts if number) or "nothing"
        server = f" of {self.provenance.server}" if self.provenance else ""
        return f"<kschedctl.Cluster{server}: {kinds_held}; kube-scheduler {self.kube_version}>"

    def pod(self, namespace: str, name: str) -> api.Pod | None:
        """Return the pod of that name, or None."""
        return self.pods.find(namespace, name)

    def list_in_namespace(self, field: str, namespace: str) -> Sequence[Any]:
        """Return the objects of a field, such as ``services``, in a namespace. The field is indexed on first use."""
        if field not in self._by_namespace:
            by_namespace: dict[str, list[object]] = {}
            for obj in getattr(self, field):
                by_namespace.setdefault(obj.metadata.namespace, []).append(obj)
            self._by_namespace[field] = by_namespace
        return self._by_namespace[field].get(namespace, ())

    def in_namespace(self, field: str, namespace: str) -> Sequence[Any]:
        """Return `list_in_namespace` with these arguments. Deprecated since 1.1: call `list_in_namespace`."""
        warnings.warn("Cluster.in_namespace is deprecated: call list_in_namespace", DeprecationWarning, stacklevel=2)
        return self.list_in_namespace(field, namespace)

    @cached_property
    def _by_namespace(self) -> dict[str, dict[str, list[object]]]:
        """Objects by namespace, for each field that was looked up."""
        return {}

    @cached_property
    def topology_labels_of_templates(self) -> dict[Owner, dict[str, str]]:
        """The zone and region labels in pod templates, by workload. Workloads without such labels are left out."""
        labels_by_workload = {}
        for kind in _KINDS_WITH_TEMPLATES:
            for workload in getattr(self, FIELDS[kind]):
                template = workload.spec.template
                labels = {} if template is None else template.metadata.labels
                if not COPIED_FROM_NODES.isdisjoint(labels):
                    owner = Owner(kind, workload.metadata.namespace, workload.metadata.name)
                    labels_by_workload[owner] = {key: labels[key] for key in labels if key in COPIED_FROM_NODES}
        return labels_by_workload

    def unbound_pods(self) -> Iterable[api.Pod]:
        """Return the pods without a node, in order."""
        return self.pods.iter_unbound_pods()

    def with_admission_plugins(self, names: Iterable[str], source: str = "the caller") -> Self:
        """Return the cluster with these admission plugins enabled in addition to the defaults.

        `source` describes where the names come from. Without names, the cluster is returned unchanged. Raises
        UsageError for a name that is not a plugin of kube-apiserver.
        """
        names = tuple(names)
        if not names:
            return self
        unknown_names = sorted({*names} - {*OPTIONAL_PLUGINS} - OTHER_PLUGINS)
        if unknown_names:
            first, *_ = unknown_names
            hint = f"plugins that can be enabled: {', '.join(OPTIONAL_PLUGINS)}"
            raise UsageError(f'kube-apiserver has no admission plugin "{first}"', hint=hint)
        return replace(self, api_server=self.api_server.with_plugins(names, source))

    def with_objects(self, objects: Mapping[str, Iterable[api.Struct]]) -> Self:
        """Return a cluster with these objects added, replacing objects of the same name."""
        fields: dict[str, Any] = {}
        for kind, added in objects.items():
            if kind == "Pod":
                fields["pods"] = self.pods.add_or_replace(_build_pod_table(added))
            else:
                fields[FIELDS[kind]] = _sort_and_deduplicate(kind, (*getattr(self, FIELDS[kind]), *added))
        return replace(self, **fields)


class _DecodedDocuments(NamedTuple):
    """The objects of documents."""

    by_kind: dict[str, list[api.Struct]]
    gaps: dict[str, Gap]
    """The kinds with objects that could not be read."""
    warnings: dict[str, None]
    """A line for each newer API version whose objects were read."""


def _decode_documents(documents: Iterable[JsonObject]) -> _DecodedDocuments:
    """Decode documents, and collect the objects by kind, the gaps and the warnings about newer API versions.

    Objects that scheduling does not read are left out. Claims that a driver's controller allocates are left out as
    well, and leave a gap. Raises InputError if a document is malformed.
    """
    decoded = _DecodedDocuments({}, {}, {})
    for document in flatten_lists(documents):
        _add_decoded_document(decoded, document)
    return decoded


def _add_decoded_document(decoded: _DecodedDocuments, document: JsonObject) -> None:
    """Decode the document of an object, and add the object or its gap to `decoded`.

    Raises InputError if the document is malformed.
    """
    kind = get_kind(document)
    version = str(document.get("apiVersion") or "")
    if _is_controller_allocated(document, kind):
        decoded.gaps["ResourceClaim"] = CONTROLLER_ALLOCATION_GAP
        decoded.gaps[kind] = CONTROLLER_ALLOCATION_GAP
        return
    if not is_relevant_kind(kind, version):
        # A custom resource may still create pods.
        resource = build_custom_resource(document) if may_create_pods(document) else None
        if resource:
            decoded.by_kind.setdefault(OTHER_CUSTOM_RESOURCE, []).append(resource)
        return
    if not is_read_name(kind, object_at(document, "metadata").get("name")):
        return  # of kinds such as ConfigMap, only objects of certain names are read

    add_converted = partial(_add_converted_object, decoded.by_kind, document)
    if not is_unknown_newer_version(kind, version):
        add_converted()
        return
    gap = read_newer_version(kind, document, add_converted)
    if gap is not None:
        decoded.gaps.setdefault(kind, gap)
    else:
        decoded.warnings[describe_accepted_version(kind, version)] = None


def _index_by_name(objects: Iterable[Any]) -> dict[tuple[str, str], int]:
    """Return the index of each object in the iterable, by namespace and name.

    An object without a namespace is in the default namespace. If a name repeats, the last object wins.
    """
    indexes = {}
    for index, obj in enumerate(objects):
        indexes[obj.metadata.namespace or DEFAULT_NAMESPACE, obj.metadata.name] = index
    return indexes


def _add_converted_object(by_kind: dict[str, list[api.Struct]], document: JsonObject) -> None:
    """Convert a document and add it to the objects of its kind. Raises InputError."""
    by_kind.setdefault(get_kind(document), []).append(convert_document(document))


def _is_controller_allocated(document: JsonObject, kind: str) -> bool:
    """Return whether a driver's controller allocates the claim or the template's claims, as was possible up to 1.31."""
    if kind == "ResourceClaim":
        spec = object_at(document, "spec")
    elif kind == "ResourceClaimTemplate":
        spec = object_at(document, "spec", "spec")
    else:
        return False
    return bool(spec.get("resourceClassName") or spec.get("controller"))


def convert_document(document: JsonObject, location: str = "") -> api.Struct:
    """Convert a document to its struct.

    Raises InputError if a field has the wrong type. The error names the field and the `location`, by default the
    object.
    """
    try:
        return convert_builtins(drop_nulls(document), KINDS[get_kind(document)].struct)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=location or describe_document(document)) from None


def read_newer_version(kind: str, document: JsonObject, read: Callable[[], None]) -> Gap | None:
    """Read an object of an unknown newer API version. Return a gap if this fails, otherwise None.

    Reading fails if the object has an unknown field, or if ``read`` raises InputError. ``read`` reads the object.
    """
    reason = find_unknown_field(kind, drop_nulls(document))
    if not reason:
        try:
            read()
        except InputError as error:
            reason = error.what
        else:
            return None
    return Gap(describe_skipped(str(document["apiVersion"]), reason))


def describe_document(document: JsonObject) -> str:
    """Return the name of an object for error messages, such as ``Pod shop/web``. The document may be malformed."""
    metadata = object_at(document, "metadata")
    parts = (metadata.get("namespace"), metadata.get("name"))
    name = "/".join(str(part) for part in parts if part)
    return f"{document.get('kind', 'object')} {name}".strip()


def flatten_lists(documents: Iterable[JsonObject]) -> Iterable[JsonObject]:
    """Yield the documents, with each List replaced by its items. Raises InputError for values that are not objects."""
    for index, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise InputError(f"items[{index}]: expected an object, got {type_name(document)}")
        items = document.get("items")
        if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
            yield from flatten_lists(items)
        else:
            yield document


def _iter_kinds_of_lists(documents: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the kinds that Lists cover: the kind of a typed List, or the kinds of the items of kubectl's List."""
    for document in documents:
        kind = str(document.get("kind", ""))
        if kind == "List":
            yield from (get_kind(item) for item in flatten_lists([document]))
        elif kind.endswith("List"):
            yield get_unique_kind_name(kind.removesuffix("List"), str(document.get("apiVersion", "")))


def _build_pod_table(pods: Iterable[Any]) -> PodTable:
    """Build a table of pods, with ``default`` in place of missing namespaces."""
    return PodTable.from_pods(pods).with_default_namespace(DEFAULT_NAMESPACE)


def _sort_and_deduplicate(kind: str, objects: Iterable[Any]) -> Sequence[object]:
    """Return the objects of a kind sorted by namespace and name. If a name repeats, the last object wins.

    Missing namespaces become ``default``. Custom resources of several kinds may have the same name.
    """
    by_key: dict[tuple[str, ...], object] = {}
    for obj in objects:
        if kind in CLUSTER_SCOPED:
            by_key[(obj.metadata.name,)] = obj
            continue
        namespaced = fill_namespace(obj)
        key: tuple[str, ...] = (namespaced.metadata.namespace, namespaced.metadata.name)
        if kind == OTHER_CUSTOM_RESOURCE:
            key = (*key, namespaced.resource_kind)
        by_key[key] = namespaced
    return tuple(by_key[key] for key in sorted(by_key))


def fill_namespace(obj: Any) -> Any:
    """Return the object, in the namespace ``default`` if it has none."""
    if obj.metadata.namespace:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=DEFAULT_NAMESPACE))
