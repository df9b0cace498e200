"""The fingerprint of pods that exporters publish in NodeResourceTopologies to show which pods they counted.

Upstream: github.com/k8stopologyawareschedwg/podfingerprint (v0.2.2) and its hash XXH64. Texts of the same length are
hashed together, word by word.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Rows

Hashes = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]

PREFIX, VERSION = "pfp0", "v001"
STRIPE = 4
"""Words per stripe, one for each lane."""
WORD = 8
"""Bytes per word."""

_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def compute_fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given as namespace and name in any order.

    >>> compute_fingerprint([("namespace1", "pod1")])
    'pfp0v0019e0420efb37746c6'
    """
    pods = list(pods)
    namespace_hashes = hash_texts(namespace for namespace, _ in pods)
    hashes = hash_texts((name for _, name in pods), namespace_hashes)
    (digest,) = compute_digests(hashes, np.zeros(len(hashes), np.int64), 1)
    return format_fingerprint(digest)


def format_fingerprint(fingerprint: np.uint64) -> str:
    """Format a fingerprint with its prefix and version."""
    return f"{PREFIX}{VERSION}{int(fingerprint):016x}"


def compute_digests(hashes: Hashes, rows: Rows, count: int) -> Hashes:
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
        digests[nodes] = hash_octets(words.view(np.uint8).reshape(len(nodes), WORD * pod_count))
    return digests


def hash_texts(texts: Iterable[str], seeds: Hashes | None = None) -> Hashes:
    """Return the XXH64 hash of each text in UTF-8. `seeds` has one seed per text, 0 by default.

    >>> [hex(each) for each in hash_texts(["", "xxhash"])]
    ['0xef46db3751d8e999', '0x32dd38952c4bc720']
    """
    encoded = [text.encode() for text in texts]
    # None keeps numpy from turning the texts into an array of fixed width.
    texts_array = np.array([*encoded, None], object)[:-1]
    lengths = np.array([len(text) for text in encoded], np.int64)
    seeds = np.zeros(len(encoded), np.uint64) if seeds is None else seeds
    hashes = np.zeros(len(encoded), np.uint64)
    for length in np.unique(lengths).tolist():
        same_length = np.flatnonzero(lengths == length)
        octets = np.frombuffer(b"".join(texts_array[same_length]), np.uint8).reshape(len(same_length), length)
        hashes[same_length] = hash_octets(octets, seeds[same_length])
    return hashes


def hash_octets(octets: Octets, seeds: Hashes | None = None) -> Hashes:
    """Return the XXH64 hashes of K texts of the same length L, given as octets (K, L).

    `seeds` has one seed per text, 0 by default.
    """
    count, length = octets.shape
    seeds = np.zeros(count, np.uint64) if seeds is None else seeds
    words_end = length // WORD * WORD
    words = np.ascontiguousarray(octets[:, :words_end]).view("<u8").astype(np.uint64)

    # Hash whole stripes of four words, then the remaining words.
    stripes_end = length // (STRIPE * WORD) * STRIPE
    digest = _hash_stripes(words[:, :stripes_end], seeds) if stripes_end else seeds + _FIFTH
    digest = digest + np.uint64(length)
    for word in words[:, stripes_end:].T:
        digest = _rotate_left(digest ^ _mix_word(np.zeros_like(word), word), 27) * _FIRST + _FOURTH

    # Hash the rest, which is shorter than a word: half a word, then single octets.
    rest = octets[:, words_end:]
    half_size = WORD // 2
    if rest.shape[1] >= half_size:
        half_word = np.ascontiguousarray(rest[:, :half_size]).view("<u4")[:, 0].astype(np.uint64)
        digest = _rotate_left(digest ^ half_word * _FIRST, 23) * _SECOND + _THIRD
        rest = rest[:, half_size:]
    for octet in rest.T:
        digest = _rotate_left(digest ^ octet.astype(np.uint64) * _FIFTH, 11) * _FIRST

    # Mix the bits of the result, which XXH64 calls the final avalanche.
    digest = (digest ^ digest >> np.uint64(33)) * _SECOND
    digest = (digest ^ digest >> np.uint64(29)) * _THIRD
    return digest ^ digest >> np.uint64(32)


def _hash_stripes(words: Hashes, seeds: Hashes) -> Hashes:
    """Hash the words (texts, words per text) in four lanes, each taking every fourth word, and combine the lanes.

    This is the main loop of XXH64. The rotations and the order of the primes are part of its definition.
    """
    lanes = [seeds + _FIRST + _SECOND, seeds + _SECOND, seeds, seeds - _FIRST]
    for index, word in enumerate(words.T):
        lane_index = index % STRIPE
        lanes[lane_index] = _mix_word(lanes[lane_index], word)
    rotated = [_rotate_left(lane, rotation) for lane, rotation in zip(lanes, (1, 7, 12, 18), strict=True)]
    digest = rotated[0] + rotated[1] + rotated[2] + rotated[3]
    for lane in lanes:
        digest = (digest ^ _mix_word(np.zeros_like(lane), lane)) * _FIRST + _FOURTH
    return digest


def _mix_word(lane: Hashes, word: Hashes) -> Hashes:
    """Mix a word into a lane, which is one round of XXH64."""
    return _rotate_left(lane + word * _SECOND, 31) * _FIRST


def _rotate_left(value: Hashes, bits: int) -> Hashes:
    """Rotate 64-bit values left."""
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)
