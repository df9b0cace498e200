"""HTTP extenders: the decoding of their answers, their settings and calls, and the calls about one pod in one cycle.

Answers are decoded as Go's encoding/json does it for the structs of extender/v1. That API has no JSON tags, so field
names are Go's, in upper or lower case. Missing fields and nulls are Go's zero values. Upstream: HTTPExtender in
pkg/scheduler/extender.go, findNodesThatPassExtenders and prioritizeNodes in pkg/scheduler/schedule_one.go, and
extender/v1/types.go and config/v1/types.go in staging/src/k8s.io/kube-scheduler (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np

from kschedctl.api.arrays import NO_ROW, Rows, Scores
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import Json, JsonObject, drop_nulls, field_at
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Node, Pod, Struct
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.framework.strict_decoding import GoDuration, Int64
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.text.printable import strip_url

INT64 = range(-(2**63), 2**63)
NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"


MAX_MESSAGE_LENGTH = 1024
"""Maximum number of characters in an event's message. Extenders' messages have no limit of their own."""


class ExtenderError(Exception):
    """A failed call of an extender. `str()` is upstream's message."""

    def __init__(self, message: str) -> None:
        super().__init__(truncate_message(message))


def truncate_message(message: str) -> str:
    """Return the message, cut off if it is too long for an event. Upstream: truncateMessage in schedule_one.go.

    >>> truncate_message("no GPU left"), len(truncate_message("m" * 2000)), truncate_message("m" * 2000)[-6:]
    ('no GPU left', 1024, 'mm ...')
    """
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    return f"{message[: MAX_MESSAGE_LENGTH - 4]} ..."


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
    # Go ignores the case of field names, so the names are in lower case here.
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
    """Parse the answer to the prioritize verb into hosts and scores. A host may occur twice.

    Raises ExtenderError if Go could not decode the answer.
    """
    priorities = []
    for priority in _parse_array(body, "Go value of type v1.HostPriorityList"):
        fields = _parse_fields(priority, "Go value of type v1.HostPriority")
        host = _parse_string(fields.get("host"), "HostPriority.Host")
        score = _parse_int64(fields.get("score"), "HostPriority.Score")
        priorities.append((host, score))
    return priorities


def parse_preemption_result(body: Json) -> dict[str, MetaVictims]:
    """Parse the answer to the preempt verb into victims by node.

    Raises ExtenderError if Go could not decode the answer, or if a null in it would crash upstream.
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
    """Parse a node that an extender returned. Raises ExtenderError if Go could not decode it."""
    try:
        return convert_builtins(drop_nulls(document), Node)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"json: cannot unmarshal into Go struct field NodeList.items: {error}") from None


def _parse_nodes(value: Json, type_name: str) -> list[JsonObject] | None:
    """Return the items of a NodeList, or None for null. Raises ExtenderError for other values."""
    if value is None:
        return None
    fields = _parse_fields(value, f"Go struct field {type_name}.Nodes of type v1.NodeList")
    items = _parse_array(fields.get("items"), "Go struct field NodeList.items of type []v1.Node")
    return [_parse_mapping(item, "Go struct field NodeList.items of type v1.Node") for item in items]


def _parse_uid(value: Json) -> str:
    """Return the UID of a MetaPod. Raises ExtenderError for null, which crashes upstream."""
    if value is None:
        raise ExtenderError(NIL_POINTER)
    fields = _parse_fields(value, "Go struct field MetaVictims.Pods of type v1.MetaPod")
    return _parse_string(fields.get("uid"), "MetaPod.UID")


def _parse_fields(value: Json, target: str) -> dict[str, Json]:
    """Return an object's fields by lower-case name, since Go ignores case, or {} for null.

    `target` is the Go type that Go would decode the object into. Raises ExtenderError naming it for other values.
    """
    return {name.lower(): field for name, field in _parse_mapping(value, target).items()}


def _parse_mapping(value: Json, target: str) -> JsonObject:
    """Return a JSON object, or an empty one for null.

    `target` is the Go type or field to decode. Raises ExtenderError naming it for other values.
    """
    if isinstance(value, Mapping):
        return value
    if value is None:
        return {}
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into {target}")


def _parse_array(value: Json, target: str) -> list[Json]:
    """Return a JSON array, or an empty one for null.

    `target` is the Go type or field to decode. Raises ExtenderError naming it for other values.
    """
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into {target}")


def _parse_strings(value: Json, field: str) -> list[str] | None:
    """Return an array of strings, or None for null. Raises ExtenderError naming the `field` for other values."""
    if value is None:
        return None
    return [_parse_string(text, field) for text in _parse_array(value, f"Go struct field {field} of type []string")]


def _parse_messages(value: Json, field: str) -> dict[str, str]:
    """Return a JSON object as messages by node name, each cut off at the maximum length, or {} for null.

    Raises ExtenderError naming the `field` for other values.
    """
    mapping = _parse_mapping(value, f"Go struct field {field} of type v1.FailedNodesMap")
    return {name: truncate_message(_parse_string(text, field)) for name, text in mapping.items()}


def _parse_string(value: Json, field: str) -> str:
    """Return a JSON string, or an empty one for null. Raises ExtenderError naming the `field` for other values."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise ExtenderError(f"json: cannot unmarshal {_get_json_kind(value)} into Go struct field {field} of type string")


