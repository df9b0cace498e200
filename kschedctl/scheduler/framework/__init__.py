"""The interfaces of scheduler plugins and the values that plugins return. Nodes are rows of numpy arrays.

Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Position, Rows, Scores
from kschedctl.api.objects import AllocationResult, Pod, Struct
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

P = TypeVar("P")
StateT = TypeVar("StateT")
if TYPE_CHECKING:
    import typing_extensions as typed  # type variables with defaults: in typing since Python 3.13

    State_co = typed.TypeVar("State_co", covariant=True, default=object)
    State_contra = typed.TypeVar("State_contra", contravariant=True, default=Any)
    Cycle_contra = typed.TypeVar("Cycle_contra", contravariant=True, default=Any)
else:
    State_co = TypeVar("State_co", covariant=True)
    State_contra = TypeVar("State_contra", contravariant=True)
    Cycle_contra = TypeVar("Cycle_contra", contravariant=True)


class Code(StrEnum):
    """A status code of upstream's framework. The value is upstream's name."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


REJECTIONS = frozenset((Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING))


class PluginError(Exception):
    """The error that a plugin raises to end the cycle with code Error. `str()` is upstream's message."""


class Status(msgspec.Struct, frozen=True):
    """A status code and the reasons for it, in upstream's words."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """True if a pod with this code cannot be scheduled."""
        return self.code in REJECTIONS


SUCCESS = Status()
SKIP = Status(Code.SKIP)


class Rejection(NamedTuple):
    """The nodes that a plugin rejects for one reason.

    A node in several rejections of a plugin gets all their reasons. Its code is UNRESOLVABLE if one of them has this
    code.
    """

    mask: Bools
    """(N,) bool: the rejected nodes."""
    code: Code
    reason: str
    fact: Callable[[int], Fact | str | None] | None = None
    """Return the fact behind the rejection of the node at a row, or plain text if no struct describes it."""
    distance: npt.NDArray[np.float64] | None = None
    """(N,): how far each node is from passing, comparable between the nodes of this rejection."""


class Reads(IntEnum):
    """The data besides the pod on which a plugin's answer about a node depends."""

    NODES = 0
    """The nodes themselves, whatever pods there are."""
    OWN_ROW = 1
    """The node and the total requests of its pods; of the pod, only its requests."""
    PODS = 2
    """Any pod on any node."""


class Peers(IntEnum):
    """The other scored nodes on which a node's score depends."""

    NONE = 0
    """No other node."""
    EXTREMES = 1
    """`normalize` uses only the lowest and the highest raw score, and raw scores depend on no other node."""
    DOMAINS = 2
    """Like EXTREMES, but raw scores depend on how many topology domains `RowScores.count_domains` finds."""
    ALL = 3
    """Every scored node."""


class PreFilterResult(NamedTuple, Generic[State_co]):
    """A PreFilter plugin's answer about a pod."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    """The only nodes that can pass, or None for all nodes."""
    state: State_co | None = None
    """Handed to the plugin's Filter and Reserve, and to its Score if it has no PreScore."""
    reads: Reads | None = None
    """The data that this answer, the verdicts and (without a PreScore) the scores depend on, if less than the plugin
    declares.
    """
    fact: Fact | str | None = None
    """The fact behind a rejection, as in `Rejection.fact`."""
    like: Hashable = None
    """Equal for pods with equal `PodInfo.alike` whose claims get the same answers; None if the answer is specific to
    the claims.
    """


PRE_FILTER_SKIP: PreFilterResult[Never] = PreFilterResult(SKIP, reads=Reads.NODES)


class PreScoreResult(NamedTuple, Generic[State_co]):
    """A PreScore plugin's answer about a pod."""

    state: State_co | None = None
    """Handed to the plugin's Score."""
    skip: bool = False
    """True if the plugin does not score nodes for this pod."""
    reads: Reads | None = None
    """The data that this answer and the scores depend on, if less than the plugin declares."""


