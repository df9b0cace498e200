"""What a plugin is, and what it answers: the extension points of the scheduling framework over columns of nodes.

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
Left = TypeVar("Left")
if TYPE_CHECKING:
    import typing_extensions as typed  # type variables with defaults: in typing since Python 3.13

    State_co = typed.TypeVar("State_co", covariant=True, default=object)
    Given_contra = typed.TypeVar("Given_contra", contravariant=True, default=Any)
    Cycle_contra = typed.TypeVar("Cycle_contra", contravariant=True, default=Any)
else:
    State_co = TypeVar("State_co", covariant=True)
    Given_contra = TypeVar("Given_contra", contravariant=True)
    Cycle_contra = TypeVar("Cycle_contra", contravariant=True)


class Code(StrEnum):
    """Upstream's status codes, by their names."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


REJECTIONS = frozenset((Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING))


class PluginError(Exception):
    """A plugin's answer with code Error: the cycle cannot go on. ``str()`` is upstream's wording."""


class Status(msgspec.Struct, frozen=True):
    """A code and the reasons for it, in the scheduler's words."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        return self.code in REJECTIONS


SUCCESS = Status()
SKIP = Status(Code.SKIP)


class Rejection(NamedTuple):
    """Nodes that a plugin refuses for one reason.

    ``mask`` (N,). A node for which a plugin yields several gets all the reasons, and the code UNRESOLVABLE if one of
    them has it. ``fact(row)`` gives what stands behind it on that node, words alone where there is no struct for it;
    ``distance`` (N,) how far each node is from passing, comparable between the nodes of one reason.
    """

    mask: Bools
    code: Code
    reason: str
    fact: Callable[[int], Fact | str | None] | None = None
    distance: npt.NDArray[np.float64] | None = None


class Reads(IntEnum):
    """What a plugin's answer about a node depends on besides the pod: the less, the longer the answer holds.

    NODES: nodes as they are, whatever pods there are. OWN_ROW: besides that what the node's own pods request together,
    and of the pod only what it requests. PODS: any pod, anywhere.
    """

    NODES = 0
    OWN_ROW = 1
    PODS = 2


class Peers(IntEnum):
    """What a node's score depends on besides the node: on which nodes are scored with it.

    NONE: on none of them. EXTREMES: ``normalize`` looks at the least and the greatest raw score, and at no state; raw
    scores depend on none. DOMAINS: the same, but that raw scores depend on how many domains the nodes are in, as the
    plugin's ``among`` tells. ALL: on any of them.
    """

    NONE = 0
    EXTREMES = 1
    DOMAINS = 2
    ALL = 3


class PreFilterResult(NamedTuple, Generic[State_co]):
    """``node_names`` are the only nodes worth a look (None: all); ``state`` is handed to the plugin's Filter and
    Reserve, and to its Score if it has no PreScore.

    ``reads``: what this answer about the pod and those that follow depend on, where it is less than the plugin says of
    itself; also its scores if it has no PreScore. ``fact`` is what stands behind a refusal, as that
    of a Rejection. ``like``: equal for pods alike (see PodInfo.alike) of whose claims the same is said while no claim
    changes; None where it is about the very claims.
    """

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    state: State_co | None = None
    reads: Reads | None = None
    fact: Fact | str | None = None
    like: Hashable = None


PRE_FILTER_SKIP: PreFilterResult[Never] = PreFilterResult(SKIP, reads=Reads.NODES)


class PreScoreResult(NamedTuple, Generic[State_co]):
    """``state`` is handed to the plugin's Score; with ``skip`` the plugin does not score this pod at all.

    ``reads``: what this answer and the scores depend on, where it is less than the plugin says of itself.
    """

    state: State_co | None = None
    skip: bool = False
    reads: Reads | None = None


PRE_SCORE_SKIP: PreScoreResult[Never] = PreScoreResult(skip=True, reads=Reads.NODES)


class Plugin(Protocol):
    """A plugin is a name and any of the extension points below. It holds its arguments, and no state of a cycle.

    Its attribute ``reads`` says what its answers depend on, Reads.PODS where it has none: answers that do not depend on
    pods hold under a hypothesis about them, and after they moved.
    """

    name: str


def reads_of(plugin: Plugin, result: PreFilterResult | PreScoreResult | None = None) -> Reads:
    """What a plugin's answers depend on, about a pod of which it said ``result``."""
    if result is not None and result.reads is not None:
        return result.reads
    reads: Reads = getattr(plugin, "reads", Reads.PODS)
    return reads


def peers_of(plugin: Plugin) -> Peers:
    """What a plugin's score of a node depends on; on anything, where it does not say."""
    peers: Peers = getattr(plugin, "peers", Peers.ALL)
    return peers


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Whether the pod may enter the active queue."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol[State_co]):
    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[State_co]:
        """What of the pod alone can be known before looking at nodes. Raises PluginError."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol[Given_contra]):
    def filter(self, info: PodInfo, view: Fork, state: Given_contra | None, delta: Delta) -> Iterator[Rejection]:
        """The nodes that cannot run the pod, each node judged under its own part of the hypothesis ``delta``.

        ``state`` is what ``pre_filter`` left, None where the plugin has none. Raises PluginError.
        """


@runtime_checkable
class PreScorePlugin(Plugin, Protocol[State_co]):
    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[State_co]:
        """What scoring the feasible ``rows`` (F,) needs. Raises PluginError."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol[Given_contra]):
    def score(self, info: PodInfo, view: Fork, state: Given_contra | None, rows: Rows) -> Scores:
        """(F,) int64: the raw score of each feasible row.

        ``state`` is what ``pre_score`` left, or ``pre_filter`` where the plugin has no PreScore; None where a profile
        disables that point. Raises PluginError.
        """

    def normalize(self, state: Given_contra | None, scores: Scores) -> Scores:
        """(F,) int64 in 0..100. Plugins without upstream's NormalizeScore return the scores unchanged."""


