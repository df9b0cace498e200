"""The reader of a live cluster, which lists the required kinds in parallel and brings the lists to one moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

import msgspec

from kschedctl.api.api_versions import get_group, is_custom_api
from kschedctl.api.copying import replace
from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.gangs import find_group_kinds
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import AUTOSCALER_MAPS, KINDS, KUEUE_MAP, OTHER_CUSTOM_RESOURCE, get_home
from kschedctl.api.objects import Namespace, Pod, PodSpec
from kschedctl.api.pod_table import PodTable
from kschedctl.api.versions_read import describe_accepted, is_newer_version
from kschedctl.cluster import (
    ADMISSION_HOOK_KINDS,
    CLUSTER_SCOPED,
    CREATION_KINDS,
    FIELDS,
    LIMITS,
    NOT_LISTED,
    OBSERVED,
    QUEUE_KINDS,
    Cluster,
    Gap,
    Provenance,
    build_gaps,
)
from kschedctl.errors import ClusterError, ConfigurationError
from kschedctl.scheduler.framework.declaration import ALWAYS_READ, READ_FOR_NEW_PODS
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.live.cache import ReadingCache
from kschedctl.sources.live.components import SchedulerSetup, read_api_server, read_autoscaler, read_setup
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.http import BrokenOffError, RefusedError, Server
from kschedctl.sources.live.lists import FORBIDDEN, NOT_FOUND, LeftOutError, Listing, ObjectTuple, read_list, read_path
from kschedctl.sources.live.watch import catch_up
from kschedctl.text.printable import strip_credentials

log = logging.getLogger(__name__)

MAX_THREADS = 8
ESSENTIAL = ("Node", "Pod")
UNWATCHED_KINDS = (*OBSERVED, *(kind.name for kind in KINDS.values() if kind.names))
"""Kinds that are not watched: those that only ever grow, and those that are read by name."""
OLDEST_NAMESPACE = "/api/v1/namespaces/kube-system"
"""The namespace whose UID identifies the cluster."""
RIGHTS = "kschedctl needs to get, list and watch them: see kschedctl help rights"


class _ServedGroup(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedGroups(msgspec.Struct, frozen=True):
    """The API groups of a server as ``/apis`` lists them."""

    groups: tuple[_ServedGroup, ...]


@dataclass(frozen=True)
class ReadingOptions:
    """The user's settings for the scheduler and for what to read. None means that the cluster decides."""

    configuration: JsonObject | None = None
    feature_gates: Mapping[str, bool] | None = None
    kube_version: str | None = None
    namespace: str | None = None
    """The namespace to list if a kind may not be listed in all namespaces."""
    pods_alone: bool = False
    """Whether only existing pods matter, so that kinds that cannot affect them need not be read."""
    also: tuple[str, ...] = ()
    """Kinds to read in addition to those of the plugins."""
    event_reason: str = ""
    """The reason to which events are restricted."""
    cache: bool = False
    """Whether to cache the lists and start from recently cached ones."""


@dataclass(frozen=True)
class Reading:
    """The result of reading a live cluster."""

    listings: Mapping[str, Listing]
    scheduler: Cluster
    """The cluster without objects but with everything else."""
    changed: Mapping[str, int]
    """The number of objects per kind that changed while the cluster was read."""

    def cluster(self) -> Cluster:
        """Build the Cluster with all objects."""
        objects: dict[str, Json] = {FIELDS[kind]: listing.objects for kind, listing in self.listings.items()}
        versions = {kind: listing.resource_version for kind, listing in self.listings.items()}
        provenance = self.scheduler.provenance
        if provenance is not None:
            provenance = replace(provenance, resource_versions=versions, changed=dict(self.changed))
        return replace(self.scheduler, provenance=provenance, **objects)


def read_live(connection: Connection, options: ReadingOptions = ReadingOptions()) -> Reading:
    """Read all kinds that the scheduler's plugins need. Raises ClusterError, ConfigurationError, InputError."""
    cache = _open_cache(connection, options) if options.cache else None
    cached_lists = cache.lists() if cache else {}
    with without_garbage_collection(), ThreadPoolExecutor(MAX_THREADS, "live") as threads:
        try:
            reading = _read_kinds(connection, options, threads, cached_lists)
        except BaseException:
            connection.server.close()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        if cache:
            complete_kinds = reading.listings.keys() - reading.scheduler.gaps.keys() - {*UNWATCHED_KINDS}
            cache.keep({kind: listing for kind, listing in reading.listings.items() if kind in complete_kinds})
        return reading


