"""Everything that was read at one moment, typed, by kind and in the API's order, and where each object came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypedDict, Unpack

import msgspec

from kschedctl.api import admission_hooks
from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins, type_name
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS, OTHER_CUSTOM_RESOURCE, Objects, ReadFor, get_kind, is_read_name, unique_kind_name
from kschedctl.api.kube_version import KUBE_VERSION, KubeVersion, VersionMix
from kschedctl.api.newer_versions import describe_accepted, describe_skipped, find_unknown_field
from kschedctl.api.observed.api_server import (
    AS_BY_DEFAULT,
    OPTIONAL_PLUGINS,
    OTHER_PLUGINS,
    ApiServerInstance,
    read_api_server,
)
from kschedctl.api.observed.autoscaler import AutoscalerInstance, read_autoscaler
from kschedctl.api.operator_resources import build_custom_resource, may_create_pods
from kschedctl.api.pod_table import PodTable
from kschedctl.api.versions_read import is_newer_version, is_relevant_kind
from kschedctl.errors import InputError, UsageError

FIELDS = {kind.name: kind.field for kind in KINDS.values()}
"""The attribute of a Cluster that holds the objects of a kind."""

CLUSTER_SCOPED = frozenset(kind.name for kind in KINDS.values() if not kind.namespaced)


def _read_for(*purposes: ReadFor) -> tuple[str, ...]:
    return tuple(kind.name for kind in KINDS.values() if kind.read_for in purposes)


OBSERVED = _read_for(ReadFor.HISTORY)
"""The kinds that tell how scheduling went: no verdict leans on them, and they change all the time."""

LIMITS = _read_for(ReadFor.LIMITS)
HOOKS = tuple(admission_hooks.KINDS)
"""What else has a say in what is created: a server that does not serve it has none."""
ELSEWHERE = _read_for(ReadFor.ELSEWHERE)
"""The kinds that tell which pods wait before kube-scheduler sees them: those of queues, and custom resources."""

OF_CREATION = _read_for(ReadFor.CREATION, ReadFor.ELSEWHERE, ReadFor.LIMITS)
"""The kinds that scheduling does not read: they tell which pods are wanted, and what the API server allows of these."""


class Gap(msgspec.Struct, frozen=True, rename="camel"):
    """Why a kind is not covered: ``why`` goes on from its plural, as "could not be read: forbidden".

    ``namespace``: the only one in which it is covered all the same.
    """

    why: str
    namespace: str = ""


NOT_GIVEN = "were not among the files"
NOT_AMONG_OBJECTS = "were not among the objects"
NOT_LISTED = "were not read"
NOT_HELD = "are not in snapshots of that version"
NOT_ASKED_FOR = (NOT_GIVEN, NOT_AMONG_OBJECTS, NOT_LISTED, NOT_HELD)
"""Why kinds are not covered although nobody was refused them."""
NOT_REPLAYED = Gap("that a driver's controller allocates are not replayed")


def gaps_of(covered: Collection[str], why: str) -> dict[str, Gap]:
    """The gaps of what covers these kinds alone."""
    return {kind: Gap(why) for kind in FIELDS if kind not in covered}


class SchedulerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of kube-scheduler: the tag of its image, and those of its flags that decide what it does."""

    name: str
    version: str = ""
    flags: dict[str, str] = {}


class Provenance(msgspec.Struct, frozen=True, rename="camel"):
    """Which live cluster was read, when, and what moved meanwhile.

    ``resource_versions``: of the list of each kind; ``changed``: how many objects of a kind changed between the first
    list and the last, and are taken in; ``leader``: the instance of kube-scheduler that leads; ``configured_by``: where
    its configuration was found; ``instances``: kube-scheduler's pods, where they may be seen.
    """

    server: str
    context: str = ""
    namespace: str = DEFAULT_NAMESPACE
    server_version: str = ""
    read_at: str = ""
    resource_versions: dict[str, str] = {}
    changed: dict[str, int] = {}
    leader: str = ""
    configured_by: str = ""
    instances: tuple[SchedulerInstance, ...] = ()