def _parse_int64(value: Json, field: str) -> int:
    """Return a JSON integer in Go's int64 range, or 0 for null.

    Raises ExtenderError naming the `field` for other values.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    if value is None:
        return 0
    kind = _get_json_kind(value)
    described = f"number {value}" if kind == "number" else kind
    raise ExtenderError(f"json: cannot unmarshal {described} into Go struct field {field} of type int64")


def _get_json_kind(value: Json) -> str:
    """Return Go's name for the kind of a JSON value other than null."""
    match value:
        case Mapping():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
    # Callers accept null themselves, because Go then leaves the zero value.
    return "number"


class ExtenderManagedResource(Struct, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """True if NodeResourcesFit ignores the resource."""


class ExtenderTLSConfig(Struct, frozen=True):
    """TLS settings for calls of an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Struct, frozen=True):
    """The settings of an HTTP extender, as written in the configuration."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: GoDuration = msgspec.field(default=GoDuration(0), name="httpTimeout")
    """In seconds; 0 means 5."""
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


CallExtender = Callable[[JsonObject, str, JsonObject], tuple[int, Json]]
"""(extender as in the configuration, verb, payload) -> (HTTP status, decoded body or None unless the status is 200).

Raises ExtenderError if the call fails and UnknownAnswerError if the answer cannot be known.
"""


@runtime_checkable
class CallWithFullPods(Protocol):
    """A CallExtender that sends some pods with more fields than plugins read."""

    @property
    def full_pods(self) -> JsonObject:
        """`namespace/name` -> the pod as JSON."""


NAME = "Extender"
"""The name that the scheduler's diagnosis gives to all extenders together."""
UNASKED = Gap("were not called")


class UnknownAnswerError(Exception):
    """Raised if an extender's answer cannot be known. `str()` is the reason, to follow "Extenders …"."""


class OfferedNodes(NamedTuple):
    """Nodes that an extender is offered, in order."""

    names: tuple[str, ...]
    rows: Rows
    """NO_ROW for a node that the cluster does not have."""
    returned: tuple[JsonObject, ...] | None = None
    """The whole nodes as another extender returned them; None if they are the scheduler's own."""

    @classmethod
    def from_rows(cls, nodes: NodeColumns, rows: Rows) -> OfferedNodes:
        """Build the offer of the scheduler's own nodes at these rows."""
        if np.array_equal(rows, nodes.rows):  # the usual case, handled without a step for each row
            return cls(tuple(nodes.names), rows)
        return cls(tuple(map(nodes.names.__getitem__, rows.tolist())), rows)


NOTHING_OFFERED = OfferedNodes(names=(), rows=np.empty(0, np.int64))


class SentVictims(NamedTuple):
    """The victims on a node as they are sent to extenders."""

    pods: list[dict[str, Json]]
    violations: int
    """Number of PDB violations."""


class FilterAnswer(NamedTuple):
    """An extender's answer to the filter verb, with the nodes that it names."""

    remaining: OfferedNodes
    """The nodes that the extender leaves."""
    failed: Mapping[str, str]
    """Rejected node -> message."""
    unresolvable: Mapping[str, str]
    """Node rejected for good -> message."""


class HTTPExtender:
    """An extender of the configuration and the function that calls it.

    `call` makes HTTP calls, and is None if the extender is not called. `url` identifies the extender in messages, and
    `document` is the extender as in the configuration.
    """

    def __init__(self, settings: Extender, document: JsonObject, call: CallExtender | None = None) -> None:
        self.settings, self.document, self.call = settings, document, call
        self.url = strip_url(settings.url_prefix)
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Return whether a container of the pod requests or limits a resource that the extender manages.

        An extender without managed resources is interested in every pod. Ephemeral containers do not count.
        """
        if not self._managed:
            return True
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            resources = container.resources
            if not self._managed.isdisjoint((*resources.requests, *resources.limits)):
                return True
        return False

    def iter_unknowns(self, pod: Pod) -> Iterator[Unknown]:
        """Yield an unknown for each verb that the extender cannot answer because it is not called.

        Only the filter, prioritize and preempt verbs count, and only if they are configured. Nothing is yielded if the
        extender is called, or if it is not interested in the pod.
        """
        if self.call is not None or not self.is_interested(pod):
            return
        effects = {
            Effect.NARROWS: self.settings.filter_verb,
            Effect.SCORES: self.settings.prioritize_verb,
            Effect.VICTIMS: self.settings.preempt_verb,
        }
        for effect, verb in effects.items():
            if verb:
                yield Unknown(Dependency(NAME, effect), UNASKED)

    def filter(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> FilterAnswer:
        """Ask the extender which of the offered nodes pass its filter, and which fail and why.

        If `nodeCacheCapable` is set, the extender may answer with the names of the nodes that pass, and otherwise only
        with Node objects. If it answers with neither, no node remains. Raises UnknownAnswerError if extenders are not
        to be called, and ExtenderError if the call fails or the answer is invalid.
        """
        body = self._call_verb(self.settings.filter_verb, self._build_extender_args(pod, offered, nodes))
        result = parse_filter_result(body)
        if result.error:
            raise ExtenderError(result.error)
        if self.settings.node_cache_capable and result.node_names is not None:
            remaining = self._resolve_names(result.node_names, offered)
        elif result.nodes is not None:
            remaining = _resolve_nodes(result.nodes, nodes)
        else:
            remaining = NOTHING_OFFERED
        return FilterAnswer(remaining, result.failed, result.unresolvable)

    def prioritize(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> list[tuple[str, int]]:
        """Ask the extender for the unweighted score of each offered node, and return pairs of node name and score.

        Raises UnknownAnswerError if the extender is not called, and ExtenderError if the call fails or the answer is
        invalid.
        """
        body = self._call_verb(self.settings.prioritize_verb, self._build_extender_args(pod, offered, nodes))
        return parse_host_priorities(body)

    def preempt(self, pod: JsonObject, victims: Mapping[str, SentVictims]) -> dict[str, MetaVictims]:
        """Ask the extender which victims to evict on each node, and return its answer by node name.

        An extender that caches nodes gets only the UIDs of pods. Raises UnknownAnswerError if the extender is not
        called, and ExtenderError if the call fails or the answer is invalid.
        """
        payload: dict[str, Json] = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
        if self.settings.node_cache_capable:  # the extender knows the pods by their UIDs
            meta_victims = {}
            for node, (pods, violations) in victims.items():
                meta_pods = [{"UID": field_at(victim, "metadata", "uid")} for victim in pods]
                meta_victims[node] = {"Pods": meta_pods, "NumPDBViolations": violations}
            payload["NodeNameToMetaVictims"] = meta_victims
        else:
            payload["NodeNameToVictims"] = {
                node: {"Pods": pods, "NumPDBViolations": violations} for node, (pods, violations) in victims.items()
            }
        return parse_preemption_result(self._call_verb(self.settings.preempt_verb, payload))

    def _build_extender_args(self, pod: JsonObject, offered: OfferedNodes, nodes: NodeColumns) -> dict[str, Json]:
        """Build the payload of the filter and prioritize verbs, upstream's ExtenderArgs.

        An extender that caches nodes gets only their names. Other extenders get whole nodes.
        """
        if self.settings.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(offered.names)}
        items = offered.returned
        if items is None:
            items = tuple(msgspec.to_builtins(nodes.objects[row]) for row in offered.rows.tolist())
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(items)}, "NodeNames": None}

    def _call_verb(self, verb: str, payload: JsonObject) -> Json:
        """Call one of the extender's verbs, such as filter, and return the decoded body of the response.

        Raises UnknownAnswerError if the extender is not called, and ExtenderError if the response has a status other
        than 200.
        """
        if self.call is None:
            raise UnknownAnswerError(UNASKED.why)
        status, body = self.call(self.document, verb, payload)
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {self.url.rstrip('/')}/{verb}, code {status}")
        return body

    def _resolve_names(self, names: Sequence[str], offered: OfferedNodes) -> OfferedNodes:
        """Return the offered nodes with these names, in the order of the names.

        Raises ExtenderError for a name that was not offered.
        """
        index_by_name = {name: i for i, name in enumerate(offered.names)}
        for name in names:
            if name not in index_by_name:
                complaint = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.url}" {complaint}')
        chosen = [index_by_name[name] for name in names]
        returned = None if offered.returned is None else tuple(offered.returned[i] for i in chosen)
        return OfferedNodes(tuple(names), offered.rows[chosen], returned)


def is_any_extender_called(extenders: Sequence[HTTPExtender], pod: Pod) -> bool:
    """Return whether at least one of the extenders is interested in the pod and can be called."""
    return any(extender.call is not None and extender.is_interested(pod) for extender in extenders)


def _resolve_nodes(documents: Sequence[JsonObject], nodes: NodeColumns) -> OfferedNodes:
    """Convert returned node objects to offered nodes, including nodes that the cluster does not have."""
    names = tuple(parse_node(document).metadata.name for document in documents)
    rows = np.array([nodes.index.get(name, NO_ROW) for name in names], np.int64)
    return OfferedNodes(names, rows, tuple(documents))


MAX_EXTENDER_PRIORITY = 10
AGGREGATED = ByVersion(
    "an extender's reason for rejecting a node is added to earlier reasons for the node",
    (("", True), ("1.32", False)),
)
Answer = TypeVar("Answer")


class ExtenderCall(NamedTuple):
    """One call of an extender."""

    extender: str
    verb: str
    nodes: tuple[str, ...]
    """Names of the nodes that were sent."""
    full: bool = False
    """True if whole nodes were sent."""
    error: str = ""
    """The reason why there is no answer; empty if there is one."""


class Consultation:
    """The calls of the extenders that are interested in a pod, with their results.

    `calls` are the calls so far. `statuses` has the status of each node to which an extender gave a message, and
    `refusals` the messages by extender URL and node. `narrowed` is whether extenders dropped nodes in a search of all
    nodes. `unknown` has what the answers depend on because an extender could not be called.
    """

    def __init__(self, extenders: Iterable[HTTPExtender], pod: Pod, release: KubeVersion = VERIFIED) -> None:
        self.extenders = tuple(e for e in extenders if e.call is not None and e.is_interested(pod))
        self.calls: list[ExtenderCall] = []
        self.statuses: dict[str, Status] = {}
        self.refusals: dict[str, dict[str, str]] = {}
        self.narrowed = False
        self.unknown: dict[Unknown, None] = {}
        self._pod, self._release = pod, release
        self._document: dict[str, Json] | None = None

    @property
    def pod(self) -> dict[str, Json]:
        """The pod as it is sent to extenders."""
        if self._document is None:
            self._document = msgspec.to_builtins(self._pod)
        return self._document

    # -- filter --------------------------------------------------------------------------------------------------

    def filter(self, view: Fork, rows: Rows) -> OfferedNodes:
        """Return the nodes at these rows that remain after all extenders filtered them in order.

        Extenders without a filter verb are skipped, and no extender is called once no node remains. Messages and
        unknown answers are recorded. An extender removes no node if its answer is unknown, or if it fails and is
        ignorable. Raises PluginError if an extender that is not ignorable fails.
        """
        offered = OfferedNodes.from_rows(view.nodes, rows)
        for extender in self.extenders:
            if not len(offered.rows):
                break
            verb = extender.settings.filter_verb
            if not verb:
                continue
            try:
                answer = self._call_with_nodes(extender, verb, offered, extender.filter, view.nodes)
            except ExtenderError as error:
                if extender.settings.ignorable:
                    continue
                raise PluginError(str(error)) from None
            except UnknownAnswerError as error:
                self._record_unknown_answer(Effect.NARROWS, error)
                continue
            self._record_filter_messages(extender, answer)
            offered = answer.remaining
        return offered

    def filter_all(self, view: Fork, rows: Rows) -> OfferedNodes:
        """Filter all rows that pass the plugins, as `filter` does, and record whether extenders dropped any row."""
        offered = self.filter(view, rows)
        self.narrowed = len(offered.rows) != len(rows)
        return offered

    def _record_filter_messages(self, extender: HTTPExtender, answer: FilterAnswer) -> None:
        """Record the messages that an extender gave about nodes, as their statuses.

        A node that is listed both as failed and as unresolvable is unresolvable.
        """
        for name, message in answer.unresolvable.items():
            self._record_status(extender, name, Code.UNRESOLVABLE, message)
        for name, message in answer.failed.items():
            if name not in answer.unresolvable:
                self._record_status(extender, name, Code.UNSCHEDULABLE, message)

    def _record_status(self, extender: HTTPExtender, name: str, code: Code, message: str) -> None:
        """Record the status that an extender's message gives to a node, and the message by the extender's URL.

        In old versions, the message is added to earlier messages about the node, and an unresolvable node stays
        unresolvable.
        """
        reasons: tuple[str, ...] = (message,)
        earlier = self.statuses.get(name)
        if earlier is not None and AGGREGATED.at(self._release):
            reasons = (*earlier.reasons, message)
            if earlier.code is Code.UNRESOLVABLE:
                code = Code.UNRESOLVABLE
        self.statuses[name] = Status(code, reasons)
        self.refusals.setdefault(extender.url, {})[name] = message

    # -- prioritize ----------------------------------------------------------------------------------------------

    def prioritize(self, view: Fork, offered: OfferedNodes) -> Iterator[tuple[str, Scores]]:
        """Yield the URL of each extender that scores, with its weighted score for each of the offered nodes.

        A node that the extender does not mention scores 0. Extenders that fail are ignored, and unknown answers are
        recorded. A single node is not scored.
        """
        if len(offered.rows) < 2:
            return
        for extender in self.extenders:
            verb = extender.settings.prioritize_verb
            if not verb:
                continue
            try:
                priorities = self._call_with_nodes(extender, verb, offered, extender.prioritize, view.nodes)
            except ExtenderError:
                continue
            except UnknownAnswerError as error:
                self._record_unknown_answer(Effect.SCORES, error)
                continue

            # Weight the scores, whose scale is 0 to 10, like the scores of plugins.
            totals: dict[str, int] = {}
            for host, score in priorities:
                totals[host] = totals.get(host, 0) + score
            factor = extender.settings.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
            scores = [_wrap_int64(totals.get(name, 0) * factor) for name in offered.names]
            yield extender.url, np.array(scores, np.int64)

    def _call_with_nodes(
        self,
        extender: HTTPExtender,
        verb: str,
        offered: OfferedNodes,
        make_call: Callable[[JsonObject, OfferedNodes, NodeColumns], Answer],
        nodes: NodeColumns,
    ) -> Answer:
        """Make a call of the filter or prioritize verb, record it, and return the answer.

        `make_call` makes the call with the pod, the offered nodes and all nodes. Raises ExtenderError if the call
        fails, and UnknownAnswerError if the answer cannot be known.
        """
        sends_whole_nodes = not extender.settings.node_cache_capable
        call = ExtenderCall(extender.url, verb, offered.names, full=sends_whole_nodes)
        return self._make_and_record_call(call, lambda: make_call(self.pod, offered, nodes))

    # -- preempt -------------------------------------------------------------------------------------------------

    def preempt(self, extender: HTTPExtender, victims: Mapping[str, SentVictims]) -> dict[str, MetaVictims] | None:
        """Return the victims that an extender chooses on each node, by node name.

        The call is recorded. If the extender's answer is unknown, record this and return None. Raises ExtenderError if
        the extender fails.
        """
        call = ExtenderCall(extender.url, extender.settings.preempt_verb, tuple(victims))
        try:
            return self._make_and_record_call(call, lambda: extender.preempt(self.pod, victims))
        except UnknownAnswerError as error:
            self._record_unknown_answer(Effect.VICTIMS, error)
            return None

    def _make_and_record_call(self, call: ExtenderCall, make_call: Callable[[], Answer]) -> Answer:
        """Make the call, record it even if it fails, and return the answer.

        Raises the ExtenderError or UnknownAnswerError of the call after recording its message.
        """
        try:
            answer = make_call()
        except (ExtenderError, UnknownAnswerError) as error:
            self.calls.append(call._replace(error=str(error)))
            raise
        self.calls.append(call)
        return answer

    def _record_unknown_answer(self, effect: Effect, error: UnknownAnswerError) -> None:
        """Record that the unknown answer of an extender affects the answers about the pod.

        `effect` says what depends on it.
        """
        self.unknown[Unknown(Dependency(NAME, effect), Gap(str(error)))] = None


def _wrap_int64(value: int) -> int:
    """Wrap a number around as Go's int64 arithmetic does.

    >>> _wrap_int64(2**63)
    -9223372036854775808
    """
    return (value + 2**63) % 2**64 - 2**63
