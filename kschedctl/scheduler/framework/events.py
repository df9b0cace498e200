"""What happens in a cluster, as the scheduler takes notice of it, and what a plugin says to it.

Upstream: staging/src/k8s.io/kube-scheduler/framework/types.go and pkg/scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntFlag, StrEnum
from functools import cache, partial
from typing import Any, NamedTuple

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class ActionType(IntFlag):
    """How a resource changed; what a plugin asks for may be several of these at once."""

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
    UPDATE = (1 << 13) - 4
    ALL = (1 << 13) - 1

    @property
    def label(self) -> str:
        """Upstream's name of it, such as ``UpdateNodeLabel``.

        >>> ActionType.UPDATE_POD_SCALE_DOWN.label, ActionType.UPDATE.label
        ('UpdatePodScaleDown', 'Update')
        """
        return _label(self)


@cache
def _label(action: ActionType) -> str:
    return "".join(word.capitalize() for word in str(action.name).split("_"))


POD, ASSIGNED_POD, UNSCHEDULABLE_POD = "Pod", "AssignedPod", "UnschedulablePod"
NODE = "Node"
POD_RESOURCES = (ASSIGNED_POD, UNSCHEDULABLE_POD)
"""What happens to pods is told apart by whether they have a node; plugins ask for both at once."""

RESOURCES: Mapping[str, str] = {kind.name: kind.event_resource for kind in KINDS.values() if kind.watched_by_scheduler}
"""Kind -> the name under which plugins ask for it. Of other kinds the scheduler hears nothing."""


class ClusterEvent(NamedTuple):
    """A resource and how it changed.

    ``custom_label``: what it is called, where that does not follow from these. ``broad``: an event of several actions
    of which everybody hears who asked for one of them.
    """

    resource: str
    action: ActionType
    custom_label: str = ""
    broad: bool = False

    @property
    def label(self) -> str:
        return self.custom_label or f"{self.resource}{self.action.label}"

    def covers(self, event: ClusterEvent) -> bool:
        """Whether who asked for this hears of an event: it is the same, or more specific."""
        same = self.resource == event.resource or (self.resource == POD and event.resource in POD_RESOURCES)
        shared = self.action & event.action
        return same and (bool(shared) if event.broad else shared == event.action)


TEXTS = ("labels", "annotations")
"""Fields whose keys are the users' own: there a key without a value is not nothing."""


class ChangedObject(NamedTuple):
    """An object as it was and as it is: ``old`` None when it was added, ``new`` None when it was deleted.

    ``documents``: the same as they were written, where that is known: they hold more than the structs.
    """

    kind: str
    old: Any
    new: Any
    documents: tuple[JsonObject, JsonObject] | None = None

    @property
    def object(self) -> Any:
        """What it is about, in its latest form."""
        return self.old if self.new is None else self.new

    def differs(self, *path: str) -> bool:
        """Whether an update changed the field at a path, as the API names it; nothing is like empty."""
        if self.documents is None:
            old, new = (_field(state, path) for state in (self.old, self.new))
            return bool(old or new) and old != new
        old, new = (_part(document, path) for document in self.documents)
        if path[-1] in TEXTS:
            return _texts(old) != _texts(new)
        return bool(_without_empty(old) != _without_empty(new))