class ClusterSettings(TypedDict, total=False):
    """What may be said of a Cluster besides its objects: its fields of these names."""

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
    """Objects by kind, sorted by namespace and name; no two of a kind share both. Other ``pods`` are made a table.

    ``configuration`` is a KubeSchedulerConfiguration document or None for the default; ``feature_gates`` holds those
    set explicitly; ``admit`` asks for what the API server does to pods on creation to be done to the unbound ones.
    ``origins`` maps (kind, namespace, name) to "file" or "file, document 3" where that is known; ``skipped`` counts
    what was read but is of kinds that scheduling does not read. ``gaps``: the kinds that are not covered. An object
    that is not here is absent when its kind is covered, else nobody knows.
    ``provenance`` says when and where a live cluster was read; ``warnings`` are what those who gave the files should
    know.
    ``other_builds``: a plugin of the configuration that is neither in-tree nor registered is taken for compiled into
    the scheduler, and named as not replayed; else it is refused, as kube-scheduler refuses it as it is released.
    ``listed``: the place of each node and pod among the objects, where they were given one by one.
    ``autoscaler``: how the Cluster Autoscaler runs, where that was read; ``api_server``: how kube-apiserver does, as by
    default where it was not. ``version_mix``: what of the scheduler is as it is in another version than
    ``kube_version``.
    """

    configuration: JsonObject | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    kube_version: str = KUBE_VERSION
    version_mix: VersionMix | None = None
    admit: bool = False
    origins: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    provenance: Provenance | None = None
    warnings: tuple[str, ...] = ()
    other_builds: bool = True
    listed: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    autoscaler: AutoscalerInstance | None = None
    api_server: ApiServerInstance = AS_BY_DEFAULT

    def __post_init__(self) -> None:
        object.__setattr__(self, "pods", PodTable.from_pods(self.pods))

    @classmethod
    def of(cls, objects: Mapping[str, Iterable[api.Struct]], **settings: Unpack[ClusterSettings]) -> Self:
        """From typed objects by kind; of two with the same name the later one counts."""
        fields: dict[str, Any] = {
            FIELDS[kind]: _pods(of_kind) if kind == "Pod" else _unique(kind, of_kind)
            for kind, of_kind in objects.items()
        }
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
        """From documents as kubectl prints them, Lists included; kinds that scheduling does not read are skipped.

        They are taken as all that there is; without ``assume_complete`` only Lists cover the kinds that they hold.
        Objects in a newer version of the API than is known are taken where all their fields are, else they are a gap;
        those in an older one as if they were in that which is read.
        ``kube_version``: of the scheduler that is replayed, a minor (its newest patch) or a release such as
        ``v1.34.1-eks-…``. Raises InputError for fields of the wrong type,
        ConfigurationError for a version that is not replayed.
        """
        KubeVersion.parse_supported(kube_version)
        if not isinstance(objects, Iterable):
            raise InputError(f"expected a list of objects, got {type_name(objects)}")
        documents = list(objects)
        by_kind, not_read, newer = _read(documents)
        gaps = {} if assume_complete else gaps_of(set(_listed(documents)), NOT_AMONG_OBJECTS)
        return cls.of(
            by_kind,
            configuration=config,
            feature_gates=feature_gates or {},
            admit=admit,
            other_builds=other_builds,
            gaps=gaps | not_read,
            kube_version=kube_version,
            warnings=tuple(newer),
            listed={kind: _places(by_kind.get(kind, ())) for kind in ("Node", "Pod")},
            autoscaler=next(filter(None, map(read_autoscaler, flatten(documents))), None),
            api_server=next(filter(None, map(read_api_server, flatten(documents))), AS_BY_DEFAULT),
        )

    def gap(self, kind: str, namespace: str = "") -> Gap | None:
        """Why objects of the kind that are not here may exist all the same, in this namespace or any; None: covered."""
        gap = self.gaps.get(kind)
        return None if gap is None or (namespace and gap.namespace == namespace) else gap

    def __repr__(self) -> str:
        """In one line: how many objects of each kind."""
        counts = ((kind, len(getattr(self, name))) for kind, name in FIELDS.items())
        held = ", ".join(f"{number:,} {kind}" for kind, number in counts if number) or "nothing"
        where = f" of {self.provenance.server}" if self.provenance else ""
        return f"<kschedctl.Cluster{where}: {held}; kube-scheduler {self.kube_version}>"

    def pod(self, namespace: str, name: str) -> api.Pod | None:
        """The pod of that name, if there is one."""
        return self.pods.find(namespace, name)

    def in_namespace(self, field: str, namespace: str) -> Sequence[Any]:
        """The objects of a field, such as ``services``, that are in a namespace; looked through once."""
        if field not in self._by_namespace:
            by_namespace: dict[str, list[object]] = {}
            for obj in getattr(self, field):
                by_namespace.setdefault(obj.metadata.namespace, []).append(obj)
            self._by_namespace[field] = by_namespace
        return self._by_namespace[field].get(namespace, ())

    @cached_property
    def _by_namespace(self) -> dict[str, dict[str, list[object]]]:
        return {}

    def unbound_pods(self) -> Iterable[api.Pod]:
        """The pods that have no node, in order."""
        return self.pods.iter_unbound()

    def with_admission_plugins(self, names: Iterable[str], told_by: str = "the caller") -> Self:
        """The cluster as if its API server had these admission plugins on besides the default ones.

        Without names as it was read. Raises UsageError for what is no plugin of kube-apiserver.
        """
        names = tuple(names)
        if unknown := sorted({*names} - {*OPTIONAL_PLUGINS} - OTHER_PLUGINS):
            hint = f"replayed where they are on: {', '.join(OPTIONAL_PLUGINS)}"
            raise UsageError(f'kube-apiserver has no admission plugin "{unknown[0]}"', hint=hint)
        return replace(self, api_server=self.api_server.with_plugins(names, told_by)) if names else self

    def with_objects(self, objects: Mapping[str, Iterable[api.Struct]]) -> Self:
        """A cluster with these objects added, or replaced where one of that name exists."""
        changed: dict[str, Any] = {
            FIELDS[k]: _unique(k, (*getattr(self, FIELDS[k]), *more)) for k, more in objects.items() if k != "Pod"
        }
        return replace(self, pods=self.pods.add_or_replace(_pods(objects.get("Pod", ()))), **changed)


