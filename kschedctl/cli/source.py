"""Loading of the cluster that the options name."""

from __future__ import annotations

import gc
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kschedctl import demo
from kschedctl.api.component_flags import DEFAULT_API_SERVER
from kschedctl.api.events import FAILED_CREATE, FAILURE_SOURCES
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.kinds import pluralize_kind
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.objects import Pod
from kschedctl.cli.options import Scope, Source, parse_feature_gates
from kschedctl.cluster import CREATION_KINDS, LIMITS, OBSERVED, QUEUE_KINDS, Cluster, Gap
from kschedctl.errors import UsageError
from kschedctl.sources.cluster import get_read_time
from kschedctl.sources.documents.place import get_origin_file
from kschedctl.sources.read import ReadResult, load_configuration_file, read_paths
from kschedctl.text.counts import counted, join_words

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection
    from kschedctl.sources.live.reading import ReadingOptions

log = logging.getLogger(__name__)


class LiveKinds(NamedTuple):
    """Kinds to read from a live cluster in addition to those that plugins read."""

    kinds: tuple[str, ...] = ()
    event_reason: str = ""
    """Read only events with this reason; "" for all."""

    def union(self, more: LiveKinds) -> LiveKinds:
        """Return these kinds together with more kinds."""
        return self._replace(kinds=tuple(dict.fromkeys((*self.kinds, *more.kinds))))


NOTHING_MORE = LiveKinds()
"""No additional kinds."""
CREATION_LIMIT_KINDS = LiveKinds(LIMITS)
"""Kinds that limit the creation of pods."""
EVICTION_KINDS = LiveKinds(("Job",))
"""Kinds that may fail for good when one of their pods is evicted."""
CREATION_FAILURE_KINDS = LiveKinds((*FAILURE_SOURCES, *LIMITS, "HorizontalPodAutoscaler"), FAILED_CREATE)
"""Kinds that show or explain failed pod creations."""
AUTOSCALED_KINDS = LiveKinds(("HorizontalPodAutoscaler",))
"""Kinds that change the replicas of a workload as soon as it is applied."""
HELD_BACK_KINDS = LiveKinds(
    (
        *(*QUEUE_KINDS, "Job", "PodGroup", "CoschedulingPodGroup", "VolcanoPodGroup"),
        *("ConfigMap", "Deployment", "LimitRange"),
    )
)
"""Kinds that show pods that wait before kube-scheduler sees them, and those that tell how Kueue is installed."""
KUEUE_QUOTA_KINDS = LiveKinds(
    (
        *("KueueWorkload", "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass"),
        *("AdmissionCheck", "Topology", "ConfigMap", "Deployment"),
    )
)
"""Kinds that decide about quota of Kueue, and those that tell how it is installed."""
ALL_KINDS = LiveKinds(tuple(dict.fromkeys((*OBSERVED, *CREATION_KINDS, *FAILURE_SOURCES, *HELD_BACK_KINDS.kinds))))
"""All kinds that any answer may need."""


class LoadedSource(NamedTuple):
    """A cluster and the options that name it."""

    source: Source
    cluster: Cluster


def load_cluster(
    source: Source, namespace: str | None = None, *, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE
) -> Cluster:
    """Load the cluster that the options name, and log what was read. Raises KschedctlError if it cannot be read.

    `namespace` is the namespace of the pods in question. The other two arguments are for live clusters: `pods_alone`
    reads only what answers about existing pods need, and `live` names additional kinds to read.
    """
    if source.demo and source.snapshot:
        raise UsageError("--demo and --snapshot cannot be combined", hint="use only one of them")
    if len(source.snapshot) > 1:
        raise UsageError("this command takes one cluster", where="--snapshot", hint="pass only one snapshot")
    with without_garbage_collection():
        cluster = _read_cluster(source, namespace, pods_alone, live)
        gc.freeze()  # the objects stay to the end, so collecting garbage among them is useless
    log_cluster(cluster)
    return cluster


def _read_cluster(source: Source, namespace: str | None, pods_alone: bool, live: LiveKinds) -> Cluster:
    """Read the cluster from the API server, a snapshot or files. Raises KschedctlError if that fails."""
    if source.live:
        return with_admission_plugins(_read_live_cluster(source, namespace, pods_alone, live), source)
    warn_about_live_only_options(source)
    if source.snapshot:
        return with_admission_plugins(_read_snapshot(source, source.snapshot[0]), source)
    cluster, _ = read_files(source)
    return cluster


