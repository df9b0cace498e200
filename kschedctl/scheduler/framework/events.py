"""Cluster events that move pods back to the scheduling queue, and the queueing hints with which plugins answer them.

For users, plugins describe in words which changes make the queue retry a pod. Upstream:
staging/src/k8s.io/kube-scheduler/framework/types.go and pkg/scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntFlag, StrEnum
from functools import cache, partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import Plugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class ActionType(IntFlag):
    """A kind of change to a resource. The actions that a plugin registers for may be combined."""

    ADD = 1
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE = (1 << 13) - 4  # all actions except ADD and DELETE
    ALL = (1 << 13) - 1

    @property
    def label(self) -> str:
        """Upstream's name of the action, such as `UpdateNodeLabel`.

        >>> ActionType.UPDATE_POD_SCALE_DOWN.label, ActionType.UPDATE.label
        ('UpdatePodScaleDown', 'Update')
        """
        return _format_label(self)


@cache
def _format_label(action: ActionType) -> str:
    """Join the words of an action's name in upstream's spelling."""
    return "".join(word.capitalize() for word in str(action.name).split("_"))


POD, ASSIGNED_POD, UNSCHEDULABLE_POD = "Pod", "AssignedPod", "UnschedulablePod"
NODE = "Node"
POD_RESOURCES = (ASSIGNED_POD, UNSCHEDULABLE_POD)
"""Events distinguish pods with and without a node; a plugin that registers for `Pod` hears of both."""

RESOURCES: Mapping[str, str] = {kind.name: kind.event_resource for kind in KINDS.values() if kind.watched_by_scheduler}
"""Kind -> the resource name under which plugins register for its events. The scheduler ignores other kinds."""


class ClusterEvent(NamedTuple):
    """A resource with a kind of change."""

    resource: str
    action: ActionType
    custom_label: str = ""
    """The event's name if it does not follow from the resource and the action."""
    broad: bool = False
    """True if an event with several actions reaches everybody who registered for at least one of them."""

    @property
    def label(self) -> str:
        """Upstream's name of the event."""
        return self.custom_label or f"{self.resource}{self.action.label}"

    def covers(self, event: ClusterEvent) -> bool:
        """Return whether a registration for this event includes `event`.

        Both must have the same resource, but a registration for pods includes every kind of pods. This event must have
        all actions of `event` or, if `event` is broad, one of them.
        """
        covers_all_pods = self.resource == POD and event.resource in POD_RESOURCES
        if self.resource != event.resource and not covers_all_pods:
            return False
        shared_actions = self.action & event.action
        return bool(shared_actions) if event.broad else shared_actions == event.action


STRING_MAPS = ("labels", "annotations")
"""Fields whose keys users choose; there, a key with an empty value is not the same as no key."""


class ChangedObject(NamedTuple):
    """An object before and after a change."""

    kind: str
    old: Any
    """None if the object was added."""
    new: Any
    """None if the object was deleted."""
    documents: tuple[JsonObject, JsonObject] | None = None
    """Both states as JSON, if known; they contain more fields than the structs."""

    @property
    def object(self) -> Any:
        """The latest state of the object."""
        return self.old if self.new is None else self.new

    def has_changed(self, *path: str) -> bool:
        """Return whether an update changed the field at a path of snake_case names.

        An absent field equals an empty field. If the JSON documents are known, they are compared instead of the
        structs, because they have more fields. In labels and annotations, however, a key with an empty value differs
        from an absent key.
        """
        if self.documents is None:
            old, new = _get_attribute(self.old, path), _get_attribute(self.new, path)
            return bool(old or new) and old != new
        old_document, new_document = self.documents
        old_json, new_json = _get_json_field(old_document, path), _get_json_field(new_document, path)
        if path[-1] in STRING_MAPS:
            return _read_labels_or_annotations(old_json) != _read_labels_or_annotations(new_json)
        return bool(_drop_empty_values(old_json) != _drop_empty_values(new_json))


