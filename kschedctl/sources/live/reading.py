"""The reader of a live cluster, which lists the required kinds in parallel and brings the lists to one moment."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

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
from kschedctl.api.versions_read import describe_accepted_version, is_unknown_newer_version
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
from kschedctl.sources.live.components import (
    SchedulerSetup,
    read_api_server_flags,
    read_autoscaler_flags,
    read_scheduler_setup,
)
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.http import BrokenOffError, RefusedError, Server
from kschedctl.sources.live.lists import (
    FORBIDDEN,
    NOT_FOUND,
    LeftOutError,
    Listing,
    ObjectTuple,
    UpdatedListing,
    catch_up_with_changes,
    read_list,
    read_list_at,
)
from kschedctl.text.printable import strip_credentials

log = logging.getLogger(__name__)

MAX_THREADS = 8
ESSENTIAL_KINDS = ("Node", "Pod")
"""The kinds without which nothing can be answered."""
UNWATCHED_KINDS = (*OBSERVED, *(kind.name for kind in KINDS.values() if kind.names))
"""The kinds whose changes are not watched: history, which only grows, and kinds that are read by name."""
OLDEST_NAMESPACE = "/api/v1/namespaces/kube-system"
"""The namespace whose UID identifies the cluster."""
RIGHTS = "kschedctl needs to get, list and watch them: see kschedctl help rights"


class _ServedGroup(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedGroups(msgspec.Struct, frozen=True):
    """The API groups of a server as ``/apis`` lists them."""

    groups: tuple[_ServedGroup, ...]


class _KindResult(NamedTuple):
    """The result of listing a kind. Both are None for a custom resource that is not installed."""

    listing: Listing | None
    gap: Gap | None
    """The objects that may be missing in the listing, with the reason."""


class _SynchronizedLists(NamedTuple):
    """Lists that were brought to one moment."""

    listings: dict[str, Listing]
    changed: dict[str, int]
    """The number of changed objects by kind."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadingOptions:
    """The user's settings for the scheduler and for what to read. None means that the cluster decides."""

    configuration: JsonObject | None = None
    feature_gates: Mapping[str, bool] | None = None
    kube_version: str | None = None
    namespace: str | None = None
    """The namespace to list if a kind may not be listed in all namespaces."""
    pods_alone: bool = False
    """True if only existing pods matter, so that kinds that cannot affect them need not be read."""
    also: tuple[str, ...] = ()
    """Kinds to read in addition to those of the plugins."""
    event_reason: str = ""
    """The reason to which events are restricted."""
    cache: bool = False
    """True to cache the lists and start from recently cached ones."""


@dataclass(frozen=True)
class Reading:
    """The result of reading a live cluster."""

    listings: Mapping[str, Listing]
    scheduler: Cluster
    """The cluster without objects but with everything else."""
    changed: Mapping[str, int]
    """The number of objects per kind that changed while the cluster was read."""

    def build_cluster(self) -> Cluster:
        """Build the Cluster from the objects and the scheduler's settings.

        The resource versions of the lists and the numbers of changed objects are added to the provenance.
        """
        objects: dict[str, Json] = {FIELDS[kind]: listing.objects for kind, listing in self.listings.items()}
        versions = {kind: listing.resource_version for kind, listing in self.listings.items()}
        provenance = self.scheduler.provenance
        if provenance is not None:
            provenance = replace(provenance, resource_versions=versions, changed=dict(self.changed))
        return replace(self.scheduler, provenance=provenance, **objects)


def read_live_cluster(connection: Connection, options: ReadingOptions = ReadingOptions()) -> Reading:
    """Read all kinds that the scheduler's plugins need. If the cache is used, save complete lists in it.

    Raises ClusterError if the API server fails, and ConfigurationError or InputError if its responses cannot be used.
    """
    cache = _open_cache(connection, options) if options.cache else None
    cached_lists = cache.load_lists() if cache else {}
    with without_garbage_collection(), ThreadPoolExecutor(MAX_THREADS, "live") as threads:
        try:
            reading = _read_kinds(connection, options, threads, cached_lists)
        except BaseException:
            connection.server.close()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        if cache:
            complete_kinds = reading.listings.keys() - reading.scheduler.gaps.keys() - {*UNWATCHED_KINDS}
            cache.save_lists({kind: listing for kind, listing in reading.listings.items() if kind in complete_kinds})
        return reading