PRE_SCORE_SKIP: PreScoreResult[Never] = PreScoreResult(skip=True, reads=Reads.NODES)


class Plugin(Protocol):
    """A plugin, with a name and the methods of any of the extension points below.

    It has arguments, but keeps no state of a scheduling cycle. Its attribute `reads` declares what its answers depend
    on, by default Reads.PODS. Answers that do not depend on pods are reused in dry runs that add or remove pods, and
    after pods moved.
    """

    name: str


def get_answer_dependency(plugin: Plugin, result: PreFilterResult | PreScoreResult | None = None) -> Reads:
    """Return the data on which a plugin's answers depend.

    If the plugin's `result` for a pod declares that data, the result takes precedence over the plugin's own
    declaration. A plugin that declares nothing may read all pods.
    """
    if result is not None and result.reads is not None:
        return result.reads
    reads: Reads = getattr(plugin, "reads", Reads.PODS)
    return reads


def get_peers(plugin: Plugin) -> Peers:
    """Return the other nodes that a plugin's score of a node depends on.

    A plugin that declares no peers may depend on all nodes.
    """
    peers: Peers = getattr(plugin, "peers", Peers.ALL)
    return peers


def counts_pods_elsewhere(plugin: Plugin) -> bool:
    """Return whether a plugin declares that its filter counts pods on other nodes."""
    return getattr(plugin, "counts_pods_elsewhere", False)


def can_more_pods_help(plugin: Plugin, info: PodInfo) -> bool:
    """Return whether a plugin declares that its filter may stop rejecting a node when pods are added to the cluster."""
    declared_method = getattr(plugin, "can_more_pods_help", None)
    return declared_method is not None and declared_method(info)


def looks_at_own_pods(plugin: Plugin) -> bool:
    """Return whether a plugin declares that its filter looks at no pods but the node's own."""
    return getattr(plugin, "looks_at_own_pods", False)


def looks_at_cordons(plugin: Plugin) -> bool:
    """Return whether a plugin declares that its filter may reject a node only because of the node's cordon."""
    return getattr(plugin, "looks_at_cordons", False)


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """A plugin that decides whether a pod may enter the active queue."""

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success if the pod may enter the active queue."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol[State_co]):
    """A plugin that examines a pod once, before nodes are filtered."""

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[State_co]:
        """Examine the pod before nodes are filtered. Raises PluginError if a plugin fails."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol[State_contra]):
    """A plugin that rejects nodes."""

    def filter(self, info: PodInfo, view: Fork, state: State_contra | None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes that cannot run the pod, after the changes that `delta` describes.

        `state` comes from the PreFilter result, or is None if the plugin has no PreFilter. Raises PluginError if a
        plugin fails.
        """


@runtime_checkable
class PreScorePlugin(Plugin, Protocol[State_co]):
    """A plugin that prepares scoring."""

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[State_co]:
        """Return the state for scoring the feasible `rows`. Raises PluginError if a plugin fails."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol[State_contra]):
    """A plugin that scores nodes."""

    def score(self, info: PodInfo, view: Fork, state: State_contra | None, rows: Rows) -> Scores:
        """Return the raw int64 score of each feasible row.

        `state` comes from PreScore, or from PreFilter if the plugin has no PreScore. The state is None if the profile
        disables that extension point. Raises PluginError if a plugin fails.
        """

    def normalize(self, state: State_contra | None, scores: Scores) -> Scores:
        """Return the int64 scores scaled to 0 to 100. The scores stay unchanged if upstream has no NormalizeScore."""


@runtime_checkable
class PodCountingScorePlugin(ScorePlugin[State_contra], Protocol[State_contra]):
    """A plugin whose scores of a pod, if any, change as pods move."""

    def may_score(self, info: PodInfo, view: Fork) -> bool:
        """Return whether PreScore could let the pod be scored, either now or after pods have moved.

        The answer is found without counting pods. Raises PluginError if PreScore would raise it.
        """


_IMPLEMENTS: dict[tuple[type, type], bool] = {}
"""(plugin class, protocol) -> whether the class implements the protocol."""


def offers(plugin: object, point: type[P]) -> TypeGuard[P]:
    """Return whether a plugin implements an extension point, given as its protocol. The result is cached per class."""
    key = type(plugin), point
    if key not in _IMPLEMENTS:
        _IMPLEMENTS[key] = isinstance(plugin, point)
    return _IMPLEMENTS[key]


def scores_with_pre_filter_state(plugin: Plugin) -> bool:
    """Return whether the plugin's Score gets the state of its PreFilter if its PreScore did not run."""
    return not offers(plugin, PreScorePlugin) or getattr(plugin, "one_state", False)


