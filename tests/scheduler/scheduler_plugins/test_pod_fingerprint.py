"""Check the fingerprint of pods against XXH64 as its specification defines it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.scheduler.scheduler_plugins.numa_cache import (
    compute_fingerprint,
    compute_pod_digests,
    format_fingerprint,
    hash_texts,
)

FIRST, SECOND, THIRD, FOURTH, FIFTH = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
MASK = (1 << 64) - 1
TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


def rotate(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & MASK


def mix(lane: int, word: int) -> int:
    return rotate((lane + word * SECOND) & MASK, 31) * FIRST & MASK


def hash_naively(data: bytes, seed: int = 0) -> int:
    found = (seed + FIFTH) & MASK
    rest = data
    if len(data) >= 32:
        lanes = [(seed + FIRST + SECOND) & MASK, (seed + SECOND) & MASK, seed, (seed - FIRST) & MASK]
        while len(rest) >= 32:
            lanes = [mix(lane, int.from_bytes(rest[8 * i : 8 * i + 8], "little")) for i, lane in enumerate(lanes)]
            rest = rest[32:]
        found = sum(map(rotate, lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            found = ((found ^ mix(0, lane)) * FIRST + FOURTH) & MASK
    found = (found + len(data)) & MASK
    while len(rest) >= 8:
        found = (rotate(found ^ mix(0, int.from_bytes(rest[:8], "little")), 27) * FIRST + FOURTH) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        found = (rotate(found ^ int.from_bytes(rest[:4], "little") * FIRST & MASK, 23) * SECOND + THIRD) & MASK
        rest = rest[4:]
    for byte in rest:
        found = rotate(found ^ byte * FIFTH & MASK, 11) * FIRST & MASK
    found = (found ^ found >> 33) * SECOND & MASK
    found = (found ^ found >> 29) * THIRD & MASK
    return found ^ found >> 32


@pytest.mark.parametrize(("text", "wanted"), [("", 0xEF46DB3751D8E999), ("a", 0xD24EC4F1A98C6E5B)])
def test_known_hashes(text: str, wanted: int) -> None:
    """The hashes are those of the reference implementation."""
    assert hash_naively(text.encode()) == int(hash_texts([text])[0]) == wanted


@given(st.lists(st.tuples(TEXTS, st.integers(0, MASK)), max_size=20))
def test_texts_of_all_lengths_at_once(texts: list[tuple[str, int]]) -> None:
    seeds = np.array([seed for _, seed in texts], np.uint64)
    found = hash_texts([text for text, _ in texts], seeds)
    assert found.tolist() == [hash_naively(text.encode(), seed) for text, seed in texts]


@given(st.lists(st.tuples(st.integers(0, 4), TEXTS, TEXTS), max_size=30))
def test_pods_of_several_nodes(pods: list[tuple[int, str, str]]) -> None:
    """A fingerprint hashes the sorted hashes of the pods one after the other. A node without pods has one too."""
    rows = np.array([row for row, _, _ in pods], np.int64)
    hashes = hash_texts([name for *_, name in pods], hash_texts([namespace for _, namespace, _ in pods]))
    found = compute_pod_digests(hashes, rows, 5)
    for node in range(5):
        there = [(namespace, name) for row, namespace, name in pods if row == node]
        sums = sorted(hash_naively(name.encode(), hash_naively(namespace.encode())) for namespace, name in there)
        wanted = f"pfp0v001{hash_naively(b''.join(each.to_bytes(8, 'little') for each in sums)):016x}"
        assert format_fingerprint(found[node]) == compute_fingerprint(there) == wanted