def warn_about_live_only_options(source: Source) -> None:
    """Warn that options about the live cluster have no effect on a cluster of files, a snapshot or the demo."""
    if options := source.list_live_only_options():
        verb = "has" if len(options) == 1 else "have"
        kind = "the demo cluster" if source.demo else f"the cluster in {source.title}"
        log.warning("note: %s %s no effect on %s", join_words(options), verb, kind)


def with_admission_plugins(cluster: Cluster, source: Source) -> Cluster:
    """Return the cluster with the admission plugins that the options enable.

    Raises UsageError if a plugin is unknown.
    """
    names = (name.strip() for text in source.admission_plugins for name in text.split(","))
    return cluster.with_admission_plugins(filter(None, names), "--admission-plugins")


def _read_live_cluster(source: Source, namespace: str | None, pods_alone: bool, live: LiveKinds) -> Cluster:
    """Connect to the cluster that the options name, and read the kinds that `build_live_request` chooses."""
    from kschedctl.sources.live.reading import read_live_cluster  # noqa: PLC0415 - only live clusters need the client

    reading = read_live_cluster(connect_to_cluster(source), build_live_request(source, namespace, pods_alone, live))
    return reading.build_cluster()


def split_by_snapshot(source: Source) -> dict[str, Source]:
    """Split options that name several snapshots into options by the name of each snapshot.

    Options without a snapshot are under "".
    """
    return {name: replace(source, snapshot=[name]) for name in source.snapshot} or {"": source}


def load_clusters(source: Source, live: LiveKinds = NOTHING_MORE) -> dict[str, LoadedSource]:
    """Load each cluster that the options name, and return them by snapshot name.

    Raises KschedctlError if one of them cannot be read.
    """
    return {
        name: LoadedSource(named, load_cluster(named, live=CREATION_LIMIT_KINDS.union(live)))
        for name, named in split_by_snapshot(source).items()
    }


def connect_to_cluster(source: Source) -> Connection:
    """Connect to the live cluster that the options name.

    Raises ClusterError if it cannot be reached, and UsageError if the options do not fit the kubeconfig.
    """
    from kschedctl.sources.live.connection import Access, connect  # noqa: PLC0415

    access = Access(
        kubeconfig=source.kubeconfig,
        context=source.context,
        cluster=source.cluster,
        user=source.user,
        as_user=source.as_user,
        as_groups=tuple(source.as_group),
        request_timeout=source.request_timeout,
    )
    return connect(access)


def build_live_request(
    source: Source, namespace: str | None, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE
) -> ReadingOptions:
    """Build the settings for reading a live cluster and its scheduler from the options.

    `namespace` is the namespace of the pods in question. `pods_alone` reads only what answers about existing pods need,
    and `live` names additional kinds to read.
    """
    from kschedctl.sources.live.reading import ReadingOptions  # noqa: PLC0415

    return ReadingOptions(
        configuration=load_configuration_file(source.config) if source.config else None,
        feature_gates=parse_feature_gates(source.feature_gates),
        kube_version=source.kube_version,
        namespace=namespace,
        pods_alone=pods_alone,
        also=live.kinds,
        event_reason=live.event_reason,
        cache=source.cache,
    )


def _read_snapshot(source: Source, path: str) -> Cluster:
    """Read a snapshot, add the files' objects, and apply the options about the scheduler.

    Kinds that neither the snapshot nor the files contain in full are gaps. With --assume-complete, a kind is a gap only
    if some of its objects could not be read. Raises KschedctlError if the snapshot or a file cannot be read.
    """
    from kschedctl.sources.archive_file import read_archive  # noqa: PLC0415

    cluster = read_archive(path)
    left_out = dict[str, Gap]()
    if source.filename:
        reading = read_paths(source.filename, recursive=source.recursive, find_builds=source.builds)
        log_read_result(reading)
        left_out = dict(reading.left_out)
        gaps = {kind: gap for kind, gap in cluster.gaps.items() if kind in reading.gaps} | left_out
        cluster = replace(
            cluster.with_objects(reading.objects),
            origins=reading.origins,
            gaps=gaps,
            autoscaler=reading.autoscaler or cluster.autoscaler,
            api_server=reading.api_server or cluster.api_server,
        )
    return replace(
        cluster,
        configuration=load_configuration_file(source.config) if source.config else cluster.configuration,
        gaps=left_out if source.assume_complete else cluster.gaps,
        feature_gates={**cluster.feature_gates, **parse_feature_gates(source.feature_gates)},
        kube_version=source.kube_version or cluster.kube_version,
        warnings=() if source.kube_version else cluster.warnings,
    )