def _open_cache(connection: Connection, options: ReadingOptions) -> ReadingCache | None:
    """Return the cache for this cluster.

    If the UID that identifies the cluster may not be read, log a warning and return None. Raises ClusterError if the
    API server fails, and InputError if the cache cannot be used.
    """
    server = connection.server
    try:
        cluster = server.get_decoded_body(OLDEST_NAMESPACE, None, get_json_decoder(Namespace).decode).metadata.uid
    except RefusedError as error:
        log.warning("warning: --cache has no effect, since the cluster cannot be identified: %s", error)
        return None
    requested = (options.namespace, options.pods_alone, options.also, options.event_reason)
    return ReadingCache.open(
        server.host, cluster, connection.context, connection.namespace, connection.user_key, requested
    )


def _read_kinds(
    connection: Connection, options: ReadingOptions, threads: ThreadPoolExecutor, cached_lists: Mapping[str, Listing]
) -> Reading:
    """List all required kinds in parallel, bring the lists to the same point in time, and record the gaps.

    With ``options.pods_alone``, kinds that cannot affect the existing pods are not listed. If a pod that needs one of
    these kinds is created while the lists are read, all kinds are read again. Raises ClusterError if the API server
    fails, and ConfigurationError if the scheduler's configuration cannot be replayed.
    """
    server = connection.server
    namespace = options.namespace or connection.namespace
    fields = {"Event": f"reason={options.event_reason}"} if options.event_reason else {}
    absent_kinds = _find_absent_kinds(server, {*QUEUE_KINDS} & {*options.also})

    def submit_lists(kinds: Iterable[str]) -> dict[str, Future[_KindResult]]:
        """Start to list the kinds in other threads."""
        futures: dict[str, Future[_KindResult]] = {}
        for kind in kinds:
            if kind == "ConfigMap":
                futures[kind] = threads.submit(
                    _list_named_objects, server, kind, _choose_config_maps(options, absent_kinds)
                )
            else:
                selector = fields.get(kind, "")
                cached_list = cached_lists.get(kind)
                futures[kind] = threads.submit(_list_kind, server, kind, namespace, selector, cached_list)
        return futures

    # Kinds that are always required are listed while the scheduler's setup is read
    unlisted_kinds = {*absent_kinds, OTHER_CUSTOM_RESOURCE}
    futures = submit_lists((*ALWAYS_READ, *(kind for kind in options.also if kind not in unlisted_kinds)))
    scheduler_cluster = build_scheduler_cluster(connection, read_scheduler_setup(server), options)
    scheduler = Scheduler(scheduler_cluster)

    # Then come the kinds that its plugins read. Some of them may be needless, which depends on the pods
    creation_kinds = () if options.pods_alone else READ_FOR_NEW_PODS
    plugin_kinds = [kind for kind in (*scheduler.list_kinds_read(), *creation_kinds) if kind not in futures]
    possibly_needless = scheduler.find_irrelevant_kinds(()) if options.pods_alone else {}
    futures |= submit_lists(kind for kind in plugin_kinds if kind not in possibly_needless)
    pods = futures["Pod"].result().listing
    needless = scheduler.find_irrelevant_kinds(_iter_pod_specs(pods)) if possibly_needless else {}
    futures |= submit_lists(kind for kind in plugin_kinds if kind in possibly_needless and kind not in needless)
    if "ResourceClaimTemplate" not in futures and _do_pods_use_claim_templates(pods):
        futures |= submit_lists(["ResourceClaimTemplate"])
    futures |= submit_lists(sorted(find_group_kinds(_get_pod_templates(pods)) - futures.keys()))
    results = {kind: future.result() for kind, future in futures.items()}

    # Bring the lists to one moment, and start again if a new pod needs a kind that was left out
    listings = {kind: result.listing for kind, result in results.items() if result.listing is not None}
    unwatched_listings = {kind: listings.pop(kind) for kind in UNWATCHED_KINDS if kind in listings}
    synchronized = _synchronize_lists(server, listings, threads, cached_lists)
    listings = synchronized.listings | unwatched_listings
    still_needless = scheduler.find_irrelevant_kinds(_iter_pod_specs(listings["Pod"]))
    if needless.keys() - still_needless.keys():
        return _read_kinds(connection, replace(options, pods_alone=False), threads, cached_lists)

    # Record what is missing, and add what else was asked for
    gaps = build_gaps({*results, *unlisted_kinds}, NOT_LISTED)
    gaps |= {kind: Gap(f"{NOT_LISTED}: {reason}") for kind, reason in needless.items()}
    gaps |= {kind: result.gap for kind, result in results.items() if result.gap is not None}
    if {*LIMITS} & {*options.also}:
        scheduler_cluster = replace(scheduler_cluster, api_server=read_api_server_flags(server))
    if _asks_about_autoscalers(options):
        scheduler_cluster = replace(scheduler_cluster, autoscaler=read_autoscaler_flags(server))
    warnings = (
        *scheduler_cluster.warnings,
        *synchronized.warnings,
        *_iter_version_warnings(listings),
        *(warning for result in results.values() if result.listing for warning in result.listing.warnings),
    )
    return Reading(listings, replace(scheduler_cluster, gaps=gaps, warnings=warnings), synchronized.changed)


