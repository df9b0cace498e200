"""Watches that report the changes after a list, and updates of lists by watch events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.decoding import decode_json
from kschedctl.api.noise import strip_noise
from kschedctl.api.objects import Struct
from kschedctl.api.pod_table import Key
from kschedctl.sources.live.http import (
    BrokenOffError,
    RefusedError,
    Server,
    StatusBody,
    describe_decoding_error,
    shorten,
)
from kschedctl.sources.live.lists import GONE, Listing, decode_object, get_key

CATCH_UP_SECONDS = 2.0
"""The maximum time for catching up with the changes after a list."""
CATCH_UP_IDLE_SECONDS = 0.3
"""The time without an event after which no more changes are expected."""
Changes = Mapping[Key, Any]


class _Event(msgspec.Struct, frozen=True):
    """An event as the API server prints it."""

    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    """An object reduced to its resource version."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)


class WatchEvent(NamedTuple):
    """A change of one object, or a new resource version if there is no ``key``."""

    resource_version: str
    key: Key | None = None
    object: Struct | None = None
    """The added or modified object, or None if it was deleted."""


def watch(
    server: Server, kind: str, listing: Listing, *, seconds: float, idle: float | None = None
) -> Iterator[WatchEvent]:
    """Yield the events after a listing's version, including bookmarks, for ``seconds`` at most.

    Raises RefusedError (410 if the version is too old and the kind must be listed again), BrokenOffError if the
    connection is lost or without data for ``idle`` seconds, LeftOutError, ClusterError.
    """
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": listing.resource_version,
        "timeoutSeconds": str(max(int(seconds), 1)),
    }
    if listing.fields:
        query["fieldSelector"] = listing.fields
    for line in server.iter_lines(listing.path, query, seconds, idle):
        try:
            yield _parse_event(kind, line, listing, server.host)
        except (ValueError, RecursionError) as error:
            raise BrokenOffError(describe_decoding_error(error)) from None


def apply_changes(listing: Listing, changes: Changes, version: str) -> Listing:
    """Return the listing with the changes applied, in which None deletes an object, and the new resource version."""
    return listing._replace(objects=listing.objects.apply_changes(changes), resource_version=version)


def catch_up(server: Server, kind: str, listing: Listing) -> tuple[Listing, int]:
    """Return the listing with all changes since its version applied, and the number of changed objects.

    Raises the same errors as ``watch``.
    """
    changes: dict[Key, Struct | None] = {}
    version = listing.resource_version
    seconds = min(CATCH_UP_SECONDS, server.seconds)
    for event in watch(server, kind, listing, seconds=seconds, idle=min(CATCH_UP_IDLE_SECONDS, seconds)):
        version = event.resource_version or version
        if event.key is not None:
            changes[event.key] = event.object
    if changes:
        listing = apply_changes(listing, changes, version)
    return listing, len(changes)


def _parse_event(kind: str, line: bytes, listing: Listing, where: str) -> WatchEvent:
    """Parse one line of a watch into an event, which has no key if it is a bookmark.

    Raises RefusedError (410) if the version is too old, BrokenOffError for other errors of the server, LeftOutError,
    ClusterError, ValueError, RecursionError.
    """
    event = decode_json(line, _Event)
    body = bytes(event.object)
    if event.type == "ERROR":
        status = decode_json(body, StatusBody)
        if status.code == GONE or status.reason in ("Expired", "Gone"):
            raise RefusedError(GONE, shorten(status.message))
        raise BrokenOffError(shorten(status.message))
    if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise BrokenOffError(f"not a watch event: {shorten(event.type)}")
    version = decode_json(body, _Versioned).metadata.resource_version
    if event.type == "BOOKMARK":
        return WatchEvent(version)
    obj = decode_object(kind, body, listing, where)
    return WatchEvent(version, get_key(obj), None if event.type == "DELETED" else strip_noise(obj))