def _open_cache(connection: Connection, options: ReadingOptions) -> ReadingCache | None:
    """Return the cache of this cluster, or None if the UID that identifies the cluster may not be read.

    Raises ClusterError, InputError.
    """
    server = connection.server
    try:
        cluster = server.get_decoded(OLDEST_NAMESPACE, None, get_json_decoder(Namespace).decode).metadata.uid
    except RefusedError as error:
        log.warning("warning: --cache has no effect, since nothing tells which cluster this is: %s", error)
        return None
    requested = (options.namespace, options.pods_alone, options.also, options.event_reason)
    return ReadingCache.of(
        server.host, cluster, connection.context, connection.namespace, connection.user_key, requested
    )


def _read_kinds(
    connection: Connection, options: ReadingOptions, threads: ThreadPoolExecutor, cached_lists: Mapping[str, Listing]
) -> Reading:
    """List all required kinds in parallel and bring the lists to one moment."""
    server = connection.server
    namespace = options.namespace or connection.namespace

    fields = {"Event": f"reason={options.event_reason}"} if options.event_reason else {}

    def read(kinds: Iterable[str]) -> dict[str, Future[tuple[Listing | None, Gap | None]]]:
        return {
            kind: threads.submit(_list_kind, server, kind, namespace, fields.get(kind, ""), cached_lists.get(kind))
            if kind != "ConfigMap"
            else threads.submit(_list_named, server, kind, _choose_config_maps(options, served))
            for kind in kinds
        }

    queue_kinds = {*QUEUE_KINDS} & {*options.also}
    served = read_served_groups(server) if queue_kinds else None
    absent = {kind for kind in queue_kinds if served is not None and get_group(KINDS[kind].versions[0]) not in served}
    lists = read(
        (*ALWAYS_READ, *(kind for kind in options.also if kind not in absent and kind != OTHER_CUSTOM_RESOURCE))
    )
    scheduler = build_scheduler_cluster(connection, read_setup(server), options)
    replayed = Scheduler(scheduler)
    creation_kinds = () if options.pods_alone else READ_FOR_NEW_PODS
    plugin_kinds = [kind for kind in (*replayed.list_kinds_read(), *creation_kinds) if kind not in lists]
    possibly_needless = replayed.find_needless_kinds(()) if options.pods_alone else {}
    lists |= read(kind for kind in plugin_kinds if kind not in possibly_needless)
    needless = replayed.find_needless_kinds(_iter_pod_specs(lists["Pod"].result()[0])) if possibly_needless else {}
    lists |= read(kind for kind in plugin_kinds if kind in possibly_needless and kind not in needless)
    lists |= read(sorted(find_group_kinds(_get_pod_templates(lists["Pod"].result()[0])) - lists.keys()))
    by_kind = {kind: future.result() for kind, future in lists.items()}
    listings = {kind: listing for kind, (listing, _) in by_kind.items() if listing is not None}
    unwatched = {kind: listings.pop(kind) for kind in UNWATCHED_KINDS if kind in listings}
    listings, changed, warnings = _synchronize_listings(server, listings, threads, cached_lists)
    listings |= unwatched
    if (
        needless.keys() - replayed.find_needless_kinds(_iter_pod_specs(listings["Pod"])).keys()
    ):  # a pod came that needs one of them
        return _read_kinds(connection, replace(options, pods_alone=False), threads, cached_lists)
    gaps = build_gaps({*by_kind, *absent, OTHER_CUSTOM_RESOURCE}, NOT_LISTED) | {
        kind: Gap(f"{NOT_LISTED}: {why}") for kind, why in needless.items()
    }
    gaps |= {kind: gap for kind, (_, gap) in by_kind.items() if gap is not None}
    if {*LIMITS} & {*options.also}:
        scheduler = replace(scheduler, api_server=read_api_server(server))
    if _asks_about_autoscalers(options):
        scheduler = replace(scheduler, autoscaler=read_autoscaler(server))
    newer = (
        describe_accepted(kind, listing.version)
        for kind, listing in listings.items()
        if is_newer_version(kind, listing.version)
    )
    field_warnings = (warning for listing, _ in by_kind.values() if listing for warning in listing.warnings)
    warnings = (*scheduler.warnings, *warnings, *newer, *field_warnings)
    return Reading(listings, replace(scheduler, gaps=gaps, warnings=warnings), changed)


