"""The cluster and the manifests that a command line asks about."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import pluralize_kind
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import PodTable
from kschedctl.api.validation.unknown_fields import POD_HOLDERS
from kschedctl.api.workloads import format_title, get_identity, is_non_install_hook, is_workload_manifest
from kschedctl.cli.manifests import (
    Surroundings,
    add_missing_namespaces,
    build_cluster_from_files,
    decode_manifest,
    find_scaled_workloads,
    find_similar_namespaces,
    get_object_key,
    log_left_out_objects,
    log_skipped_hooks,
    validate_and_load_surroundings,
    with_default_namespace,
    with_namespace,
)
from kschedctl.cli.options import Source
from kschedctl.cli.references import assume_scheduler_name
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, load_cluster, log_read_result
from kschedctl.cluster import LIMITS, QUEUE_KINDS, Cluster, fill_namespace
from kschedctl.errors import UsageError
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.collector import Manifest
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import ReadResult, read_paths
from kschedctl.text.counts import counted

if TYPE_CHECKING:
    from kschedctl.replay.controllers.creation_failures import CreationFailures

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inquiry:
    """A cluster and the pods and workloads to answer about."""

    cluster: Cluster
    manifests: dict[Owner, Struct] = field(default_factory=dict)
    """Pods and workloads that do not exist yet, as the files define them."""
    stored: dict[Owner, Manifest] = field(default_factory=dict)
    """Workloads of the cluster as the files contain them, decoded only when needed."""
    targets: tuple[Owner, ...] = ()
    """The pods and workloads that the files ask about, existing or not."""
    places: dict[str, Place] = field(default_factory=dict)
    """Name of an object such as `Pod shop/web` -> its place in a file."""
    has_outer_cluster: bool = False
    """True if the files describe only manifests, for a cluster from elsewhere."""
    written: dict[Owner, Manifest] = field(default_factory=dict)
    """The manifests as documents."""
    namespace: str | None = None
    """The namespace for manifests that name none."""
    missing_namespaces: Mapping[str, str] = field(default_factory=dict)
    """The namespaces that are assumed to be created first, each with a similar existing name or an empty string."""
    call_extender: CallExtender | None = None
    """Calls a scheduler extender, or None if extenders are not called."""
    sampled: SampledFrom | None = None
    """The node at which node sampling starts, or None to examine all nodes."""
    now: str = ""
    """The RFC 3339 time of the question; "" if pod creation failures do not matter."""
    scheduler_name: str | None = None
    """The scheduler name to assume for all unbound pods."""

    @cached_property
    def creation_failures(self) -> CreationFailures | None:
        """The pod creation failures of the cluster's workloads, or None if they do not matter."""
        from kschedctl.replay.controllers.creation_failures import CreationFailures  # noqa: PLC0415 - not for a pod

        return CreationFailures(self.cluster, self.now) if self.now else None

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler that all answers about the cluster share."""
        return Scheduler(self.cluster, self.call_extender, self.sampled)

    def with_scheduler_name(self, scheduler_name: str | None) -> Inquiry:
        """Return the inquiry with this scheduler for all unbound pods. None changes nothing."""
        return replace(self, cluster=assume_scheduler_name(self.cluster, scheduler_name), scheduler_name=scheduler_name)

    def find_stored_workload(self, owner: Owner) -> Struct | None:
        """Return the workload as the files contain it, or None if they do not.

        Raises InputError if its manifest is malformed.
        """
        if owner not in self.stored:
            return None
        return _decode_workload(self.stored[owner], self.namespace).struct

    def find_stored_document(self, owner: Owner) -> JsonObject | None:
        """Return the workload's document as the files contain it, or None if they do not."""
        return self.stored[owner].document if owner in self.stored else None


