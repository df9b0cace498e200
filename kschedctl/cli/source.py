"""From the options to a Cluster, and to the pod of a file that holds nothing but what is asked about."""

from __future__ import annotations

import gc
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kschedctl import demo
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.objects import Pod
from kschedctl.api.observed.api_server import AS_BY_DEFAULT
from kschedctl.api.observed.failed_creation import FAILED_CREATE, FAILURE_SOURCES
from kschedctl.cli.options import Scope, Source, feature_gates
from kschedctl.cluster import ELSEWHERE, LIMITS, OBSERVED, OF_CREATION, Cluster, Gap
from kschedctl.errors import UsageError
from kschedctl.sources.cluster import moment_of
from kschedctl.sources.read import ReadResult, load_configuration_file, read

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection
    from kschedctl.sources.live.reading import Wishes

log = logging.getLogger(__name__)


class LiveKinds(NamedTuple):
    """Kinds to read of a live cluster that no plugin looks at; of events only those for a reason, if one is named."""

    kinds: tuple[str, ...] = ()
    event_reason: str = ""

    def and_also(self, more: LiveKinds) -> LiveKinds:
        """These kinds, and others."""
        return self._replace(kinds=tuple(dict.fromkeys((*self.kinds, *more.kinds))))


NOTHING_MORE = LiveKinds()
WHAT_LIMITS = LiveKinds(LIMITS)
"""What the API server may refuse to create pods for."""
WHAT_EVICTIONS_END = LiveKinds(("Job",))
"""What may fail for good when one of its pods is evicted."""
WHAT_FAILED = LiveKinds((*FAILURE_SOURCES, *LIMITS, "HorizontalPodAutoscaler"), FAILED_CREATE)
"""What tells of pods that could not be created, and may keep others from it."""
WHAT_WAITS_ELSEWHERE = LiveKinds((*ELSEWHERE, "Job", "PodGroup", "CoschedulingPodGroup", "VolcanoPodGroup"))
"""What tells of pods that wait before kube-scheduler sees them."""
EVERYTHING = LiveKinds(tuple(dict.fromkeys((*OBSERVED, *OF_CREATION, *FAILURE_SOURCES, *WHAT_WAITS_ELSEWHERE.kinds))))


class Asked(NamedTuple):
    """A cluster, and the options that name it."""

    source: Source
    cluster: Cluster


def load(
    source: Source, namespace: str | None = None, *, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE
) -> Cluster:
    """The cluster that the options name; ``namespace``: where pods are asked about. Raises KschedctlError.

    Of a live cluster: ``pods_alone``: only about pods that it has, for which less may be read; ``live``: what more.
    """
    if source.demo and source.snapshot:
        raise UsageError("--demo and --snapshot cannot be combined", hint="leave one of them out")
    if len(source.snapshot) > 1:
        raise UsageError("this command looks at one cluster", where="--snapshot", hint="name one snapshot")
    with without_garbage_collection():
        cluster = _read(source, namespace, pods_alone, live)
        gc.freeze()  # what was read stays to the end: no use in looking through it for garbage
    tell(cluster)
    return cluster


def _read(source: Source, namespace: str | None, pods_alone: bool, live: LiveKinds) -> Cluster:
    if source.live:
        return as_told(_live(source, namespace, pods_alone, live), source)
    if source.snapshot:
        return as_told(_from_snapshot(source, source.snapshot[0]), source)
    return from_files(source)[0]


def as_told(cluster: Cluster, source: Source) -> Cluster:
    """The cluster with the admission plugins that the options say are on. Raises UsageError."""
    names = (name.strip() for text in source.admission_plugins for name in text.split(","))
    return cluster.with_admission_plugins(filter(None, names), "--admission-plugins")


def _live(source: Source, namespace: str | None, pods_alone: bool, live: LiveKinds) -> Cluster:
    from kschedctl.sources.live.reading import read_live  # noqa: PLC0415 - only live clusters need the client

    reading = read_live(connection(source), wishes(source, namespace, pods_alone, live))
    return reading.cluster()


def sources(source: Source) -> dict[str, Source]:
    """By the name of the snapshot, of which there may be several."""
    return {name: replace(source, snapshot=[name]) for name in source.snapshot} or {"": source}


def clusters(source: Source, live: LiveKinds = NOTHING_MORE) -> dict[str, Asked]:
    """What the options name, each snapshot by its name. Raises KschedctlError."""
    return {name: Asked(named, load(named, live=WHAT_LIMITS.and_also(live))) for name, named in sources(source).items()}


def connection(source: Source) -> Connection:
    """The way to the live cluster that the options name. Raises ClusterError, UsageError."""
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