def _do_pods_use_claim_templates(pods: Listing | None) -> bool:
    """Return whether any pod has a claim that is made from a ResourceClaimTemplate, which may not exist."""
    return any(claim.resource_claim_template_name for spec in _iter_pod_specs(pods) for claim in spec.resource_claims)


def _find_absent_kinds(server: Server, kinds: Collection[str]) -> set[str]:
    """Return the kinds whose API group the server does not have. Without kinds, no request is sent.

    If the groups cannot be listed, no kind counts as absent.
    """
    served_groups = read_served_groups(server) if kinds else None
    if served_groups is None:
        return set()
    return {kind for kind in kinds if get_group(KINDS[kind].versions[0]) not in served_groups}


def _iter_version_warnings(listings: Mapping[str, Listing]) -> Iterator[str]:
    """Yield a warning for each kind that was read in a newer version than kschedctl knows."""
    for kind, listing in listings.items():
        if is_unknown_newer_version(kind, listing.version):
            yield describe_accepted_version(kind, listing.version)


def read_served_groups(server: Server) -> frozenset[str] | None:
    """Return the server's API groups except the core group, or None if they cannot be listed."""
    try:
        groups = server.get_decoded_body("/apis", None, get_json_decoder(_ServedGroups).decode).groups
    except (RefusedError, ClusterError) as error:
        log.info("API groups: %s", error)
        return None
    return frozenset(group.name for group in groups)


def _get_pod_templates(pods: Listing | None) -> Sequence[Pod]:
    """Return one representative pod per distinct pod template. Pods must have been listed."""
    assert pods is not None  # reading fails without pods
    assert isinstance(pods.objects, PodTable)
    return pods.objects.templates


def _iter_pod_specs(pods: Listing | None) -> Iterator[PodSpec]:
    """Yield each distinct pod spec, without node names."""
    return (template.spec for template in _get_pod_templates(pods))


