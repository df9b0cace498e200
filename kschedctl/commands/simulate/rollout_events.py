"""Where a real scheduler put pods, from the events that it wrote, or Bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.api.decoding import type_name
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Event
from kschedctl.api.observed.events import first_seen, get_reporter, parse_assignment
from kschedctl.api.times import parse_nanoseconds
from kschedctl.commands.simulate.following.rollout import RealPlacement
from kschedctl.errors import InputError
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import read_documents
from kschedctl.sources.typed import typed

MOST_EVENTS = 200_000
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
HINT = "kubectl get events -A -o json prints them; they are kept for an hour"


def read_placements(path: str) -> list[RealPlacement]:
    """Placements of a file, by ``placements_of``."""
    return placements_of(read_documents(path), path)


def placements_of(documents: Iterable[JsonObject], path: str = "") -> list[RealPlacement]:
    """The Scheduled events and Bindings among documents, in the order of time; others are passed over.

    Events are those of core/v1 or events.k8s.io/v1, each by itself or in lists. Raises InputError, also where there is
    none.
    """
    placements = []
    for document in documents:
        for item in _items(document, path):
            placement = _placement(item, path)
            if placement is not None:
                placements.append(placement)
        if len(placements) > MOST_EVENTS:
            raise InputError(f"more than {MOST_EVENTS:,} placements", where=path)
    if not placements:
        raise InputError("no Scheduled event", where=path, hint=HINT)
    return sorted(placements, key=lambda real_placement: real_placement.nanoseconds)


def _items(document: JsonObject, path: str) -> Iterator[JsonObject]:
    if not str(document.get("kind", "")).endswith("List"):
        yield document
        return
    items = document.get("items")
    if not isinstance(items, list):
        raise InputError(f"items of a {document['kind']}: expected a list", where=path)
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError(f"items: expected objects, got {type_name(item)}", where=path)
        kind = str(document["kind"]).removesuffix("List")
        yield item if kind == "" else {"kind": kind, **item}


def _placement(document: JsonObject, path: str) -> RealPlacement | None:
    if document.get("kind") == "Event" and document.get("reason") == "Scheduled":
        return _of_event(document, path)
    return _of_binding(document, path) if document.get("kind") == "Binding" else None


def _of_event(document: JsonObject, path: str) -> RealPlacement | None:
    """None for events of others with the same reason."""
    event = typed(document, Event, Place(path))
    names = parse_assignment(event)
    if names is None:
        return None
    return _made(names, first_seen(event) or None, path)._replace(scheduler=get_reporter(event)[:253])


def _of_binding(binding: JsonObject, path: str) -> RealPlacement:
    metadata, target = _mapping(binding, "metadata"), _mapping(binding, "target")
    namespace, name = metadata.get("namespace") or "default", metadata.get("name")
    return _made((namespace, name, target.get("name")), metadata.get("creationTimestamp"), path)


def _made(names: Sequence[object], time: object, path: str) -> RealPlacement:
    """The placement of a pod, from three names. Raises InputError for names that are none, or no time."""
    for what, name in zip(("namespace", "pod", "node"), names, strict=True):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"{what} {str(name)[:60]!r} is not a name", where=path)
    namespace, pod, node = map(str, names)
    if not isinstance(time, str):
        raise InputError(f"no time when {namespace}/{pod} was scheduled", where=path)
    try:
        moment = parse_nanoseconds(time)
    except InputError as error:
        raise InputError(error.what, where=path, hint=error.hint) from None
    return RealPlacement(moment, time, f"{namespace}/{pod}", node)


def _mapping(document: JsonObject, key: str) -> JsonObject:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