def _read(documents: Iterable[JsonObject]) -> tuple[dict[str, list[api.Struct]], dict[str, Gap], dict[str, None]]:
    """The objects by kind, what of them is not read, and warnings. Raises InputError."""
    by_kind: dict[str, list[api.Struct]] = {}
    gaps: dict[str, Gap] = {}
    warnings: dict[str, None] = {}
    for document in flatten(documents):
        kind, version = get_kind(document), str(document.get("apiVersion") or "")
        if _is_classic(document, kind):
            gaps |= {"ResourceClaim": NOT_REPLAYED, kind: NOT_REPLAYED}
        elif not is_relevant_kind(kind, version):
            if may_create_pods(document) and (resource := build_custom_resource(document)):
                by_kind.setdefault(OTHER_CUSTOM_RESOURCE, []).append(resource)
        elif not is_read_name(kind, object_at(document, "metadata").get("name")):
            continue
        elif not is_newer_version(kind, version):
            _convert_into(by_kind, document)
        elif gap := read_newer(kind, document, partial(_convert_into, by_kind, document)):
            gaps.setdefault(kind, gap)
        else:
            warnings[describe_accepted(kind, version)] = None
    return by_kind, gaps, warnings


def _places(objects: Iterable[Any]) -> dict[tuple[str, str], int]:
    """(Namespace, name) -> the place among these."""
    keys = ((obj.metadata.namespace or DEFAULT_NAMESPACE, obj.metadata.name) for obj in objects)
    return {key: place for place, key in enumerate(keys)}


def _convert_into(by_kind: dict[str, list[api.Struct]], document: JsonObject) -> None:
    by_kind.setdefault(get_kind(document), []).append(convert(document))


def _is_classic(document: JsonObject, kind: str) -> bool:
    """Whether a claim, or the template of one, is what a driver's controller allocates, up to 1.31."""
    path = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}.get(kind)
    spec = object_at(document, *path) if path else {}
    return bool(spec.get("resourceClassName") or spec.get("controller"))


def convert(document: JsonObject, where: str = "") -> api.Struct:
    """One document as its typed struct. Raises InputError that names the object and the field."""
    try:
        return convert_builtins(without_nulls(document), KINDS[get_kind(document)].struct)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where or describe(document)) from None


def read_newer(kind: str, document: JsonObject, read: Callable[[], None]) -> Gap | None:
    """Have an object read of a version that is newer than those known here; the gap that it leaves where it is not.

    That costs no other object. ``read`` raises InputError.
    """
    why = find_unknown_field(kind, without_nulls(document))
    try:
        if not why:
            read()
            return None
    except InputError as error:
        why = error.what
    return Gap(describe_skipped(str(document["apiVersion"]), why))


def describe(document: JsonObject) -> str:
    """``Pod shop/web``: an object as an error message names it, whatever shape it has."""
    metadata = object_at(document, "metadata")
    name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    return f"{document.get('kind', 'object')} {name}".strip()


def without_nulls(value: object) -> Any:
    """Null fields removed at every depth: to the API a null is an absent field."""
    if isinstance(value, Mapping):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(v) for v in value]
    return value


def flatten(documents: Iterable[JsonObject]) -> Iterable[JsonObject]:
    """The documents, those of Lists one by one. Raises InputError for what is no object."""
    for index, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise InputError(f"items[{index}]: expected an object, got {type_name(document)}")
        items = document.get("items")
        if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
            yield from flatten(items)
        else:
            yield document


def _listed(documents: Iterable[JsonObject]) -> Iterator[str]:
    """The kinds that these Lists cover: a typed one its own, kubectl's List those of its items."""
    for document in documents:
        kind = str(document.get("kind", ""))
        if kind == "List":
            yield from (get_kind(item) for item in flatten([document]))
        elif kind.endswith("List"):
            yield unique_kind_name(kind.removesuffix("List"), str(document.get("apiVersion", "")))


def _pods(pods: Iterable[Any]) -> PodTable:
    """A missing namespace is ``default``."""
    return PodTable.from_pods(pods).with_default_namespace(DEFAULT_NAMESPACE)


def _unique(kind: str, of_kind: Iterable[Any]) -> Sequence[object]:
    """Sorted by (namespace, name), the last of each kept; a missing namespace is ``default``."""
    if kind == OTHER_CUSTOM_RESOURCE:
        several = {(o.metadata.namespace, o.metadata.name, o.resource_kind): o for o in map(namespaced, of_kind)}
        return tuple(several[key] for key in sorted(several))
    if kind in CLUSTER_SCOPED:
        named = {("", o.metadata.name): o for o in of_kind}
    else:
        named = {(o.metadata.namespace, o.metadata.name): o for o in map(namespaced, of_kind)}
    return tuple(named[key] for key in sorted(named))


def namespaced(obj: Any) -> Any:
    """The object in the namespace ``default`` when it names none."""
    if obj.metadata.namespace:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=DEFAULT_NAMESPACE))
