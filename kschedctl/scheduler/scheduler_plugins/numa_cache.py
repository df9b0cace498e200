"""The OverReserve cache of NodeResourceTopologyMatch, to the extent that a snapshot shows its contents.

The requests of pods placed since the snapshot count against every NUMA node of their node. A published topology counts
once its fingerprint matches the pods on the node. A node that rejected a pod is checked again. The fingerprint is the
XXH64 hash of the namespaces and names of the pods. Texts of equal length are hashed together, word by word.

Upstream: pkg/noderesourcetopology/cache/{overreserve,store,foreign_pods}.go of kubernetes-sigs/scheduler-plugins, and
github.com/k8stopologyawareschedwg/podfingerprint (v0.2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools, Rows
from kschedctl.api.json_values import JsonObject, object_at, objects_at, text_at
from kschedctl.api.objects import NodeResourceTopology, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.resource_names import CPU, is_native
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.scheduler_plugins.effective_requests import (
    MILLICORES,
    QualityOfService,
    compute_qos_class,
    parse_container_requests,
    sum_effective_requests,
)
from kschedctl.scheduler.scheduler_plugins.numa_nodes import KIND, is_affine
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    AUTODETECT,
    DEDICATED,
    NONE,
    ONLY_EXCLUSIVE,
    NumaCacheArgs,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE = "with-exclusive-resources"
MAX_FINGERPRINT_LENGTH = 32
"""More characters than any fingerprint has."""
PLACEMENT = "topology.node.k8s.io/numaplacement-metadata"
"""The attribute that publishes on which NUMA node each container runs.