def read_served_groups(server: Server) -> frozenset[str] | None:
    """Return the API groups that the server has besides the core group, or None if they cannot be listed.

    A custom resource definition whose group is missing is not installed, so its objects cannot exist.
    """
    try:
        groups = server.get_decoded("/apis", None, get_json_decoder(_ServedGroups).decode).groups
    except (RefusedError, ClusterError) as error:
        log.info("API groups: %s", error)
        return None
    return frozenset(group.name for group in groups)


def _get_pod_templates(pods: Listing | None) -> Sequence[Pod]:
    """Return one representative pod per distinct pod template."""
    assert pods is not None  # reading fails without pods
    assert isinstance(pods.objects, PodTable)
    return pods.objects.templates


def _iter_pod_specs(pods: Listing | None) -> Iterator[PodSpec]:
    """Yield each distinct pod spec, without node names."""
    return (template.spec for template in _get_pod_templates(pods))


def build_scheduler_cluster(connection: Connection, setup: SchedulerSetup, options: ReadingOptions) -> Cluster:
    """Build the Cluster without objects that describes the scheduler.

    The user's settings take precedence over detected ones.
    """
    has_configuration = options.configuration is not None
    version = options.kube_version or setup.version
    configuration, warnings = (None, ()) if has_configuration else _check_configuration(setup, version)
    known_gates = {name: on for name, on in setup.feature_gates.items() if name in GATE_STAGES}
    return Cluster(
        configuration=options.configuration if has_configuration else configuration,
        feature_gates={**known_gates, **(options.feature_gates or {})},
        kube_version=version,
        warnings=warnings if has_configuration or options.kube_version else (*setup.warnings, *warnings),
        provenance=Provenance(
            server=strip_credentials(connection.server.host),
            context=connection.context,
            namespace=connection.namespace,
            server_version=setup.server_version,
            read_at=datetime.now(UTC).isoformat(timespec="seconds"),
            leader=setup.leader,
            instances=setup.instances,
            configured_by=setup.configured_by if configuration is not None else "",
        ),
    )


def _check_configuration(setup: SchedulerSetup, version: str) -> tuple[JsonObject | None, tuple[str, ...]]:
    """Return the detected configuration, or None and a warning if kube-scheduler would reject it."""
    try:
        Scheduler(Cluster(configuration=setup.configuration, kube_version=version))
    except ConfigurationError as error:
        problem = f"{setup.configured_by}: {error}: replaying kube-scheduler's defaults, unless --config says otherwise"
        return None, (problem,)
    return setup.configuration, ()


def _list_kind(
    server: Server, kind: str, namespace: str, fields: str, cached_list: Listing | None
) -> tuple[Listing | None, Gap | None]:
    """Return the listing of a kind and the gap that remains, or neither for a custom resource that is not installed.

    A cached list is returned as it is. Raises ClusterError if no answer is possible without the kind.
    """
    if cached_list is not None:
        return cached_list, None
    try:
        return _list_if_permitted(server, kind, get_home(kind) or namespace, fields)
    except LeftOutError as error:
        return None, Gap(error.what)


def _choose_config_maps(options: ReadingOptions, served: frozenset[str] | None) -> list[str]:
    """Return the names of the ConfigMaps to read: those of autoscalers if asked about, and that of an installed Kueue.

    ``served`` are the API groups of the server, or None if they are not known.
    """
    names = list(AUTOSCALER_MAPS) if _asks_about_autoscalers(options) else []
    has_kueue = "KueueWorkload" in options.also and (
        served is None or get_group(KINDS["KueueWorkload"].versions[0]) in served
    )
    return [*names, KUEUE_MAP] if has_kueue else names


def _asks_about_autoscalers(options: ReadingOptions) -> bool:
    """Return whether the question is about autoscalers, which also reads their machines."""
    return "MachineDeployment" in options.also