class PostFilterResult(msgspec.Struct, frozen=True):
    """A PostFilter plugin's answer. With status Success the pod may fit on `nominated_node` later."""

    status: Status
    nominated_node: str = ""
    report: object = None
    """The plugin's own account of what it tried, for explain and other commands."""


class Sortable(Protocol):
    """A value that can be compared with `<`."""

    def __lt__(self, other: Never, /) -> bool: ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """A plugin that orders the active queue."""

    def sort_keys(self, view: Fork, positions: Sequence[Position]) -> Sequence[Sortable]:
        """Return a sort key for each pod. The pod with the smallest key comes first.

        `positions` are in order of creation.
        """


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol[Cycle_contra]):
    """A plugin that tries to make room for a pod that no node can run."""

    def post_filter(self, cycle: Cycle_contra) -> PostFilterResult:
        """Try to make room for the pod of a finished `Cycle` without feasible nodes.

        Raises PluginError if a plugin fails.
        """


Changes = Mapping[str, Sequence[Struct]]
"""Kind -> objects that replace those of the same name."""


class Reservation(msgspec.Struct, frozen=True):
    """The objects that a plugin would reserve for a pod on one node."""

    bindings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Claim -> the PersistentVolume that it would be bound to."""
    provisions: tuple[str, ...] = ()
    """The claims for which a volume would be provisioned."""
    allocations: Mapping[str, AllocationResult] = msgspec.field(default_factory=dict)
    """ResourceClaim -> the devices that it would be allocated."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol[State_contra]):
    """A plugin that reserves objects for a pod on its node.

    `state` comes from the PreFilter result, or is None if the plugin has no PreFilter or skips the pod.
    """

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: State_contra | None) -> Changes:
        """Return the objects that change when `pod` gets the node. `info` describes the pod's spec.

        Raises PluginError if a plugin fails.
        """

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """Return the objects that change when the pods at `positions` leave their nodes."""

    def reservation(self, info: PodInfo, view: Fork, row: int, state: State_contra | None) -> Reservation:
        """Return the objects that would be reserved on a feasible node."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """A plugin that decides whether an assumed pod may be bound."""

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        """Return Success, Wait or a rejection for a pod that was assumed on the node at `row`.

        After Wait, the pod waits for the number of seconds in the plugin's attribute `permit_timeout`, or for
        upstream's maximum of 15 minutes without the attribute. The other pods of its group are already on their nodes.
        Raises PluginError if a plugin fails.
        """


@runtime_checkable
class AssumingPlugin(ReservePlugin[State_contra], Protocol[State_contra]):
    """A Reserve plugin that leaves part of its work to PreBind."""

    def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: State_contra | None) -> Changes:
        """Return the objects as they are assumed between Reserve and PreBind. The arguments are as for `reserve`."""


Fragment = Mapping[str, object]
"""A plugin's part of the signature of a pod."""


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """A plugin that gives the same answers for pods with the same signature."""

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return the parts of the pod that the answers depend on, or None if the pod is comparable with no other."""


class UpstreamFault(NamedTuple):
    """A bug of upstream that a plugin reproduces."""

    text: str
    """One line that describes the bug."""
    plugin_without_fault: Plugin | None
    """The plugin without the bug; None if upstream crashes and the plugin gives the intended answer."""


@runtime_checkable
class FaultyPlugin(Plugin, Protocol[Cycle_contra]):
    """A plugin that reproduces a bug of upstream."""

    def find_upstream_fault(self, cycle: Cycle_contra) -> UpstreamFault | None:
        """Return the bug if it may affect the pod of a finished `Cycle`, otherwise None."""


def can_report_upstream_fault(plugin: object) -> TypeGuard[FaultyPlugin]:
    """Return whether the plugin can report a bug of upstream."""
    return offers(plugin, FaultyPlugin)


class PluginVerdict(msgspec.Struct, frozen=True):
    """One plugin's Filter answers for all N nodes."""

    rejected: Bools
    """(N,) bool: nodes that the plugin rejects."""
    unresolvable: Bools
    """(N,) bool: nodes rejected with UnschedulableAndUnresolvable."""
    failed: Bools
    """(N,) bool: nodes on which the plugin returned an error."""
    rejections: tuple[Rejection, ...] = ()
    """The rejections that apply to at least one node."""

    @classmethod
    def from_rejections(cls, rejections: Iterator[Rejection], node_count: int) -> PluginVerdict:
        """Combine a plugin's rejections into masks over all nodes. Rejections that cover no node are dropped."""
        effective = tuple(r for r in rejections if r.mask.any())
        rejected = np.zeros(node_count, np.bool_)
        unresolvable = np.zeros(node_count, np.bool_)
        failed = np.zeros(node_count, np.bool_)
        for rejection in effective:
            rejected |= rejection.mask
            if rejection.code is Code.UNRESOLVABLE:
                unresolvable |= rejection.mask
            elif rejection.code is Code.ERROR:
                failed |= rejection.mask
        return cls(rejected, unresolvable, failed, effective)

    def get_status(self, row: int) -> Status:
        """Return the plugin's status for the node at `row`, with the worst code and all reasons of its rejections."""
        if not self.rejected[row]:
            return SUCCESS
        if self.failed[row]:
            code = Code.ERROR
        elif self.unresolvable[row]:
            code = Code.UNRESOLVABLE
        else:
            code = Code.UNSCHEDULABLE
        return Status(code, tuple(r.reason for r in self.rejections if r.mask[row]))


