"""What an extender answers, read as the scheduler reads it: Go's encoding/json into the structs of extender/v1.

That API has no JSON tags: the names are Go's, in any case. What is missing or null is Go's zero value.
Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.objects import Node
from kschedctl.cluster import without_nulls

INT64 = range(-(2**63), 2**63)
NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"


LONGEST_WORDS = 1024
"""As many characters of a message are kept as an event may have; nothing bounds what an extender says."""


class ExtenderError(Exception):
    """A call that failed. ``str()`` is what the scheduler says of it."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(message))


def cut(message: str) -> str:
    """The beginning of a message that is too long for an event. Upstream: truncateMessage in schedule_one.go.

    >>> cut("no GPU left"), len(cut("m" * 2000)), cut("m" * 2000)[-6:]
    ('no GPU left', 1024, 'mm ...')
    """
    return message if len(message) <= LONGEST_WORDS else f"{message[: LONGEST_WORDS - 4]} ..."


class FilterResult(NamedTuple):
    """``node_names`` and ``nodes`` are None where the answer has none; of ``nodes`` the documents as they came."""

    node_names: list[str] | None
    nodes: list[JsonObject] | None
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class MetaVictims(NamedTuple):
    """The UIDs of the pods to evict on a node, in the extender's order, and how many budgets it says that breaks."""

    uids: list[str]
    violations: int


def filter_result(body: Json) -> FilterResult:
    """Raises ExtenderError for what Go could not decode."""
    where = "ExtenderFilterResult"
    fields = _object(body, f"Go value of type v1.{where}")
    return FilterResult(
        node_names=_texts(fields.get("nodenames"), f"{where}.NodeNames"),
        nodes=_nodes(fields.get("nodes"), where),
        failed=_text_map(fields.get("failednodes"), f"{where}.FailedNodes"),
        unresolvable=_text_map(fields.get("failedandunresolvablenodes"), f"{where}.FailedAndUnresolvableNodes"),
        error=_text(fields.get("error"), f"{where}.Error"),
    )


def host_priorities(body: Json) -> list[tuple[str, int]]:
    """Host and score, in order; a host may come twice. Raises ExtenderError."""
    priorities = []
    for priority in _array(body, "Go value of type v1.HostPriorityList"):
        fields = _object(priority, "Go value of type v1.HostPriority")
        priorities.append(
            (_text(fields.get("host"), "HostPriority.Host"), _integer(fields.get("score"), "HostPriority.Score"))
        )
    return priorities


def preemption_result(body: Json) -> dict[str, MetaVictims]:
    """By node. Raises ExtenderError, also for nulls on which the scheduler crashes."""
    where = "ExtenderPreemptionResult.NodeNameToMetaVictims"
    fields = _object(body, "Go value of type v1.ExtenderPreemptionResult")
    of_type = f"Go struct field {where} of type map[string]*v1.MetaVictims"
    victims_by_node = {}
    for node, value in _mapping(fields.get("nodenametometavictims"), of_type).items():
        if value is None:
            raise ExtenderError(NIL_POINTER)
        victims = _object(value, f"Go struct field {where} of type v1.MetaVictims")
        pods = _array(victims.get("pods"), "Go struct field MetaVictims.Pods of type []*v1.MetaPod")
        number = _integer(victims.get("numpdbviolations"), "MetaVictims.NumPDBViolations")
        victims_by_node[node] = MetaVictims(list(map(_uid, pods)), number)
    return victims_by_node


def node_of(document: JsonObject) -> Node:
    """A node as an extender returned it. Raises ExtenderError."""
    try:
        return convert_builtins(without_nulls(document), Node)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"json: cannot unmarshal into Go struct field NodeList.items: {error}") from None


def _nodes(value: Json, where: str) -> list[JsonObject] | None:
    if value is None:
        return None
    fields = _object(value, f"Go struct field {where}.Nodes of type v1.NodeList")
    items = _array(fields.get("items"), "Go struct field NodeList.items of type []v1.Node")
    return [_mapping(item, "Go struct field NodeList.items of type v1.Node") for item in items]


def _uid(value: Json) -> str:
    if value is None:
        raise ExtenderError(NIL_POINTER)
    return _text(_object(value, "Go struct field MetaVictims.Pods of type v1.MetaPod").get("uid"), "MetaPod.UID")


def _object(value: Json, target: str) -> dict[str, Json]:
    """The fields by their names in lower case: Go takes them in any."""
    return {name.lower(): field for name, field in _mapping(value, target).items()}


def _mapping(value: Json, target: str) -> JsonObject:
    if isinstance(value, Mapping):
        return value
    if value is None:
        return {}
    raise ExtenderError(f"json: cannot unmarshal {_kind(value)} into {target}")


def _array(value: Json, target: str) -> list[Json]:
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise ExtenderError(f"json: cannot unmarshal {_kind(value)} into {target}")


def _texts(value: Json, field: str) -> list[str] | None:
    if value is None:
        return None
    return [_text(text, field) for text in _array(value, f"Go struct field {field} of type []string")]


def _text_map(value: Json, field: str) -> dict[str, str]:
    """Messages by node."""
    mapping = _mapping(value, f"Go struct field {field} of type v1.FailedNodesMap")
    return {name: cut(_text(text, field)) for name, text in mapping.items()}


def _text(value: Json, field: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise ExtenderError(f"json: cannot unmarshal {_kind(value)} into Go struct field {field} of type string")


def _integer(value: Json, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    if value is None:
        return 0
    number = f" {value}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise ExtenderError(f"json: cannot unmarshal {_kind(value)}{number} into Go struct field {field} of type int64")


def _kind(value: Json) -> str:
    """JSON's kind of value, as Go calls it."""
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