def build_scheduler_cluster(connection: Connection, setup: SchedulerSetup, options: ReadingOptions) -> Cluster:
    """Build a Cluster without objects that describes the scheduler: its version, configuration, gates and provenance.

    The user's settings take precedence over detected ones. A detected configuration that kube-scheduler would reject is
    replaced by a warning.
    """
    has_configuration = options.configuration is not None
    version = options.kube_version or setup.version
    detected_configuration: JsonObject | None = None
    warnings: tuple[str, ...] = ()
    if not has_configuration:
        detected_configuration, warnings = _check_configuration(setup, version)
        if not options.kube_version:
            warnings = (*setup.warnings, *warnings)
    known_gates = {name: on for name, on in setup.feature_gates.items() if name in GATE_STAGES}
    return Cluster(
        configuration=options.configuration if has_configuration else detected_configuration,
        feature_gates={**known_gates, **(options.feature_gates or {})},
        kube_version=version,
        warnings=warnings,
        provenance=Provenance(
            server=strip_credentials(connection.server.host),
            context=connection.context,
            namespace=connection.namespace,
            server_version=setup.server_version,
            read_at=datetime.now(UTC).isoformat(timespec="seconds"),
            leader=setup.leader,
            instances=setup.instances,
            configured_by=setup.configured_by if detected_configuration is not None else "",
        ),
    )


def _check_configuration(setup: SchedulerSetup, version: str) -> tuple[JsonObject | None, tuple[str, ...]]:
    """Return the detected configuration and no warnings, or None and a warning if kube-scheduler would reject it."""
    try:
        Scheduler(Cluster(configuration=setup.configuration, kube_version=version))
    except ConfigurationError as error:
        consequence = "so kube-scheduler's default configuration is replayed unless --config is given"
        return None, (f"{setup.configured_by}: {error}, {consequence}",)
    return setup.configuration, ()


def _list_kind(server: Server, kind: str, namespace: str, fields: str, cached_list: Listing | None) -> _KindResult:
    """List a kind, or return its cached list unchanged.

    Objects in a newer version that cannot be read result in a gap. Raises ClusterError if no answer is possible without
    the kind.
    """
    if cached_list is not None:
        return _KindResult(cached_list, gap=None)
    try:
        return _list_kind_if_permitted(server, kind, get_home(kind) or namespace, fields)
    except LeftOutError as error:
        return _KindResult(listing=None, gap=Gap(error.what))


def _choose_config_maps(options: ReadingOptions, absent_kinds: Collection[str]) -> list[str]:
    """Return the names of the ConfigMaps to read.

    These are the ConfigMaps of autoscalers if they are needed, and Kueue's if its Workloads are read as well.
    """
    names = list(AUTOSCALER_MAPS) if _asks_about_autoscalers(options) else []
    if "KueueWorkload" in options.also and "KueueWorkload" not in absent_kinds:
        names.append(KUEUE_MAP)
    return names


def _asks_about_autoscalers(options: ReadingOptions) -> bool:
    """Return whether the settings of autoscalers are needed, which is the case if their machines are read."""
    return "MachineDeployment" in options.also


def _list_named_objects(server: Server, kind: str, names: Sequence[str]) -> _KindResult:
    """List the objects with these names one by one, because the user's rights may be restricted to them.

    If several objects could not be read, only the first gap is returned. Raises ClusterError if the API server fails.
    """
    try:
        results = [
            _list_kind_if_permitted(server, kind, get_home(kind, name), f"metadata.name={name}") for name in names
        ]
    except LeftOutError as error:
        return _KindResult(listing=None, gap=Gap(error.what))
    listings = [result.listing for result in results if result.listing is not None]
    gap = next((result.gap for result in results if result.gap is not None), None)
    if not listings:
        return _KindResult(listing=None, gap=gap)
    objects = ObjectTuple.of(chain.from_iterable(listing.objects for listing in listings))
    return _KindResult(listings[0]._replace(objects=objects), gap)


def _list_kind_if_permitted(server: Server, kind: str, namespace: str, fields: str) -> _KindResult:
    """List a kind in all namespaces or, if listing all is forbidden, only in ``namespace``, with a gap that says so.

    If the server denies this as well, the result is a gap, or nothing for a kind that is not installed. After any other
    failure, observed kinds and kinds about pod creation give a gap. Raises LeftOutError if an object has unknown
    fields. Raises ClusterError if an essential kind is denied, or if another kind cannot be read.
    """
    try:
        return _KindResult(read_list(server, kind, fields=fields), gap=None)
    except RefusedError as error:
        rejection = error
    except ClusterError as error:
        if isinstance(error, LeftOutError) or kind not in (*OBSERVED, *CREATION_KINDS):
            raise
        return _KindResult(listing=None, gap=Gap(f"could not be read: {error.what}"))

    # Try the namespace alone
    if rejection.code == FORBIDDEN and kind not in CLUSTER_SCOPED:
        restriction = f"were read only in namespace {namespace}: {rejection.message}"
        with suppress(RefusedError):
            return _KindResult(read_list(server, kind, namespace, fields), Gap(restriction, namespace))
    return _build_rejected_result(kind, rejection, server)