def wishes(source: Source, namespace: str | None, pods_alone: bool = False, live: LiveKinds = NOTHING_MORE) -> Wishes:
    """What the options say of a live cluster's scheduler."""
    from kschedctl.sources.live.reading import Wishes  # noqa: PLC0415

    return Wishes(
        configuration=load_configuration_file(source.config) if source.config else None,
        feature_gates=feature_gates(source.feature_gates),
        kube_version=source.kube_version,
        namespace=namespace,
        pods_alone=pods_alone,
        also=live.kinds,
        event_reason=live.event_reason,
        cache=source.cache,
    )


def _from_snapshot(source: Source, path: str) -> Cluster:
    """What a snapshot holds, and what the files add to it."""
    from kschedctl.sources.archive.file import read_archive  # noqa: PLC0415

    cluster, left_out = read_archive(path), dict[str, Gap]()
    if source.filename:
        reading = read(source.filename, recursive=source.recursive, builds=source.builds)
        tell_read(reading)
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
        feature_gates={**cluster.feature_gates, **feature_gates(source.feature_gates)},
        kube_version=source.kube_version or cluster.kube_version,
        warnings=() if source.kube_version else cluster.warnings,
    )


def from_files(source: Source) -> tuple[Cluster, ReadResult]:
    """The cluster that files describe, and all that they hold. Raises KschedctlError."""
    embedded = [str(file) for file in demo.files()] if source.demo else []
    reading = read([*embedded, *source.filename], recursive=source.recursive, builds=source.builds)
    tell_read(reading)
    cluster = Cluster.of(
        reading.objects,
        configuration=load_configuration_file(source.config) if source.config else reading.configuration,
        feature_gates=feature_gates(source.feature_gates),
        kube_version=source.kube_version or KUBE_VERSION,
        origins=reading.origins,
        gaps=reading.left_out if source.assume_complete or source.demo else reading.gaps,
        autoscaler=reading.autoscaler,
        api_server=reading.api_server or AS_BY_DEFAULT,
    )
    return as_told(cluster, source), reading


def in_context(scope: Scope, source: Source, cluster: Cluster) -> Scope:
    """The scope in the namespace of the live cluster's context, unless it names one."""
    provenance = None if source.demo or source.snapshot else cluster.provenance
    if scope.namespace or scope.all_namespaces or provenance is None:
        return scope
    return replace(scope, namespace=provenance.namespace)


def tell(cluster: Cluster) -> None:
    """Say what should be known of a cluster before its answers are read."""
    for warning in cluster.warnings:
        log.warning("warning: %s", warning)
    if cluster.api_server.describe:
        log.info("kube-apiserver: %s", cluster.api_server.describe)
    provenance = cluster.provenance
    if provenance is None:
        return
    log.info("read %s nodes and %s pods of %s", f"{len(cluster.nodes):,}", f"{len(cluster.pods):,}", provenance.server)
    log.info("kube-scheduler %s, leader %s", provenance.server_version or "?", provenance.leader or "not known")
    log.info("configuration: %s", provenance.configured_by or "as given, else kube-scheduler's defaults")
    log.info("resourceVersions: %s", ", ".join(f"{kind} {v}" for kind, v in provenance.resource_versions.items()))
    if provenance.changed:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in provenance.changed.items())
        log.warning("note: while the cluster was read these changed and are taken in as they are now: %s", counts)


def tell_read(reading: ReadResult) -> None:
    """Say what should be known of what was read from files."""
    for warning in reading.warnings:
        log.warning("warning: %s", warning)
    log.info("read %s", ", ".join(f"{len(objects):,} {kind}" for kind, objects in reading.objects.items()) or "nothing")
    if reading.skipped:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in reading.skipped.items())
        log.info("skipped what scheduling does not read: %s", counts)
    if reading.skipped_files:
        log.info("skipped %s files that are neither JSON nor YAML", f"{reading.skipped_files:,}")


def lone_pod(cluster: Cluster) -> Pod | None:
    """The pod to explain when none is named: the only Pod of a file without nodes, not bound.

    None when no file or more than one is like that: then the files describe a cluster.
    """
    files = {key: _file(origin) for key, origin in cluster.origins.items()}
    with_nodes = {file for (kind, _, _), file in files.items() if kind == "Node"}
    pods: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        file = files.get(("Pod", pod.metadata.namespace, pod.metadata.name))
        if file is not None and file not in with_nodes:
            pods.setdefault(file, []).append(pod)
    alone = [homonyms[0] for homonyms in pods.values() if len(homonyms) == 1 and not homonyms[0].spec.node_name]
    return alone[0] if len(alone) == 1 else None


def _file(origin: str) -> str:
    """``pod.yaml`` of ``pod.yaml, document 3``."""
    return origin.rpartition(", document ")[0] or origin


def time_of(cluster: Cluster, source: Source) -> str:
    """The time at which pods are as old as they are: when the cluster was read; of files it is now."""
    if source.demo:
        return demo.DEMO_TIME
    return moment_of(cluster)
