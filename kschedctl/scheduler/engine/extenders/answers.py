"""Decoding of extenders' answers as Go's encoding/json does it for the structs of extender/v1.

That API has no JSON tags, so field names are Go's, in upper or lower case. Missing fields and nulls are Go's zero
values. Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import Json, JsonObject, drop_nulls
from kschedctl.api.objects import Node

INT64 = range(-(2**63), 2**63)
NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"


MAX_MESSAGE_LENGTH = 1024
"""Maximum number of characters in an event's message. Extenders' messages have no limit of their own."""


class ExtenderError(Exception):
    """A failed call of an extender. `str()` is upstream's message."""

    def __init__(self, message: str) -> None:
        super().__init__(truncate_message(message))


def truncate_message(message: str) -> str:
    """Truncate a message that is too long for an event. Upstream: truncateMessage in schedule_one.go.

    >>> truncate_message("no GPU left"), len(truncate_message("m" * 2000)), truncate_message("m" * 2000)[-6:]
    ('no GPU left', 1024, 'mm ...')
    """
    return message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[: MAX_MESSAGE_LENGTH - 4]} ..."


class FilterResult(NamedTuple):
    """An extender's answer to the filter verb."""

    node_names: list[str] | None
    """None if the answer has no names."""
    nodes: list[JsonObject] | None
    """Whole nodes as JSON, None if the answer has none."""
    failed: dict[str, str]
    """Node -> message."""
    unresolvable: dict[str, str]
    """Node -> message, for nodes on which preemption would not help."""
    error: str


class MetaVictims(NamedTuple):
    """The victims on a node according to an extender."""

    uids: list[str]
    """UIDs of the pods to evict, in the extender's order."""
    violations: int
    """Number of PDB violations."""


def parse_filter_result(body: Json) -> FilterResult:
    """Parse the answer to the filter verb. Raises ExtenderError if Go could not decode it."""
    type_name = "ExtenderFilterResult"
    fields = _parse_fields(body, f"Go value of type v1.{type_name}")
    return FilterResult(
        node_names=_parse_strings(fields.get("nodenames"), f"{type_name}.NodeNames"),
        nodes=_parse_nodes(fields.get("nodes"), type_name),
        failed=_parse_messages(fields.get("failednodes"), f"{type_name}.FailedNodes"),
        unresolvable=_parse_messages(
            fields.get("failedandunresolvablenodes"), f"{type_name}.FailedAndUnresolvableNodes"
        ),
        error=_parse_string(fields.get("error"), f"{type_name}.Error"),
    )


def parse_host_priorities(body: Json) -> list[tuple[str, int]]:
    """Parse the answer to the prioritize verb into hosts and scores, in which a host may occur twice.

    Raises ExtenderError.
    """
    priorities = []
    for priority in _parse_array(body, "Go value of type v1.HostPriorityList"):
        fields = _parse_fields(priority, "Go value of type v1.HostPriority")
        priorities.append(
            (
                _parse_string(fields.get("host"), "HostPriority.Host"),
                _parse_int64(fields.get("score"), "HostPriority.Score"),
            )
        )
    return priorities


def parse_preemption_result(body: Json) -> dict[str, MetaVictims]:
    """Parse the answer to the preempt verb into victims by node. Raises ExtenderError.

    Nulls that crash upstream also raise.
    """
    field_name = "ExtenderPreemptionResult.NodeNameToMetaVictims"
    fields = _parse_fields(body, "Go value of type v1.ExtenderPreemptionResult")
    target = f"Go struct field {field_name} of type map[string]*v1.MetaVictims"
    victims_by_node = {}
    for node, value in _parse_mapping(fields.get("nodenametometavictims"), target).items():
        if value is None:
            raise ExtenderError(NIL_POINTER)
        victims = _parse_fields(value, f"Go struct field {field_name} of type v1.MetaVictims")
        pods = _parse_array(victims.get("pods"), "Go struct field MetaVictims.Pods of type []*v1.MetaPod")
        number = _parse_int64(victims.get("numpdbviolations"), "MetaVictims.NumPDBViolations")
        victims_by_node[node] = MetaVictims(list(map(_parse_uid, pods)), number)
    return victims_by_node


def parse_node(document: JsonObject) -> Node:
    """Parse a node that an extender returned. Raises ExtenderError."""
    try:
        return convert_builtins(drop_nulls(document), Node)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"json: cannot unmarshal into Go struct field NodeList.items: {error}") from None


def _parse_nodes(value: Json, type_name: str) -> list[JsonObject] | None:
    """Return the items of a NodeList, or None for null."""
    if value is None:
        return None
    fields = _parse_fields(value, f"Go struct field {type_name}.Nodes of type v1.NodeList")
    items = _parse_array(fields.get("items"), "Go struct field NodeList.items of type []v1.Node")
    return [_parse_mapping(item, "Go struct field NodeList.items of type v1.Node") for item in items]


def _parse_uid(value: Json) -> str:
    """Return the UID of a MetaPod. Raises ExtenderError for null, which crashes upstream."""
    if value is None:
        raise ExtenderError(NIL_POINTER)
    return _parse_string(
        _parse_fields(value, "Go struct field MetaVictims.Pods of type v1.MetaPod").get("uid"), "MetaPod.UID"
    )


def _parse_fields(value: Json, target: str) -> dict[str, Json]:
    """Return an object's fields by lower-case name, since Go ignores case."""
    return {name.lower(): field for name, field in _parse_mapping(value, target).items()}


def _parse_mapping(value: Json, target: str) -> JsonObject:
    """Return a JSON object, or an empty one for null. Raises ExtenderError for other values."""
    if isinstance(value, Mapping):
        return value
    if value is None:
        return {}
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into {target}")


def _parse_array(value: Json, target: str) -> list[Json]:
    """Return a JSON array, or an empty one for null. Raises ExtenderError for other values."""
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into {target}")


def _parse_strings(value: Json, field: str) -> list[str] | None:
    """Return an array of strings, or None for null. Raises ExtenderError for other values."""
    if value is None:
        return None
    return [_parse_string(text, field) for text in _parse_array(value, f"Go struct field {field} of type []string")]


def _parse_messages(value: Json, field: str) -> dict[str, str]:
    """Return a JSON object as messages by node name. Raises ExtenderError for other values."""
    mapping = _parse_mapping(value, f"Go struct field {field} of type v1.FailedNodesMap")
    return {name: truncate_message(_parse_string(text, field)) for name, text in mapping.items()}


def _parse_string(value: Json, field: str) -> str:
    """Return a JSON string, or an empty one for null. Raises ExtenderError for other values."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into Go struct field {field} of type string")


def _parse_int64(value: Json, field: str) -> int:
    """Return a JSON integer in Go's int64 range, or 0 for null. Raises ExtenderError for other values."""
    if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    if value is None:
        return 0
    number = f" {value}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise ExtenderError(
        f"json: cannot unmarshal {_get_json_kind(value)}{number} into Go struct field {field} of type int64"
    )


def _get_json_kind(value: Json) -> str:
    """Return Go's name for the kind of a JSON value."""
    match value:
        case Mapping():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
    return "number"