def read_files(source: Source) -> tuple[Cluster, ReadResult]:
    """Read the cluster that the files describe. Return it with everything that was read.

    Raises KschedctlError if a file cannot be read.
    """
    embedded = [str(file) for file in demo.list_files()] if source.demo else []
    reading = read_paths([*embedded, *source.filename], recursive=source.recursive, find_builds=source.builds)
    log_read_result(reading)
    cluster = Cluster.of(
        reading.objects,
        configuration=load_configuration_file(source.config) if source.config else reading.configuration,
        feature_gates=parse_feature_gates(source.feature_gates),
        kube_version=source.kube_version or KUBE_VERSION,
        origins=reading.origins,
        gaps=reading.left_out if source.assume_complete or source.demo else reading.gaps,
        autoscaler=reading.autoscaler,
        api_server=reading.api_server or DEFAULT_API_SERVER,
    )
    return with_admission_plugins(cluster, source), reading


def with_context_namespace(scope: Scope, source: Source, cluster: Cluster) -> Scope:
    """Return the scope with the live context's namespace.

    The scope is unchanged if it already names a namespace or all namespaces, or if the cluster is not live.
    """
    # a snapshot's provenance names the context of the person who took it
    provenance = None if source.demo or source.snapshot else cluster.provenance
    if scope.namespace or scope.all_namespaces or provenance is None:
        return scope
    return replace(scope, namespace=provenance.namespace)


def log_cluster(cluster: Cluster) -> None:
    """Log a cluster's warnings and facts about it: its API server, scheduler, configuration and resource versions.

    Warnings, and the numbers of objects that changed during the read, are logged at warning level. Facts are logged at
    info level. Without a provenance, only the API server is known.
    """
    for warning in cluster.warnings:
        log.warning("warning: %s", warning)
    if cluster.api_server.description:
        log.info("kube-apiserver: %s", cluster.api_server.description)
    provenance = cluster.provenance
    if provenance is None:
        return
    log.info("read %s nodes and %s pods of %s", f"{len(cluster.nodes):,}", f"{len(cluster.pods):,}", provenance.server)
    log.info("kube-scheduler %s, leader %s", provenance.server_version or "?", provenance.leader or "unknown")
    log.info("configuration: %s", provenance.configured_by or "as given, else kube-scheduler's defaults")
    resource_versions = ", ".join(f"{kind} {version}" for kind, version in provenance.resource_versions.items())
    log.info("resourceVersions: %s", resource_versions)
    if provenance.changed:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in provenance.changed.items())
        log.warning("note: changed while the cluster was read (the newest state is used): %s", counts)


def log_read_result(reading: ReadResult) -> None:
    """Log the warnings about files, and what was read and skipped."""
    for warning in reading.warnings:
        log.warning("warning: %s", warning)
    counts_by_kind = [
        counted(len(objects), kind, pluralize_kind(kind)) for kind, objects in reading.objects.items() if len(objects)
    ]
    log.info("read %s", ", ".join(counts_by_kind) or "nothing")
    if reading.skipped:
        counts = ", ".join(counted(number, kind, pluralize_kind(kind)) for kind, number in reading.skipped.items())
        log.info("skipped kinds that scheduling does not read: %s", counts)
    if reading.skipped_files:
        log.info("skipped %s files that are neither JSON nor YAML", f"{reading.skipped_files:,}")


def find_lone_pod(cluster: Cluster) -> Pod | None:
    """Find the unbound pod that is the only pod in a file without nodes.

    Return None if there are several such files or none.
    """
    files = {key: get_origin_file(origin) for key, origin in cluster.origins.items()}
    with_nodes = {file for (kind, _, _), file in files.items() if kind == "Node"}
    keys_by_file: dict[str, list[tuple[str, str]]] = {}
    for (kind, namespace, name), file in files.items():
        if kind == "Pod" and file not in with_nodes and cluster.pods.find_row(namespace, name) is not None:
            keys_by_file.setdefault(file, []).append((namespace, name))
    lone_pods = [cluster.pod(*keys[0]) for keys in keys_by_file.values() if len(keys) == 1]
    unbound = [pod for pod in lone_pods if pod is not None and not pod.spec.node_name]
    return unbound[0] if len(unbound) == 1 else None


def get_cluster_time(cluster: Cluster, source: Source) -> str:
    """Return the RFC 3339 time at which the cluster was read. For files this is now."""
    if source.demo:
        return demo.DEMO_TIME
    return get_read_time(cluster)


def has_read_time(cluster: Cluster, source: Source) -> bool:
    """Return whether it is known when the cluster was read. It is not known for files of objects."""
    return source.demo or cluster.provenance is not None