Upstream: github.com/k8stopologyawareschedwg/numaplacement.
"""
FREED = "publishes the NUMA nodes of containers, so that the plugin knows what their eviction frees: not replayed"
OLDER = "may be older in the scheduler's cache"
OTHERS = "of {} do not match the pods that are there, and the scheduler's cache was not read"

_Hashes = npt.NDArray[np.uint64]
_Octets = npt.NDArray[np.uint8]

_PREFIX, _VERSION = "pfp0", "v001"
_STRIPE = 4
"""Words per stripe, one for each lane."""
_WORD = 8
"""Bytes per word."""

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


class PublishedPods(NamedTuple):
    """A comparison of the pods on each node with the pods that its published topology counts."""

    differing_nodes: Bools
    """(N,): whether the topology is about other pods or does not identify its pods."""
    nodes_with_foreign_pods: Bools
    """(N,): whether, in addition, another scheduler placed some of the pods, so that the node is left out."""


class OverReserve:
    """The cache shared by the profiles that enable a plugin."""

    def __init__(self, plugin: str, settings: NumaCacheArgs) -> None:
        self.plugin, self.settings = plugin, settings

    def find_unknown_cache_contents(self, view: Fork, decided: Bools, scored: Bools) -> Unknown | None:
        """Return an unknown if the plugin's cache may hold topologies that differ from the published ones.

        If the published topology of a node does not match the node's pods, the cache may hold any topology of the node.
        Otherwise, the cache may hold an older topology, because only nodes that rejected a pod are checked again.
        Return None if this cannot change where the pod goes.

        `decided` and `scored` are masks (N,) of the nodes where available amounts decide whether the pod fits, or its
        score. If both may change, the unknown is only about whether the pod fits.
        """
        published = self.compare_published_pods(view)

        # A node with pods of another scheduler is left out by the plugin, even if no available amounts decide there.
        unsure_fits = published.nodes_with_foreign_pods | (published.differing_nodes & decided)
        if unsure_fits.any():
            return self._build_mismatch_unknown(unsure_fits, Effect.EITHER)

        unsure_scores = published.differing_nodes & scored
        if unsure_scores.any():
            return self._build_mismatch_unknown(unsure_scores, Effect.SCORES)
        if scored.any():
            return Unknown(Dependency(KIND, Effect.SCORES), Gap(OLDER), self.plugin)
        return None

    def _build_mismatch_unknown(self, nodes: Bools, effect: Effect) -> Unknown:
        """Build the unknown that the published topologies of `nodes`, a mask (N,), do not match their pods."""
        count = int(nodes.sum())
        node_count = "a node" if count == 1 else f"{count:,} nodes"
        return Unknown(Dependency(KIND, effect), Gap(OTHERS.format(node_count)), self.plugin)

    def find_preemption_unknown(self, info: PodInfo, view: Fork, decided: Bools) -> Unknown | None:
        """Return an unknown if evictions may free amounts for the pod on NUMA nodes, otherwise None.

        Evictions free amounts only on nodes whose topology publishes container placements. Only nodes in the mask
        `decided` (N,), on which available amounts decide whether the pod fits, are considered. Return None for a pod
        that never preempts.
        """
        if info.spec.preemption_policy == "Never":
            return None
        is_evictable = (view.pods.pod_priorities < info.priority) & (view.node >= 0)
        can_help = _get_nodes_publishing_placements(view) & decided
        rows_of_evictable_pods = view.node[is_evictable]
        if can_help[rows_of_evictable_pods].any():
            return Unknown(Dependency(KIND, Effect.ADMITS), Gap(FREED), self.plugin)
        return None

    def compare_published_pods(self, view: Fork) -> PublishedPods:
        """Compare the pods on each node with the pods that its published topology counts.

        The result has masks of the nodes whose pods differ, and of those nodes among them that have pods of other
        schedulers. The result is cached until the topologies, the nodes or the pods change.
        """
        profiles = _find_profiles_with_plugin(self.plugin, view.cluster.configuration)
        key = self.plugin, self.settings, profiles
        return view.objects.index(
            key,
            lambda topologies: self._compare_topologies_with_pods(topologies, view, profiles),
            KIND,
            of=(view.nodes, view.pods),
        )

    def sum_reserved_requests(self, view: Fork) -> dict[str, Amounts]:
        """Return, by resource, the requests (N,) on each node of the pods placed since the snapshot."""
        positions = np.flatnonzero(view.arrivals.arrived_later & (view.node >= 0))
        info_numbers = view.pods.info[positions]
        amounts: dict[str, Amounts] = {}
        for number in np.unique(info_numbers).tolist():
            rows = view.node[positions[info_numbers == number]]
            for resource, amount in sum_effective_requests(view.pods.infos[number].pod).items():
                if resource not in amounts:
                    amounts[resource] = np.zeros(len(view.nodes), np.int64)
                np.add.at(amounts[resource], rows, amount)
        return amounts

    def _compare_topologies_with_pods(
        self, topologies: Iterable[NodeResourceTopology], view: Fork, profiles: frozenset[str]
    ) -> PublishedPods:
        """Compare the published topologies with the pods of the cluster, by the fingerprints of the pods on each node.

        `profiles` are the names of the profiles whose pods the plugin knows.
        """
        pods = view.cluster.pods
        node_count = len(view.nodes)
        published = _PublishedTopologies.from_topologies(
            topologies, view.nodes.index, node_count, self.settings.resync_method
        )

        # Select the pods on nodes with a topology, and find their rows, their templates and whether they are exclusive.
        row_by_code = np.array([view.nodes.index.get(name, -1) for name in pods.node.values], np.int64)
        row_by_pod = row_by_code[pods.node.codes]
        positions = np.flatnonzero((row_by_pod >= 0) & published.has_topology[row_by_pod])
        rows = row_by_pod[positions]
        templates = pods.template[positions]
        is_exclusive_template = self._find_exclusive_templates(published, pods.templates)
        is_exclusive = is_exclusive_template[published.resource_set[rows], templates]

        # A topology differs if it does not have the fingerprint of the pods that are on the node now.
        is_covered = is_exclusive | ~published.only_exclusive[rows]
        is_counted = _match_templates(self._is_counted, pods)[templates] & is_covered
        current_fingerprints = _compute_fingerprints(pods, positions[is_counted], rows[is_counted], node_count)
        differing_nodes = published.has_topology & (published.fingerprints != current_fingerprints)

        # Of these nodes, find the nodes with pods of other schedulers that the settings make count.
        is_foreign = _match_templates(lambda pod: self._is_foreign(pod, profiles), pods)[templates]
        if self.settings.foreign_pods_detect == ONLY_EXCLUSIVE:
            is_foreign &= is_exclusive
        has_foreign_pod = np.bincount(rows[is_foreign], minlength=node_count) > 0
        return PublishedPods(differing_nodes, differing_nodes & has_foreign_pod)

    def _find_exclusive_templates(self, published: _PublishedTopologies, templates: Sequence[Pod]) -> Bools:
        """Return a mask (sets of resource names, templates) of the pod templates with exclusive resources.

        Each node publishes one of these sets of names. The mask is all False if the settings make it irrelevant.
        """
        is_needed = published.only_exclusive.any() or self.settings.foreign_pods_detect == ONLY_EXCLUSIVE
        exclusive = np.zeros((len(published.resource_sets), len(templates)), np.bool_)
        if is_needed:
            for number, names in enumerate(published.resource_sets):
                exclusive[number] = [has_exclusive_resources(template, names) for template in templates]
        return exclusive

    def _is_counted(self, pod: Pod) -> bool:
        """Return whether the cache counts the pod.

        A dedicated informer counts pods that are no longer Pending, and other informers count Running pods.
        """
        phase = pod.status.phase
        return phase != "Pending" if self.settings.informer_mode == DEDICATED else phase == "Running"

    def _is_foreign(self, pod: Pod, profiles: frozenset[str]) -> bool:
        """Return whether the pod belongs to another scheduler and the settings look for such pods."""
        return self.settings.foreign_pods_detect != NONE and pod.spec.scheduler_name not in profiles


class _PublishedTopologies(NamedTuple):
    """Data of the published topologies, by node."""

    fingerprints: npt.NDArray[np.str_]
    """(N,): the fingerprint, a blank if the topology has none, "" if there is no topology."""
    only_exclusive: Bools
    """(N,): whether the fingerprint covers only pods with exclusive resources."""
    resource_set: Rows
    """(N,): the index in ``resource_sets`` of the resources the topology offers."""
    resource_sets: tuple[frozenset[str], ...]
    """The distinct sets of resource names."""

    @property
    def has_topology(self) -> Bools:
        """(N,): whether a topology of the node is published."""
        has_topology: Bools = self.fingerprints != ""
        return has_topology

    @classmethod
    def from_topologies(
        cls, topologies: Iterable[NodeResourceTopology], index: Mapping[str, int], node_count: int, method: str
    ) -> _PublishedTopologies:
        """Collect the fingerprints and resource names of the topologies, by node.

        `index` has the row of each of the `node_count` nodes by name. Topologies of other nodes are left out. `method`
        is the setting resyncMethod, which decides whether a fingerprint covers only exclusive resources.
        """
        fingerprints = [""] * node_count
        only_exclusive = np.zeros(node_count, np.bool_)
        resource_set = np.zeros(node_count, np.int64)
        resource_sets: dict[frozenset[str], int] = {frozenset(): 0}
        for topology in topologies:
            row = index.get(topology.metadata.name)
            if row is None:
                continue
            # Reversed, because the first of several attributes with the same name counts.
            attributes = {attribute.name: attribute.value for attribute in reversed(topology.attributes)}
            # A topology without a fingerprint gets a blank, because "" stands for a node without a topology.
            fingerprints[row] = (attributes.get(FINGERPRINT) or " ")[:MAX_FINGERPRINT_LENGTH]
            detected = method == AUTODETECT and attributes.get(METHOD) == WITH_EXCLUSIVE
            only_exclusive[row] = detected or method == ONLY_EXCLUSIVE
            resource_set[row] = resource_sets.setdefault(_collect_resource_names(topology), len(resource_sets))
        return cls(np.array(fingerprints, np.str_), only_exclusive, resource_set, tuple(resource_sets))


def _compute_fingerprints(pods: PodTable, positions: Rows, rows: Rows, node_count: int) -> npt.NDArray[np.str_]:
    """Return, for each node, the fingerprint of its pods.

    `positions` are the pods to include, and `rows` are their nodes.
    """
    namespace_hashes = hash_texts([template.metadata.namespace for template in pods.templates])
    names = np.array(pods.names, object)[positions]
    hashes = hash_texts(names, namespace_hashes[pods.template[positions]])
    digests = compute_pod_digests(hashes, rows, node_count)
    return np.array([format_fingerprint(digest) for digest in digests], np.str_)


def _get_nodes_publishing_placements(view: Fork) -> Bools:
    """Return a mask (N,) of the nodes whose topology publishes the NUMA nodes of containers, cached in the view."""
    index = view.nodes.index
    nodes: Bools = view.objects.index(
        (KIND, PLACEMENT),
        lambda topologies: _find_nodes_publishing_placements(topologies, index),
        KIND,
        of=(view.nodes,),
    )
    return nodes


def _find_nodes_publishing_placements(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> Bools:
    """Return a mask (N,) of the nodes whose topology publishes the NUMA nodes of containers."""
    has_placement = np.zeros(len(index), np.bool_)
    for topology in topologies:
        if (row := index.get(topology.metadata.name)) is not None:
            has_placement[row] = any(attribute.name == PLACEMENT for attribute in topology.attributes)
    return has_placement


def _match_templates(predicate: Callable[[Pod], bool], pods: PodTable) -> Bools:
    """Return a mask over the pod templates that satisfy the predicate."""
    return np.array([predicate(template) for template in pods.templates], np.bool_)


def has_exclusive_resources(pod: Pod, published_names: frozenset[str]) -> bool:
    """Return whether a long-running container of the pod has exclusive resources.

    Exclusive resources are the devices in `published_names`. In a Guaranteed pod, whole CPUs, memory and huge pages are
    exclusive, too. Long-running containers are the pod's containers and its sidecars.
    """
    guaranteed = compute_qos_class(pod) is QualityOfService.GUARANTEED
    containers = (*(c for c in pod.spec.init_containers if c.restart_policy == "Always"), *pod.spec.containers)
    return any(
        _is_exclusive(name, amount, is_guaranteed=guaranteed, published_names=published_names)
        for container in containers
        for name, amount in parse_container_requests(pod, container).items()
    )


def _is_exclusive(name: str, amount: int, *, is_guaranteed: bool, published_names: frozenset[str]) -> bool:
    """Return whether a container gets the requested resource exclusively.

    In a Guaranteed pod, these are CPU in whole cores, memory and huge pages. Other native resources are never
    exclusive. Any other resource is exclusive if the topology publishes it.
    """
    if not is_native(name):
        return name in published_names
    is_whole = name != CPU or amount % MILLICORES == 0
    return is_guaranteed and is_affine(name) and amount > 0 and is_whole


def _collect_resource_names(topology: NodeResourceTopology) -> frozenset[str]:
    """Return the names of all resources of a topology's zones."""
    return frozenset(resource.name for zone in topology.zones for resource in zone.resources)