class QueueingHint(StrEnum):
    """A plugin's answer to an event, for a pod that it rejected."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"
    NOT_REGISTERED = "NotRegistered"


HintFunction = Callable[[PodInfo, ChangedObject, Fork], bool]
"""Returns whether a change may make a pod schedulable that the plugin rejected. The view is that after the change,
except for nodes and pods. A PluginError counts as yes. Upstream: QueueingHintFn.
"""


SkipPredicate = Callable[[PodInfo, ActionType, Fork], bool]
"""Returns whether the hint is Skip for a pod and every change with some of these actions, whatever object changed."""


class ClusterEventWithHint(NamedTuple):
    """An event that a plugin registers for, with its queueing hint. Without a hint, the answer is always Queue."""

    kind: str
    action: ActionType
    hint: HintFunction | None = None
    always_skips: SkipPredicate | None = None
    """Returns whether the hint is Skip for a pod whatever the change is."""

    @property
    def event(self) -> ClusterEvent:
        """The cluster event to register for."""
        return ClusterEvent(RESOURCES[self.kind], self.action)


QUEUEING_HINTS = "SchedulerQueueingHints"
"""The feature gate without which every event that a plugin registered for counts as Queue."""

PRE_CHECKED_WITHOUT_HINTS = (NODE, ASSIGNED_POD, UNSCHEDULABLE_POD, "StorageClass")
PRE_CHECKED = ByVersion(
    "kinds of objects whose events must pass a check (for nodes: preCheckForNode) before queueing hints are called",
    (("", PRE_CHECKED_WITHOUT_HINTS), ("1.31", (NODE, "StorageClass")), ("1.32", ())),
)

EVERY_UPDATE = ByVersion(
    "kinds of node updates that plugins register for",
    (("", True), ("1.32", False)),
    bool_texts=("only the kinds that they need", "all kinds"),
)
UPDATED_NODES_AS_NEW = ByVersion(
    "NodeAffinity, NodeResourcesFit, NodeUnschedulable and PodTopologySpread treat a changed node as a new node",
    (("", True), ("1.32", False)),
)
KINDS_OF_PODS = ByVersion(
    "plugins can register separately for events of assigned pods, unscheduled pods and the rejected pod itself",
    (("", False), ("1.37", True)),
    "#135905",
)
UPDATES_OF_PODS = ByVersion(
    "kinds of pod updates that plugins can register for separately",
    (
        ("", ()),
        ("1.31", ("UpdatePodLabel", "UpdatePodScaleDown")),
        (
            "1.32",
            (
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
                "UpdatePodGeneratedResourceClaim",
            ),
        ),
    ),
)


def list_pre_checked_resources(gates: FeatureGates) -> frozenset[str]:
    """Return the resources whose events the queue of this version pre-checks before it calls queueing hints."""
    if not gates.enabled(QUEUEING_HINTS):
        return frozenset(PRE_CHECKED_WITHOUT_HINTS)
    return frozenset(PRE_CHECKED.at(gates.release))


def resolve_pod_actions(requested: ActionType, gates: FeatureGates) -> ActionType:
    """Return the requested pod actions, extended by all updates if the version lacks a requested kind of update."""
    known_updates = UPDATES_OF_PODS.at(gates.release)
    requested_updates = [action for action in ActionType if action in ActionType.UPDATE and action in requested]
    if all(update.label in known_updates for update in requested_updates):
        return requested
    return requested | ActionType.UPDATE


def resolve_node_actions(
    requested: ActionType, gates: FeatureGates, *, all_updates_before_1_32: bool = False
) -> ActionType:
    """Return the requested node actions, extended by the updates that the version needs.

    In some versions, the queue's pre-check hides the event of a new node that is unusable for the pod at first. In
    these versions, plugins need changes of labels and taints as well. With `all_updates_before_1_32`, the plugin
    registers for all updates of nodes in versions before 1.32.
    """
    if all_updates_before_1_32 and EVERY_UPDATE.at(gates.release):
        return ActionType.ADD | ActionType.UPDATE
    if NODE in list_pre_checked_resources(gates):
        return requested | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    return requested


def adapt_node_hint(hint: HintFunction, gates: FeatureGates) -> HintFunction:
    """Wrap a node hint so that versions with UPDATED_NODES_AS_NEW treat an updated node as a new one.

    In all other versions, the hint is returned unchanged.
    """
    return partial(_call_hint_as_if_added, hint) if UPDATED_NODES_AS_NEW.at(gates.release) else hint


def _call_hint_as_if_added(hint: HintFunction, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Call the hint for an updated object as if the object had been added. Deletions are passed on as they are."""
    if change.new is not None:
        change = ChangedObject(change.kind, old=None, new=change.new)
    return hint(info, change, view)