def read_inquiry(
    source: Source, namespace: str | None, *, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE
) -> Inquiry:
    """Read the cluster and the manifests that the options name. Raises KschedctlError if one cannot be read.

    The cluster comes from the files if they contain a Node, otherwise from `--snapshot`, `--demo` or the live cluster.
    Manifests are pods and workloads that do not exist yet. Unbound pods in a file with nodes belong to the cluster.

    Objects without a namespace go to `namespace`, or to the namespace of the live cluster's context. Set `pods_alone`
    if, without files, the question is only about existing pods. `live` names additional kinds to read from a live
    cluster. With files, the kinds that limit pod creation are always read.
    """
    if not source.filename:
        return Inquiry(load_cluster(source, namespace, pods_alone=pods_alone, live=live))
    reading = read_paths(source.filename, recursive=source.recursive, find_builds=source.builds)
    log_read_result(reading)
    _require_explainable_object(reading, source)
    return _build_inquiry(source, reading, validate_and_load_surroundings(source, reading, namespace))


def _require_explainable_object(reading: ReadResult, source: Source) -> None:
    """Raise UsageError if the files contain no pod or workload that can be explained."""
    if not (reading.objects or reading.manifests or reading.stored or reading.configuration):
        skipped_kinds = f", only {', '.join(reading.skipped)}" if reading.skipped else ""
        where = ", ".join(source.filename)
        raise UsageError(f"nothing to explain: no pod and nothing that creates pods{skipped_kinds}", where=where)


def _build_inquiry(source: Source, reading: ReadResult, surroundings: Surroundings) -> Inquiry:
    """Build the inquiry from what the files contain and the cluster around them.

    Raises InputError if a manifest is malformed.
    """
    outer_cluster, namespace = surroundings
    files_with_nodes = reading.origins.get_files("Node")

    # Manifests of pods and workloads that do not exist yet, and of workloads that do
    documents = [manifest for manifest in reading.manifests if not _is_part_of_cluster(manifest, files_with_nodes)]
    new = [_decode_workload(manifest, namespace) for manifest in documents]
    owners = [get_identity(workload.struct) for workload in new]
    stored = {
        _identify_owner(manifest, namespace): manifest
        for manifest in reading.stored
        if is_workload_manifest(manifest.document)
    }

    # The cluster of the files, or the cluster around them with their objects
    pods = _find_cluster_pods(documents, reading)
    objects = with_default_namespace(reading.objects, pods, namespace)
    cluster = _build_cluster(source, reading, objects, outer_cluster)

    # What to ask about if the command line names nothing
    new_places = {owner: workload.place for owner, workload in zip(owners, new, strict=True)}
    if outer_cluster is None:
        targets = _list_targets_outside_cluster(new_places, stored, files_with_nodes)
    else:
        targets = [*new_places, *stored]
        targets += [
            Owner("Pod", pod_namespace or namespace or DEFAULT_NAMESPACE, name)
            for pod_namespace, name in pods.list_keys()
        ]
    scaled_workloads = find_scaled_workloads(reading, cluster, namespace, set(owners))
    scaled = {get_identity(workload): workload for workload in scaled_workloads}
    targets += scaled

    given_namespaces = {existing.metadata.name for existing in cluster.namespaces}
    cluster = add_missing_namespaces(cluster, owners, source)
    return Inquiry(
        cluster,
        {owner: workload.struct for owner, workload in zip(owners, new, strict=True)} | scaled,
        stored,
        tuple(dict.fromkeys(targets)),
        {format_title(workload.struct): workload.place for workload in new},
        has_outer_cluster=outer_cluster is not None,
        written=dict(zip(owners, documents, strict=True)),
        namespace=namespace,
        missing_namespaces=find_similar_namespaces(cluster, given_namespaces),
    )


def _list_targets_outside_cluster(
    new_places: Mapping[Owner, Place], stored: Mapping[Owner, Manifest], files_with_nodes: Collection[str]
) -> list[Owner]:
    """Return the workloads that files which describe a cluster ask about.

    Objects in files with nodes belong to the cluster, and so do existing workloads in the lists of a dump.
    ``new_places`` are the places of the manifests to create, and ``stored`` are the existing workloads.
    """
    existing_places = {owner: manifest.place for owner, manifest in stored.items() if not manifest.place.path}
    places = {**new_places, **existing_places}
    return [owner for owner, place in places.items() if place.file not in files_with_nodes]


