"""The cluster that a command line means, and the manifests in its files that are asked about."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import PodTable
from kschedctl.api.validation.unknown_fields import POD_HOLDERS
from kschedctl.api.workloads import identity, is_not_installed, makes_pods, title
from kschedctl.cli.manifests import (
    Surroundings,
    cluster_of,
    in_namespace,
    key_of,
    placed,
    surroundings,
    tell_hooks,
    tell_left_out,
    typed_manifest,
    with_missing_namespaces,
)
from kschedctl.cli.options import Source
from kschedctl.cli.pods import asking_for
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, load, tell_read
from kschedctl.cluster import ELSEWHERE, LIMITS, Cluster, namespaced
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.creation_failures import CreationFailures
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.collector import Manifest
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import ReadResult, read

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inquiry:
    """``manifests`` are to be created, ``stored`` are workloads of the cluster as files hold them, read when needed.

    ``asked``: what the files ask about, of both and of the cluster's pods; ``places``: ``Pod shop/web`` -> where it
    stands; ``around``: the files describe no cluster of their own; ``written``: the manifests as documents, of which
    those that name no namespace go to ``namespace``. ``call_extender``: how extenders are asked;
    ``sampled``: from where on nodes are looked at; ``now``: at what time, empty where nobody asks what could not be
    created; ``scheduler_name``: the one that all pods without a node ask for.
    """

    cluster: Cluster
    manifests: dict[Owner, Struct] = field(default_factory=dict)
    stored: dict[Owner, Manifest] = field(default_factory=dict)
    asked: tuple[Owner, ...] = ()
    places: dict[str, str] = field(default_factory=dict)
    around: bool = False
    written: dict[Owner, Manifest] = field(default_factory=dict)
    namespace: str | None = None
    call_extender: CallExtender | None = None
    sampled: SampledFrom | None = None
    now: str = ""
    scheduler_name: str | None = None

    @cached_property
    def creations(self) -> CreationFailures | None:
        """What workloads of the cluster could not create."""
        return CreationFailures(self.cluster, self.now) if self.now else None

    @cached_property
    def scheduler(self) -> Scheduler:
        """The one that all answers about the cluster are taken from."""
        return Scheduler(self.cluster, self.call_extender, self.sampled)

    def asking_for(self, scheduler_name: str | None) -> Inquiry:
        """The inquiry as if pods asked for this scheduler, if one is named."""
        return replace(self, cluster=asking_for(self.cluster, scheduler_name), scheduler_name=scheduler_name)

    def template(self, owner: Owner) -> Struct | None:
        """What makes the pods of a workload of the cluster, where the files hold that. Raises InputError."""
        return _typed(self.stored[owner], self.namespace).struct if owner in self.stored else None

    def document(self, owner: Owner) -> JsonObject | None:
        """The manifest as it is written."""
        return self.stored[owner].document if owner in self.stored else None


def read_inquiry(
    source: Source, namespace: str | None, *, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE
) -> Inquiry:
    """The cluster is the files' where they hold a Node, else ``--snapshot``, ``--demo`` or the live one.

    Manifests are what makes pods and was not created yet; unbound pods in a file with nodes are the cluster's. What
    names no namespace is in ``namespace``, else in that of the live cluster's context. ``pods_alone``: without files,
    nothing but pods of the cluster is asked about. ``live``: what else to read of a live cluster; around files that is
    always what limits the creation of pods. Raises KschedctlError.
    """
    if not source.filename:
        return Inquiry(load(source, namespace, pods_alone=pods_alone, live=live))
    reading = read(source.filename, recursive=source.recursive, builds=source.builds)
    tell_read(reading)
    _check_something(reading, source)
    return _world(source, reading, surroundings(source, reading, namespace))


def _check_something(reading: ReadResult, source: Source) -> None:
    if not (reading.objects or reading.manifests or reading.stored or reading.configuration):
        others = f", only {', '.join(reading.skipped)}" if reading.skipped else ""
        where = ", ".join(source.filename)
        raise UsageError(f"nothing to explain: no pod and nothing that makes pods{others}", where=where)


def _world(source: Source, reading: ReadResult, where: Surroundings) -> Inquiry:
    around, namespace = where
    own = around is None
    with_nodes = reading.origins.files_of("Node")
    apart = [m for m in reading.manifests if not _is_part_of_cluster(m, with_nodes)]
    manifests = [_typed(m, namespace) for m in apart]
    stored = {_owner(m, namespace): m for m in reading.stored if makes_pods(m.document)}
    pods = _pods_besides(apart, reading)
    objects = placed(reading.objects, pods, namespace)
    printed = {key: m for key, m in stored.items() if not own or not m.place.path}  # a dump's lists are the cluster's
    places = {identity(m.struct): m.place for m in manifests} | {key: m.place for key, m in printed.items()}
    keys = [key for key, place in places.items() if not own or place.file not in with_nodes]
    if not own:
        keys += [Owner("Pod", within or namespace or DEFAULT_NAMESPACE, name) for within, name in pods.list_keys()]
    cluster = _cluster(source, reading, objects, around)
    return Inquiry(
        with_missing_namespaces(cluster, (identity(m.struct) for m in manifests), source),
        {identity(m.struct): m.struct for m in manifests},
        stored,
        tuple(dict.fromkeys(keys)),
        {title(m.struct): str(m.place) for m in manifests},
        around=not own,
        written={identity(m.struct): document for m, document in zip(manifests, apart, strict=True)},
        namespace=namespace,
    )


def _pods_besides(apart: Iterable[Manifest], reading: ReadResult) -> PodTable:
    """The pods among the objects, less those that are manifests to create."""
    return reading.pods.apply_changes(
        {key_of(m.document["metadata"]): None for m in apart if m.document["kind"] == "Pod"}
    )


def _cluster(
    source: Source, reading: ReadResult, objects: Mapping[str, Sequence[Any]], around: Cluster | None
) -> Cluster:
    """The cluster that the files describe, or the one around with what they hold besides manifests; tells the rest."""
    if around is None:
        tell_hooks(reading)
        return cluster_of(source, reading, objects)
    tell_left_out(reading)
    _tell_taken_in(reading)
    gaps = {kind: gap for kind, gap in around.gaps.items() if kind in reading.gaps}
    cluster = replace(around.with_objects(objects), gaps=gaps)
    if reading.configuration is not None and not source.config:
        cluster = replace(cluster, configuration=reading.configuration)
    return cluster


def _tell_taken_in(reading: ReadResult) -> None:
    """Say what is not explained itself, but is in the cluster now."""
    unread = (*POD_HOLDERS, *LIMITS, *ELSEWHERE)
    others = {kind: objects for kind, objects in reading.objects.items() if kind not in unread and objects}
    if others:
        counts = ", ".join(f"{len(objects):,} {kind}" for kind, objects in others.items())
        log.warning("note: not explained, but taken into account: %s", counts)


class _Workload(NamedTuple):
    """A manifest, typed."""

    struct: Struct
    place: Place


def _is_part_of_cluster(manifest: Manifest, with_nodes: Collection[str]) -> bool:
    """Whether it is not to be created: a bound pod, a pod beside nodes, or what Helm does not install."""
    document = manifest.document
    if not makes_pods(document) or is_not_installed(document):
        return True
    bound = isinstance(spec := document.get("spec"), Mapping) and spec.get("nodeName")
    return document["kind"] == "Pod" and bool(bound or manifest.place.file in with_nodes)


def _typed(manifest: Manifest, namespace: str | None) -> _Workload:
    """In its namespace, under a name. Raises InputError."""
    struct: Any = in_namespace(typed_manifest(manifest), namespace)
    meta = struct.metadata
    named = msgspec.structs.replace(meta, name=meta.name or meta.generate_name)
    return _Workload(namespaced(msgspec.structs.replace(struct, metadata=named)), manifest.place)


def _owner(manifest: Manifest, namespace: str | None) -> Owner:
    """Whose manifest it is; that of an API server names namespace and name."""
    within, name = key_of(manifest.document["metadata"])
    return Owner(str(manifest.document["kind"]), within or namespace or DEFAULT_NAMESPACE, name)
