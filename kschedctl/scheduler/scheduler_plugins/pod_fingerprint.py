"""The fingerprint by which an exporter of NodeResourceTopologies tells which pods it has counted.

Upstream: github.com/k8stopologyawareschedwg/podfingerprint (v0.2.2), and the hash XXH64 that it is made of. All texts
of one length are hashed at once, word by word.
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
"""Words that are mixed into as many lanes at once."""
WORD = 8
"""Bytes."""

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


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods by namespace and name, in whatever order.

    >>> fingerprint([("namespace1", "pod1")])
    'pfp0v0019e0420efb37746c6'
    """
    namespaces, names = zip(*pods, strict=True) if (pods := list(pods)) else ((), ())
    hashes = xxh64_of(names, xxh64_of(namespaces))
    return in_words(fingerprints(hashes, np.zeros(len(hashes), np.int64), 1)[0])


def in_words(fingerprint: np.uint64) -> str:
    return f"{PREFIX}{VERSION}{int(fingerprint):016x}"


def fingerprints(hashes: Hashes, rows: Rows, count: int) -> Hashes:
    """(N,): of the pods of each of ``count`` rows, by the hashes (P,) of their names, seeded by those of their
    namespaces, and by their rows (P,)."""
    ordered = hashes[np.lexsort((hashes, rows))].astype("<u8")
    sizes = np.bincount(rows, minlength=count)
    starts = np.cumsum(sizes) - sizes
    digests = np.zeros(count, np.uint64)
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        words = ordered[starts[alike, np.newaxis] + np.arange(size)]
        digests[alike] = xxh64(words.view(np.uint8).reshape(len(alike), WORD * size))
    return digests


def xxh64_of(texts: Iterable[str], seeds: Hashes | None = None) -> Hashes:
    """(K,): of texts as UTF-8.

    >>> [hex(each) for each in xxh64_of(["", "xxhash"])]
    ['0xef46db3751d8e999', '0x32dd38952c4bc720']
    """
    encoded = list(map(str.encode, texts))
    written, lengths = np.array([*encoded, None], object)[:-1], np.array(list(map(len, encoded)), np.int64)
    seeds = np.zeros(len(encoded), np.uint64) if seeds is None else seeds
    hashes = np.zeros(len(encoded), np.uint64)
    for length in np.unique(lengths).tolist():
        alike = np.flatnonzero(lengths == length)
        octets = np.frombuffer(b"".join(written[alike]), np.uint8).reshape(len(alike), length)
        hashes[alike] = xxh64(octets, seeds[alike])
    return hashes


def xxh64(octets: Octets, seeds: Hashes | None = None) -> Hashes:
    """(K,): of texts (K, L) that are all as long."""
    count, length = octets.shape
    seeds = np.zeros(count, np.uint64) if seeds is None else seeds
    rest = length // WORD * WORD
    words = np.ascontiguousarray(octets[:, :rest]).view("<u8").astype(np.uint64)
    whole = length // (STRIPE * WORD) * STRIPE
    digest = _lanes(words[:, :whole], seeds) if whole else seeds + _FIFTH
    digest = digest + np.uint64(length)
    for word in words[:, whole:].T:
        digest = _rotated(digest ^ _round(np.zeros_like(word), word), 27) * _FIRST + _FOURTH
    if length - rest >= WORD // 2:
        half = np.ascontiguousarray(octets[:, rest : rest + WORD // 2]).view("<u4")[:, 0].astype(np.uint64)
        digest = _rotated(digest ^ half * _FIRST, 23) * _SECOND + _THIRD
        rest += WORD // 2
    for octet in octets[:, rest:].T:
        digest = _rotated(digest ^ octet.astype(np.uint64) * _FIFTH, 11) * _FIRST
    digest = (digest ^ digest >> np.uint64(33)) * _SECOND
    digest = (digest ^ digest >> np.uint64(29)) * _THIRD
    return digest ^ digest >> np.uint64(32)


def _lanes(words: Hashes, seeds: Hashes) -> Hashes:
    """Whole stripes (K, W) hashed: four lanes, each with every fourth word."""
    lanes = [seeds + _FIRST + _SECOND, seeds + _SECOND, seeds, seeds - _FIRST]
    for place, word in enumerate(words.T):
        lanes[place % STRIPE] = _round(lanes[place % STRIPE], word)
    turned = [_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)]
    digest = turned[0] + turned[1] + turned[2] + turned[3]
    for lane in lanes:
        digest = (digest ^ _round(np.zeros_like(lane), lane)) * _FIRST + _FOURTH
    return digest


def _round(lane: Hashes, word: Hashes) -> Hashes:
    return _rotated(lane + word * _SECOND, 31) * _FIRST


def _rotated(value: Hashes, by: int) -> Hashes:
    return value << np.uint64(by) | value >> np.uint64(64 - by)