def _build_rejected_result(kind: str, rejection: RefusedError, server: Server) -> _KindResult:
    """Build the result for a kind whose list the server denies or does not serve: a gap with the reason.

    A kind that is not installed gives no gap. Raises ClusterError if the kind is essential.
    """
    if kind in ESSENTIAL_KINDS:
        raise ClusterError(rejection.message, where=server.host, hint=RIGHTS)
    if rejection.code != NOT_FOUND:
        return _KindResult(listing=None, gap=Gap(f"could not be read: {rejection.message}"))
    versions = KINDS[kind].versions
    if kind in (*ADMISSION_HOOK_KINDS, *QUEUE_KINDS) or is_custom_api(versions[0]):
        return _KindResult(listing=None, gap=None)  # the kind is not installed, so no objects can exist
    return _KindResult(listing=None, gap=Gap(f"are not served in {' or '.join(versions)}"))


def _synchronize_lists(
    server: Server, listings: Mapping[str, Listing], threads: ThreadPoolExecutor, cached_lists: Mapping[str, Listing]
) -> _SynchronizedLists:
    """Bring all lists to the same point in time by applying the changes made since each was read.

    Lists that already have the same version are returned unchanged, unless some come from the cache (``cached_lists``).
    A cached list is read again if the server no longer knows its version. A warning names the kinds that cannot be
    watched.
    """
    have_same_version = len({listing.resource_version for listing in listings.values()}) <= 1
    if have_same_version and not cached_lists:
        return _SynchronizedLists(dict(listings), changed={})
    futures = {}
    for kind, listing in listings.items():
        update = _refresh_cached_list if kind in cached_lists else _catch_up_if_possible
        futures[kind] = threads.submit(update, server, kind, listing)
    updated = {kind: future.result() for kind, future in futures.items()}
    synchronized = {kind: result.listing for kind, result in updated.items()}
    changed = {kind: result.change_count for kind, result in updated.items() if result.change_count}

    warnings: tuple[str, ...] = ()
    unwatched_plurals = [KINDS[kind].plural for kind, result in updated.items() if result.change_count is None]
    if unwatched_plurals:
        warnings = (f"changes while the cluster was read are unknown for {', '.join(unwatched_plurals)}",)
    return _SynchronizedLists(synchronized, changed=changed, warnings=warnings)


def _catch_up_if_possible(server: Server, kind: str, listing: Listing) -> UpdatedListing:
    """Apply the changes that a watch reports since the listing. Return the updated listing and the number of changes.

    If the watch fails, log the reason and return the old listing without a number.
    """
    try:
        return catch_up_with_changes(server, kind, listing)
    except (RefusedError, BrokenOffError, ClusterError) as error:
        log.info("%s: %s", KINDS[kind].plural, error)
        return UpdatedListing(listing, change_count=None)


def _refresh_cached_list(server: Server, kind: str, cached_list: Listing) -> UpdatedListing:
    """Bring a cached listing up to date, by applying the changes since then or by listing the kind again.

    The number of changes is always 0, because none of them was made while the cluster was read. Raises ClusterError if
    the API server fails.
    """
    try:
        return catch_up_with_changes(server, kind, cached_list)._replace(change_count=0)
    except (RefusedError, BrokenOffError) as error:
        log.info("%s: listed again: %s", KINDS[kind].plural, error)
    try:
        return UpdatedListing(read_list_at(server, kind, cached_list.path, cached_list.fields), change_count=0)
    except RefusedError as error:
        raise ClusterError(error.message, where=server.host, hint=RIGHTS) from None
