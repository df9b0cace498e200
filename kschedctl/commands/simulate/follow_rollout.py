"""The library function `follow_rollout`, which reads real placements from Scheduled events or Bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.api.decoding import type_name
from kschedctl.api.events import get_first_time, get_reporter, parse_scheduled_event
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Event, Struct
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate.following_report import FollowedRollout
from kschedctl.commands.simulate.rollout_replay import RealPlacement, replay_rollout
from kschedctl.errors import InputError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.sources.decoding import decode_document
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import read_documents


def follow_rollout(
    cluster: Cluster,
    events: Iterable[JsonObject],
    manifests: Iterable[JsonObject | Struct] = (),
    *,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    where: str = "",
    progress: Progress = NO_PROGRESS,
) -> FollowedRollout:
    """Find where kube-scheduler chose differently in a real rollout, and why.

    Every pod is tried at the time when it was really scheduled. ``events`` are the rollout's Scheduled events, or
    Bindings, as kubectl prints them (dicts). The cluster is the one before or after the rollout, and ``manifests`` are
    applied to it first. With ``sampling`` the scheduler looks at as many nodes as it really would. ``where`` names the
    source of the events in errors.

    Raises InputError, also if there is no Scheduled event, and ConfigurationError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> cluster = kschedctl.Cluster.from_objects([node, pod])
    >>> metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    >>> bound = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
    >>> str(follow_rollout(cluster, [bound]))
    'As replayed: 1 of 1 pod went to a node that the replay ranks among the best'
    """
    placements = parse_placements(events, where)
    done = progress.begin("Following", len(placements))
    return replay_rollout(cluster, placements, manifests, sampling=sampling, call_extender=call_extender, done=done)


MAX_EVENTS = 200_000
MAX_NAME_LENGTH = 253
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
HINT = "save them with kubectl get events -A -o json; events are kept for an hour"


def read_placements(path: str) -> list[RealPlacement]:
    """Read the real placements from the events or Bindings of a file. Raises InputError if a document is malformed."""
    return parse_placements(read_documents(path), path)


def parse_placements(documents: Iterable[JsonObject], path: str = "") -> list[RealPlacement]:
    """Return the placements among the documents in order of time. Other documents are ignored.

    A placement is a Scheduled event of core/v1 or events.k8s.io/v1, or a Binding, either single or in a list. `path`
    names the source in errors. Raises InputError if a document is malformed or there is no placement.
    """
    placements = []
    for document in documents:
        for item in _iter_list_items(document, path):
            placement = _parse_placement(item, path)
            if placement is not None:
                placements.append(placement)
        if len(placements) > MAX_EVENTS:
            raise InputError(f"more than {MAX_EVENTS:,} placements", where=path)
    if not placements:
        raise InputError("no Scheduled event", where=path, hint=HINT)
    return sorted(placements, key=lambda real_placement: real_placement.nanoseconds)


def _iter_list_items(document: JsonObject, path: str) -> Iterator[JsonObject]:
    """Yield the objects of a list, or the document itself if it is not a list.

    Items without a kind get the kind of the list: the items of an EventList are Events. Raises InputError if the items
    are malformed.
    """
    if not str(document.get("kind", "")).endswith("List"):
        yield document
        return
    items = document.get("items")
    if not isinstance(items, list):
        raise InputError(f"items of a {document['kind']}: expected a list", where=path)
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError(f"items: expected objects, got {type_name(item)}", where=path)
        item_kind = str(document["kind"]).removesuffix("List")
        yield {"kind": item_kind, **item} if item_kind else item


def _parse_placement(document: JsonObject, path: str) -> RealPlacement | None:
    """Parse a Scheduled event or a Binding, or return None for other documents.

    Raises InputError if the document is malformed.
    """
    if document.get("kind") == "Event" and document.get("reason") == "Scheduled":
        return _parse_scheduled_event(document, path)
    return _parse_binding(document, path) if document.get("kind") == "Binding" else None


def _parse_scheduled_event(document: JsonObject, path: str) -> RealPlacement | None:
    """Parse a Scheduled event. Return None if another component wrote it for a reason of the same name.

    Raises InputError if the event is malformed.
    """
    event = decode_document(document, Event, Place(path))
    names = parse_scheduled_event(event)
    if names is None:
        return None
    placement = _build_placement(names, get_first_time(event) or None, path)
    return placement._replace(scheduler=get_reporter(event)[:MAX_NAME_LENGTH])


def _parse_binding(binding: JsonObject, path: str) -> RealPlacement:
    """Parse a Binding. Raises InputError if its names or its time are missing or invalid."""
    metadata = _get_mapping(binding, "metadata")
    target = _get_mapping(binding, "target")
    names = (metadata.get("namespace") or "default", metadata.get("name"), target.get("name"))
    return _build_placement(names, metadata.get("creationTimestamp"), path)


def _build_placement(names: Sequence[object], time: object, path: str) -> RealPlacement:
    """Build a placement from `names` (namespace, pod, node) and an RFC 3339 time.

    Raises InputError for invalid names, or for a time that is missing or invalid.
    """
    for noun, name in zip(("namespace", "pod", "node"), names, strict=True):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"{noun} {str(name)[:60]!r} is not a name", where=path)
    namespace, pod, node = map(str, names)
    if not isinstance(time, str):
        raise InputError(f"the time at which {namespace}/{pod} was scheduled is missing", where=path)
    try:
        nanoseconds = parse_nanoseconds(time)
    except InputError as error:
        raise InputError(error.what, where=path, hint=error.hint) from None
    return RealPlacement(nanoseconds, time, f"{namespace}/{pod}", node)


def _get_mapping(document: JsonObject, key: str) -> JsonObject:
    """Return the mapping under a key, or an empty one if there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