def require_state(state: StateT | None, message: str) -> StateT:
    """Return the state, or raise PluginError with the message if the state is None.

    The state is None if a profile enables an extension point without the extension point that prepares its state.
    """
    if state is None:
        raise PluginError(message)
    return state


@runtime_checkable
class CordonRejectingPlugin(Plugin, Protocol):
    """A plugin that rejects cordoned nodes."""

    def rejects_cordoned(self, info: PodInfo) -> bool:
        """Return whether Filter rejects every cordoned node for the pod."""


@runtime_checkable
class CordonDependentPlugin(Plugin, Protocol):
    """A plugin whose answers about other nodes may change when a node is cordoned."""

    def depends_on_cordons(self, info: PodInfo) -> bool:
        """Return whether cordoning a node changes the answers about other nodes."""


def does_cordon_affect_only_its_node(filters: Sequence[Plugin], scorers: Sequence[Plugin], info: PodInfo) -> bool:
    """Return whether cordoning a node has no effect on the pod other than to exclude that node.

    One of the `filters` must reject cordoned nodes for the pod, and no plugin may look at cordons in any other way. The
    result is valid for in-tree plugins only.
    """
    if not any(offers(plugin, CordonRejectingPlugin) and plugin.rejects_cordoned(info) for plugin in filters):
        return False
    return not any(
        offers(plugin, CordonDependentPlugin) and plugin.depends_on_cordons(info) for plugin in (*filters, *scorers)
    )