def _find_cluster_pods(manifests: Iterable[Manifest], reading: ReadResult) -> PodTable:
    """Return the pods among the objects, except manifests to create."""
    return reading.pods.apply_changes(
        {
            get_object_key(manifest.document["metadata"]): None
            for manifest in manifests
            if manifest.document["kind"] == "Pod"
        }
    )


def _build_cluster(
    source: Source, reading: ReadResult, objects: Mapping[str, Sequence[Any]], outer_cluster: Cluster | None
) -> Cluster:
    """Return the cluster that the files describe, or the outer cluster with the files' objects added.

    Objects that are left out or not explained are logged. The outer cluster keeps only the gaps of kinds that the files
    lack as well. A configuration in the files replaces that of the outer cluster unless ``source`` names one.
    """
    if outer_cluster is None:
        log_skipped_hooks(reading)
        return build_cluster_from_files(source, reading, objects)
    log_left_out_objects(reading)
    _log_unexplained_objects(reading)
    gaps = {kind: gap for kind, gap in outer_cluster.gaps.items() if kind in reading.gaps}
    cluster = replace(outer_cluster.with_objects(objects), gaps=gaps)
    if reading.configuration is not None and not source.config:
        cluster = replace(cluster, configuration=reading.configuration)
    return cluster


def _log_unexplained_objects(reading: ReadResult) -> None:
    """Log how many added objects of each kind affect the answer without being explained.

    Pods, workloads, limits and queues are not counted, because they are explained. Nothing is logged if no other
    objects were added.
    """
    kinds_not_listed = (*POD_HOLDERS, *LIMITS, *QUEUE_KINDS)
    unexplained_objects = {
        kind: objects for kind, objects in reading.objects.items() if objects and kind not in kinds_not_listed
    }
    if unexplained_objects:
        counts = ", ".join(
            counted(len(objects), kind, pluralize_kind(kind)) for kind, objects in unexplained_objects.items()
        )
        log.warning("note: not explained, but taken into account: %s", counts)


class _Workload(NamedTuple):
    """A decoded manifest."""

    struct: Struct
    place: Place


def _is_part_of_cluster(manifest: Manifest, files_with_nodes: Collection[str]) -> bool:
    """Return whether the object belongs to the cluster, as all objects do except for workloads and unbound pods.

    Unbound pods in a file with nodes belong to the cluster too, as well as Helm hooks that no installation runs.
    """
    document = manifest.document
    if not is_workload_manifest(document) or is_non_install_hook(document):
        return True
    if document["kind"] != "Pod":
        return False
    spec = document.get("spec")
    is_bound = isinstance(spec, Mapping) and bool(spec.get("nodeName"))
    return is_bound or manifest.place.file in files_with_nodes


def _decode_workload(manifest: Manifest, namespace: str | None) -> _Workload:
    """Decode a manifest, and fill in a missing namespace and name.

    A missing namespace becomes `namespace`, or "default" if that is missing as well. A missing name becomes the
    generateName. Raises InputError if the manifest is malformed.
    """
    struct: Any = decode_manifest(manifest)
    struct = fill_namespace(with_namespace(struct, namespace))  # `namespace` comes before "default"
    metadata = struct.metadata
    if not metadata.name:
        metadata = msgspec.structs.replace(metadata, name=metadata.generate_name)
        struct = msgspec.structs.replace(struct, metadata=metadata)
    return _Workload(struct, manifest.place)


def _identify_owner(manifest: Manifest, namespace: str | None) -> Owner:
    """Return the kind, namespace and name of a manifest."""
    own_namespace, name = get_object_key(manifest.document["metadata"])
    return Owner(str(manifest.document["kind"]), own_namespace or namespace or DEFAULT_NAMESPACE, name)
