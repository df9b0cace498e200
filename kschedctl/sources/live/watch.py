"""What changes after a list: the events of a watch, taken into the list that they follow on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.decoding import decode_json
from kschedctl.api.objects import Struct
from kschedctl.api.observed.noise import strip_noise
from kschedctl.api.pod_table import Key
from kschedctl.sources.live.http import BrokenOffError, RefusedError, Server, StatusBody, shortened, unreadable
from kschedctl.sources.live.lists import GONE, Listing, decode_object, key_of

CATCH_UP_SECONDS, CATCH_UP_IDLE = 2.0, 0.3
Changes = Mapping[Key, Any]


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class WatchEvent(NamedTuple):
    """An object that came, changed or (``object`` None) went; without ``key`` only the version moved on."""

    resource_version: str
    key: Key | None = None
    object: Struct | None = None


def watch(
    server: Server, kind: str, since: Listing, *, seconds: float, idle: float | None = None
) -> Iterator[WatchEvent]:
    """The events after a listing's version, bookmarks included, until the server ends them or it is idle for so long.

    Raises RefusedError (410: the version is too old, list again), BrokenOffError, LeftOutError, ClusterError.
    """
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": since.resource_version,
        "timeoutSeconds": str(max(int(seconds), 1)),
    }
    if since.fields:
        query["fieldSelector"] = since.fields
    for line in server.lines(since.path, query, seconds, idle):
        try:
            yield _event(kind, line, since, server.host)
        except (ValueError, RecursionError) as error:
            raise BrokenOffError(unreadable(error)) from None


def changed(listing: Listing, changes: Changes, version: str) -> Listing:
    """The listing with changes taken in."""
    return listing._replace(objects=listing.objects.apply_changes(changes), resource_version=version)


def caught_up(server: Server, kind: str, listing: Listing) -> tuple[Listing, int]:
    """The listing with what changed since, and the number of objects that did. Raises as ``watch``."""
    changes: dict[Key, Struct | None] = {}
    version = listing.resource_version
    seconds = min(CATCH_UP_SECONDS, server.seconds)
    for event in watch(server, kind, listing, seconds=seconds, idle=min(CATCH_UP_IDLE, seconds)):
        version = event.resource_version or version
        if event.key is not None:
            changes[event.key] = event.object
    return (changed(listing, changes, version) if changes else listing), len(changes)


def _event(kind: str, line: bytes, since: Listing, where: str) -> WatchEvent:
    event = decode_json(line, _Event)
    body = bytes(event.object)
    if event.type == "ERROR":
        status = decode_json(body, StatusBody)
        gone = status.code == GONE or status.reason in ("Expired", "Gone")
        raise RefusedError(GONE, shortened(status.message)) if gone else BrokenOffError(shortened(status.message))
    if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise BrokenOffError(f"not a watch event: {shortened(event.type)}")
    version = decode_json(body, _Versioned).metadata.resource_version
    if event.type == "BOOKMARK":
        return WatchEvent(version)
    obj = decode_object(kind, body, since, where)
    return WatchEvent(version, key_of(obj), None if event.type == "DELETED" else strip_noise(obj))