class QueueingHint(StrEnum):
    """What a plugin that refused a pod says to an event."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"
    NOT_REGISTERED = "NotRegistered"


HintFunction = Callable[[PodInfo, ChangedObject, Fork], bool]
"""Whether a change may make a pod schedulable that the plugin refused; the view is as it is after the change, but for
nodes and pods. A PluginError counts as yes. Upstream: QueueingHintFn."""


SparedPods = Callable[[PodInfo, ActionType, Fork], bool]
"""Whether the hint says no for a pod to every change of some actions, whatever object it is of."""


class ClusterEventWithHint(NamedTuple):
    """What a plugin asks for, and what it says then: always Queue without a hint of its own.

    ``spares``: which pods need not be asked about, where that can be told without looking at a change.
    """

    kind: str
    action: ActionType
    hint: HintFunction | None = None
    spares: SparedPods | None = None

    @property
    def event(self) -> ClusterEvent:
        return ClusterEvent(RESOURCES[self.kind], self.action)


QUEUEING_HINTS = "SchedulerQueueingHints"
"""The gate without which every event that a plugin asked for counts as Queue."""

PRE_CHECKED_WITHOUT_HINTS = (NODE, ASSIGNED_POD, UNSCHEDULABLE_POD, "StorageClass")
PRE_CHECKED = ByVersion(
    "of what events are sorted out, as without queueing hints, before the hints are asked",
    (("", PRE_CHECKED_WITHOUT_HINTS), ("1.31", (NODE, "StorageClass")), ("1.32", ())),
)

EVERY_UPDATE = ByVersion(
    "whether plugins that need to know of some updates of nodes ask for all of them", (("", True), ("1.32", False))
)
AS_IF_ADDED = ByVersion(
    "whether NodeAffinity, NodeResourcesFit, NodeUnschedulable and PodTopologySpread take changed nodes for new ones",
    (("", True), ("1.32", False)),
)
KINDS_OF_PODS = ByVersion(
    "whether plugins may ask for events of assigned, unscheduled and their own pods apart",
    (("", False), ("1.37", True)),
    "#135905",
)
UPDATES_OF_PODS = ByVersion(
    "which updates of pods are events of their own: plugins that need to know of others ask for all",
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


def pre_checked(gates: FeatureGates) -> frozenset[str]:
    """The kinds of which not every event reaches every pod: the queue looks at them before it asks the plugins."""
    by_hints = gates.enabled(QUEUEING_HINTS)
    return frozenset(PRE_CHECKED.at(gates.release) if by_hints else PRE_CHECKED_WITHOUT_HINTS)


def pod_actions(asked: ActionType, gates: FeatureGates) -> ActionType:
    """What a plugin hears of pods that asks for some updates of them."""
    known = UPDATES_OF_PODS.at(gates.release)
    updates = (action_type for action_type in ActionType if action_type in ActionType.UPDATE and action_type in asked)
    return asked if all(update.label in known for update in updates) else asked | ActionType.UPDATE


def node_actions(asked: ActionType, gates: FeatureGates, broad: bool = False) -> ActionType:
    """What a plugin hears of nodes that asks for new ones: changes of labels and taints too, where new ones may be
    kept from it.

    A node may be of no use to a pod at first; then the plugins are told of it only when it is. ``broad``: it is one of
    those that EVERY_UPDATE is about.
    """
    if broad and EVERY_UPDATE.at(gates.release):
        return ActionType.ADD | ActionType.UPDATE
    more = ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    return asked | more if NODE in pre_checked(gates) else asked


def node_hint(hint: HintFunction, gates: FeatureGates) -> HintFunction:
    """The hint of a plugin that AS_IF_ADDED is about."""
    return partial(_as_if_added, hint) if AS_IF_ADDED.at(gates.release) else hint


def _as_if_added(hint: HintFunction, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return hint(info, change if change.new is None else ChangedObject(change.kind, None, change.new), view)


def _field(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = getattr(value, name)
    return value


def _part(document: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        document = document.get(_camel(name)) if isinstance(document, Mapping) else None
    return document


def _texts(document: Json) -> dict[str, str]:
    """Labels or annotations as Go reads them: an empty value is one, null is like it."""
    return {key: value or "" for key, value in document.items()} if isinstance(document, Mapping) else {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _without_empty(value: Json) -> Json:
    """Nulls, empty texts, lists and objects removed at every depth; None for what is nothing else."""
    if isinstance(value, Mapping):
        kept_fields = {key: kept for key, inner in value.items() if (kept := _without_empty(inner)) is not None}
        return kept_fields or None
    if isinstance(value, list | tuple):
        return [_without_empty(inner) for inner in value] or None
    return None if value == "" else value