def _find_profiles_with_plugin(plugin: str, configuration: JsonObject | None) -> frozenset[str]:
    """Return the scheduler names of the profiles that enable a plugin."""
    profiles = objects_at(configuration, "profiles")
    return frozenset(
        text_at(profile, "schedulerName") or "default-scheduler"
        for profile in profiles
        if _enables_plugin(profile, plugin)
    )


def _enables_plugin(profile: JsonObject, plugin: str) -> bool:
    """Return whether a profile enables a plugin at some extension point."""
    points = object_at(profile, "plugins").values()
    return any(text_at(plugin_set, "name") == plugin for point in points for plugin_set in objects_at(point, "enabled"))


def compute_fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given as namespace and name in any order.

    >>> compute_fingerprint([("namespace1", "pod1")])
    'pfp0v0019e0420efb37746c6'
    """
    pods = list(pods)
    namespace_hashes = hash_texts(namespace for namespace, _ in pods)
    hashes = hash_texts((name for _, name in pods), namespace_hashes)
    only_row = np.zeros(len(hashes), np.int64)  # as if all pods were on one node
    (digest,) = compute_pod_digests(hashes, rows=only_row, count=1)
    return format_fingerprint(digest)


def format_fingerprint(fingerprint: np.uint64) -> str:
    """Format a fingerprint with its prefix and version."""
    return f"{_PREFIX}{_VERSION}{int(fingerprint):016x}"


def compute_pod_digests(hashes: _Hashes, rows: Rows, count: int) -> _Hashes:
    """Return the digest of the pods on each of `count` nodes.

    `hashes` has, for each pod, the hash of its name seeded with the hash of its namespace. `rows` has each pod's node.
    """
    sorted_hashes = hashes[np.lexsort((hashes, rows))].astype("<u8")  # by node, then by hash
    pod_counts = np.bincount(rows, minlength=count)
    starts = np.cumsum(pod_counts) - pod_counts
    digests = np.zeros(count, np.uint64)
    # Hash all nodes with the same number of pods at once.
    for pod_count in np.unique(pod_counts).tolist():
        nodes = np.flatnonzero(pod_counts == pod_count)
        words = sorted_hashes[starts[nodes, np.newaxis] + np.arange(pod_count)]
        digests[nodes] = _hash_octets(words.view(np.uint8).reshape(len(nodes), _WORD * pod_count))
    return digests


def hash_texts(texts: Iterable[str], seeds: _Hashes | None = None) -> _Hashes:
    """Return the XXH64 hash of each text in UTF-8. `seeds` has one seed per text, 0 by default.

    >>> [hex(text_hash) for text_hash in hash_texts(["", "xxhash"])]
    ['0xef46db3751d8e999', '0x32dd38952c4bc720']
    """
    encoded = [text.encode() for text in texts]
    # None keeps numpy from turning the texts into an array of fixed width.
    texts_array = np.array([*encoded, None], object)[:-1]
    lengths = np.array([len(text) for text in encoded], np.int64)
    seeds = np.zeros(len(encoded), np.uint64) if seeds is None else seeds
    hashes = np.zeros(len(encoded), np.uint64)
    for length in np.unique(lengths).tolist():
        text_indices = np.flatnonzero(lengths == length)
        octets = np.frombuffer(b"".join(texts_array[text_indices]), np.uint8).reshape(len(text_indices), length)
        hashes[text_indices] = _hash_octets(octets, seeds[text_indices])
    return hashes


def _hash_octets(octets: _Octets, seeds: _Hashes | None = None) -> _Hashes:
    """Return the XXH64 hashes of K texts of the same length L, given as octets (K, L).

    `seeds` has one seed per text, 0 by default.
    """
    count, length = octets.shape
    seeds = np.zeros(count, np.uint64) if seeds is None else seeds
    words_end = length // _WORD * _WORD
    words = np.ascontiguousarray(octets[:, :words_end]).view("<u8").astype(np.uint64)

    # Hash whole stripes of four words, then the remaining words.
    stripes_end = length // (_STRIPE * _WORD) * _STRIPE
    digest = _hash_stripes(words[:, :stripes_end], seeds) if stripes_end else seeds + _PRIME_5
    digest = digest + np.uint64(length)
    for word in words[:, stripes_end:].T:
        digest = _rotate_left(digest ^ _mix_word(np.zeros_like(word), word), 27) * _PRIME_1 + _PRIME_4

    # Hash the remaining octets, which are fewer than a word has: half a word, then single octets.
    remaining_octets = octets[:, words_end:]
    half_size = _WORD // 2
    if remaining_octets.shape[1] >= half_size:
        half_word = np.ascontiguousarray(remaining_octets[:, :half_size]).view("<u4")[:, 0].astype(np.uint64)
        digest = _rotate_left(digest ^ half_word * _PRIME_1, 23) * _PRIME_2 + _PRIME_3
        remaining_octets = remaining_octets[:, half_size:]
    for octet in remaining_octets.T:
        digest = _rotate_left(digest ^ octet.astype(np.uint64) * _PRIME_5, 11) * _PRIME_1

    # Mix the bits of the result, which XXH64 calls the final avalanche.
    digest = (digest ^ digest >> np.uint64(33)) * _PRIME_2
    digest = (digest ^ digest >> np.uint64(29)) * _PRIME_3
    return digest ^ digest >> np.uint64(32)


def _hash_stripes(words: _Hashes, seeds: _Hashes) -> _Hashes:
    """Hash the words of each text in four lanes, each of which takes every fourth word, and combine the lanes.

    `words` has one row for each text and one column for each word. This is the main loop of XXH64, which defines the
    rotations and the order of the primes.
    """
    # The specification calls the lanes accumulators.
    lanes = [seeds + _PRIME_1 + _PRIME_2, seeds + _PRIME_2, seeds, seeds - _PRIME_1]
    for index, word in enumerate(words.T):
        lane_index = index % _STRIPE
        lanes[lane_index] = _mix_word(lanes[lane_index], word)
    rotated = [_rotate_left(lane, rotation) for lane, rotation in zip(lanes, (1, 7, 12, 18), strict=True)]
    digest = rotated[0] + rotated[1] + rotated[2] + rotated[3]

    # The specification calls this step mergeAccumulator: each lane is one round's input to an empty lane.
    for lane in lanes:
        mixed_lane = _mix_word(np.zeros_like(lane), lane)
        digest = (digest ^ mixed_lane) * _PRIME_1 + _PRIME_4
    return digest


def _mix_word(lane: _Hashes, word: _Hashes) -> _Hashes:
    """Mix a word into a lane, which is one round of XXH64."""
    return _rotate_left(lane + word * _PRIME_2, 31) * _PRIME_1


def _rotate_left(value: _Hashes, bits: int) -> _Hashes:
    """Rotate 64-bit values left."""
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)