def _list_named(server: Server, kind: str, names: Sequence[str]) -> tuple[Listing | None, Gap | None]:
    """List the objects of these names one by one, since rights may be restricted to them. Raises ClusterError."""
    try:
        results = [_list_if_permitted(server, kind, get_home(kind, name), f"metadata.name={name}") for name in names]
    except LeftOutError as error:
        return None, Gap(error.what)
    listings = [listing for listing, _ in results if listing is not None]
    gap = next((gap for _, gap in results if gap is not None), None)
    if not listings:
        return None, gap
    return listings[0]._replace(
        objects=ObjectTuple.of(chain.from_iterable(listing.objects for listing in listings))
    ), gap


def _list_if_permitted(server: Server, kind: str, namespace: str, fields: str) -> tuple[Listing | None, Gap | None]:
    """List a kind in all namespaces, or in one if that is forbidden, and return the gap that remains.

    Raises LeftOutError, ClusterError.
    """
    try:
        return read_list(server, kind, fields=fields), None
    except RefusedError as error:
        rejection = error
    except ClusterError as error:
        if isinstance(error, LeftOutError) or kind not in (*OBSERVED, *CREATION_KINDS):
            raise
        return None, Gap(f"could not be read: {error.what}")
    if rejection.code == FORBIDDEN and kind not in CLUSTER_SCOPED:
        try:
            restriction = f"were read in namespace {namespace} alone: {rejection.message}"
            return read_list(server, kind, namespace, fields), Gap(restriction, namespace)
        except RefusedError:
            pass
    if kind in ESSENTIAL:
        raise ClusterError(rejection.message, where=server.host, hint=RIGHTS)
    if rejection.code == NOT_FOUND and (
        kind in (*ADMISSION_HOOK_KINDS, *QUEUE_KINDS) or is_custom_api(KINDS[kind].versions[0])
    ):
        return None, None  # nobody can have created one
    no_api = f"are not served in {' or '.join(KINDS[kind].versions)}"
    return None, Gap(no_api if rejection.code == NOT_FOUND else f"could not be read: {rejection.message}")


def _synchronize_listings(
    server: Server, listings: Mapping[str, Listing], threads: ThreadPoolExecutor, cached_lists: Mapping[str, Listing]
) -> tuple[dict[str, Listing], dict[str, int], tuple[str, ...]]:
    """Bring lists to one moment. Return the lists, the number of changed objects by kind, and warnings.

    Lists in ``cached_lists`` come from the cache. They are listed again if the server no longer remembers their
    version.
    """
    if len({listing.resource_version for listing in listings.values()}) <= 1 and not cached_lists:
        return dict(listings), {}, ()
    futures = {
        kind: threads.submit(_refresh_cached if kind in cached_lists else _catch_up_if_possible, server, kind, listing)
        for kind, listing in listings.items()
    }
    results = {kind: future.result() for kind, future in futures.items()}
    unwatched_plurals = [KINDS[kind].plural for kind, (_, number) in results.items() if number is None]
    warning = f"what changed while the cluster was read is not known of {', '.join(unwatched_plurals)}"
    changed = {kind: number for kind, (_, number) in results.items() if number}
    return {kind: listing for kind, (listing, _) in results.items()}, changed, (warning,) if unwatched_plurals else ()


def _catch_up_if_possible(server: Server, kind: str, listing: Listing) -> tuple[Listing, int | None]:
    """Return the updated listing and the number of changes, or the old listing and None if it cannot be watched."""
    try:
        return catch_up(server, kind, listing)
    except (RefusedError, BrokenOffError, ClusterError) as error:
        log.info("%s: %s", KINDS[kind].plural, error)
        return listing, None


def _refresh_cached(server: Server, kind: str, cached_list: Listing) -> tuple[Listing, int]:
    """Return a cached listing brought up to date, by watching or by listing it again. Raises ClusterError."""
    try:
        return catch_up(server, kind, cached_list)[0], 0
    except (RefusedError, BrokenOffError) as error:
        log.info("%s: listed again: %s", KINDS[kind].plural, error)
    try:
        return read_path(server, kind, cached_list.path, cached_list.fields), 0
    except RefusedError as error:
        raise ClusterError(error.message, where=server.host, hint=RIGHTS) from None