_OFFERS: dict[tuple[type, type], bool] = {}


def offers(plugin: object, point: type[P]) -> TypeGuard[P]:
    """Whether a plugin runs at an extension point, given as its protocol. Looked up once for each class of plugins."""
    key = type(plugin), point
    if key not in _OFFERS:
        _OFFERS[key] = isinstance(plugin, point)
    return _OFFERS[key]


def scores_by_pre_filter(plugin: Plugin) -> bool:
    """Whether what its PreFilter left is handed to the plugin's Score where no PreScore of it ran."""
    return not offers(plugin, PreScorePlugin) or getattr(plugin, "one_state", False)


class PostFilterResult(msgspec.Struct, frozen=True):
    """What a PostFilter plugin could do: with ``status`` Success the pod has hope on ``nominated_node``.

    ``report`` is the plugin's own account of it, for the studies.
    """

    status: Status
    nominated_node: str = ""
    report: object = None


class Sortable(Protocol):
    def __lt__(self, other: Never, /) -> bool: ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_keys(self, view: Fork, positions: Sequence[Position]) -> Sequence[Sortable]:
        """A key for each pod, given in the order in which they came: the smallest is tried first."""


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol[Cycle_contra]):
    def post_filter(self, cycle: Cycle_contra) -> PostFilterResult:
        """What could be done for a pod that fits nowhere, given its finished ``Cycle``. Raises PluginError."""


Changes = Mapping[str, Sequence[Struct]]
"""Kind -> objects that take the place of those of their name."""


class Reservation(msgspec.Struct, frozen=True):
    """What a plugin would reserve for a pod on one node.

    ``bindings``: claim -> the PersistentVolume to bind it to; ``provisions``: the claims to make a volume for;
    ``allocations``: ResourceClaim -> the devices that it would be allocated.
    """

    bindings: Mapping[str, str] = msgspec.field(default_factory=dict)
    provisions: tuple[str, ...] = ()
    allocations: Mapping[str, AllocationResult] = msgspec.field(default_factory=dict)


@runtime_checkable
class ReservePlugin(Plugin, Protocol[Given_contra]):
    """``state`` is what ``pre_filter`` left, None where the plugin has none or skips the pod."""

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: Given_contra | None) -> Changes:
        """The objects as they are once a pod, which asks for what ``info`` does, is on a node. Raises PluginError."""

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """The objects as they are once pods, by their positions, that had a node are gone."""

    def reservation(self, info: PodInfo, view: Fork, row: int, state: Given_contra | None) -> Reservation:
        """What would be reserved on a node that passes."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        """Whether a pod that gets this row may be bound there: Success, Wait or a refusal.

        It waits for as many seconds as the plugin's attribute ``permit_timeout`` says, without one as upstream allows,
        15 minutes. Of a group the pods are on their rows by now. Raises PluginError.
        """


@runtime_checkable
class AssumingPlugin(ReservePlugin[Given_contra], Protocol[Given_contra]):
    """One whose Reserve leaves a part to PreBind."""

    def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: Given_contra | None) -> Changes:
        """The objects as the plugin takes them to be between Reserve and PreBind; as ``reserve`` else."""


Fragment = Mapping[str, object]
"""What a plugin adds to the signature of a pod."""


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """One whose answers are the same for pods with the same signature."""

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """What of the pod its answers depend on; None for a pod that cannot be compared with others."""


class UpstreamFault(NamedTuple):
    """A fault of upstream's own that a plugin repeats: ``text`` tells it in a line.

    ``without``: the plugin as it should be; None where upstream crashes, and the answer is what it should be.
    """

    text: str
    without: Plugin | None


@runtime_checkable
class FaultyPlugin(Plugin, Protocol[Cycle_contra]):
    def upstream_fault(self, cycle: Cycle_contra) -> UpstreamFault | None:
        """The fault, where it may concern the pod of a finished ``Cycle``."""


def has_upstream_fault(plugin: object) -> TypeGuard[FaultyPlugin]:
    """Whether the plugin repeats a fault of upstream."""
    return offers(plugin, FaultyPlugin)


class PluginVerdict(msgspec.Struct, frozen=True):
    """What one plugin's Filter said of all nodes, (N,): whether refused, for good, or by an error; and why."""

    refused: Bools
    unresolvable: Bools
    failed: Bools
    rejections: tuple[Rejection, ...] = ()

    @classmethod
    def of(cls, rejections: Iterator[Rejection], nodes: int) -> PluginVerdict:
        refusing = tuple(r for r in rejections if r.mask.any())
        refused = np.zeros(nodes, np.bool_)
        unresolvable = np.zeros(nodes, np.bool_)
        failed = np.zeros(nodes, np.bool_)
        for rejection in refusing:
            refused |= rejection.mask
            if rejection.code is Code.UNRESOLVABLE:
                unresolvable |= rejection.mask
            elif rejection.code is Code.ERROR:
                failed |= rejection.mask
        return cls(refused, unresolvable, failed, refusing)

    def status(self, row: int) -> Status:
        """The plugin's status for one node."""
        if not self.refused[row]:
            return SUCCESS
        code = Code.UNRESOLVABLE if self.unresolvable[row] else Code.UNSCHEDULABLE
        code = Code.ERROR if self.failed[row] else code
        return Status(code, tuple(r.reason for r in self.rejections if r.mask[row]))


def required_state(state: Left | None, words: str) -> Left:
    """The state, or PluginError, in upstream's words, when a profile runs a point without the one that prepares it."""
    if state is None:
        raise PluginError(words)
    return state