def _get_attribute(value: object, path: tuple[str, ...]) -> object:
    """Return the value of the nested attribute at a path."""
    for name in path:
        value = getattr(value, name)
    return value


def _get_json_field(document: Json, path: tuple[str, ...]) -> Json:
    """Return the JSON value at a path of snake_case names, or None if it is absent."""
    value = document
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(_to_camel_case(name))
    return value


def _read_labels_or_annotations(document: Json) -> dict[str, str]:
    """Return labels or annotations as Go reads them.

    A null value becomes an empty string, and anything but a JSON object becomes an empty map.
    """
    if not isinstance(document, Mapping):
        return {}
    return {key: value or "" for key, value in document.items()}


def _to_camel_case(name: str) -> str:
    """Convert a snake_case name to camelCase."""
    first_word, *other_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)


def _drop_empty_values(value: Json) -> Json:
    """Return the value without null, empty strings, empty lists and empty objects, or None if nothing remains.

    Empty items of lists are not removed but replaced with None.
    """
    if isinstance(value, Mapping):
        fields = {key: _drop_empty_values(inner) for key, inner in value.items()}
        return {key: inner for key, inner in fields.items() if inner is not None} or None
    if isinstance(value, list | tuple):
        return [_drop_empty_values(inner) for inner in value] or None
    return None if value == "" else value


NOMINATED_PODS_FREE_ROOM = ByVersion(
    "the deletion of a nominated pod counts as freeing resources on its nominated node", (("", False), ("1.33", True))
)


def frees_room(pod: Pod, *, counts_nominated: bool) -> bool:
    """Return whether the deletion of the pod frees room on a node.

    A bound pod frees room. With `counts_nominated`, a pod nominated for a node does, too.
    """
    return bool(pod.spec.node_name or (counts_nominated and pod.status.nominated_node_name))


ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
ADD_OR_UPDATE = ADD | UPDATE
BY_THE_PLUGIN = ActionType(0)
"""No event: the plugin itself has the pod retried."""


class WakeTrigger(NamedTuple):
    """The description of a change that makes the queue retry a pod."""

    kind: str
    action: ActionType
    words: str


@runtime_checkable
class WakingPlugin(Plugin, Protocol):
    """A plugin that describes the changes that wake pods. Other plugins are described by their registered events."""

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield each change that wakes a pod which the plugin rejected, with a description.

        Queueing hints are assumed to be on.
        """


@runtime_checkable
class AdmittingPlugin(Plugin, Protocol):
    """A plugin that keeps pods out of the active queue and reacts only to some of the events that it registers for."""

    def iter_admitting_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield each change after which the plugin lets the pod into the active queue, with a description."""


def treats_updated_nodes_as_new(gates: FeatureGates) -> bool:
    """Return whether plugins treat an updated node as a new one in this version."""
    return UPDATED_NODES_AS_NEW.at(gates.release)


def join_words(parts: Sequence[str], last: str = "and") -> str:
    """Join words with commas and, before the last one, a conjunction.

    >>> join_words(["a", "b", "c"]), join_words(["a"]), join_words(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def describe_selected_labels(selector: Selector) -> str:
    """Describe the labels of the pods that a selector selects, in words that follow "pods".

    >>> describe_selected_labels(Selector()), describe_selected_labels(Selector(matches_nothing=True))
    ('with any labels', 'that no selector selects')
    """
    if selector.matches_nothing:
        return "that no selector selects"
    if not selector.requirements:
        return "with any labels"
    return f"with {selector}"
