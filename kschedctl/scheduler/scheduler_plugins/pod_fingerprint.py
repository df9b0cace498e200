"""The fingerprint by which an exporter of NodeResourceTopologies tells which pods it has counted.

Upstream: github.com/k8stopologyawareschedwg/podfingerprint (v0.2.2), and the hash XXH64 that it is made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

PREFIX, VERSION = "pfp0", "v001"
STRIPE = 32
"""Bytes that are mixed into four lanes at once."""

_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = (1 << 64) - 1


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Of pods by namespace and name, in whatever order.

    >>> fingerprint([("namespace1", "pod1")])
    'pfp0v0019e0420efb37746c6'
    """
    hashes = sorted(xxh64(name.encode(), _of_namespace(namespace)) for namespace, name in pods)
    found = xxh64(b"".join(each.to_bytes(8, "little") for each in hashes))
    return f"{PREFIX}{VERSION}{found:016x}"


@lru_cache(maxsize=1024)
def _of_namespace(namespace: str) -> int:
    return xxh64(namespace.encode())


def xxh64(data: bytes, seed: int = 0) -> int:
    """
    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    first, second, third, fourth, fifth = _PRIMES
    whole = len(data) - len(data) % STRIPE
    found = _lanes(data[:whole], seed) if whole else seed + fifth
    found = (found + len(data)) & _MASK
    rest = data[whole:]
    while len(rest) >= 8:
        found ^= _round(0, int.from_bytes(rest[:8], "little"))
        found, rest = (_rotated(found, 27) * first + fourth) & _MASK, rest[8:]
    if len(rest) >= 4:
        found ^= int.from_bytes(rest[:4], "little") * first & _MASK
        found, rest = (_rotated(found, 23) * second + third) & _MASK, rest[4:]
    for byte in rest:
        found = _rotated(found ^ byte * fifth & _MASK, 11) * first & _MASK
    found = (found ^ found >> 33) * second & _MASK
    found = (found ^ found >> 29) * third & _MASK
    return found ^ found >> 32


def _lanes(data: bytes, seed: int) -> int:
    """Of whole stripes: four lanes, each with every fourth word."""
    first, second, _, fourth, _ = _PRIMES
    lanes = [(seed + start) & _MASK for start in (first + second, second, 0, -first)]
    for start in range(0, len(data), 8):
        lane = start // 8 % 4
        lanes[lane] = _round(lanes[lane], int.from_bytes(data[start : start + 8], "little"))
    found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        found = ((found ^ _round(0, lane)) * first + fourth) & _MASK
    return found


def _round(lane: int, word: int) -> int:
    first, second = _PRIMES[:2]
    return _rotated((lane + word * second) & _MASK, 31) * first & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK
