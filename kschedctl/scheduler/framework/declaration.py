"""What a plugin says of itself on its class, before one is made of it.

Profiles, their arguments, what is read of a cluster and what is not replayed follow from this, for in-tree plugins and
for those of other packages alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

import msgspec

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.copying import replace
from kschedctl.api.kube_version import OLDEST_MINOR, ByVersion
from kschedctl.api.objects import Pod, Struct
from kschedctl.scheduler.framework import (
    Changes,
    Peers,
    Plugin,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Reservation,
)
from kschedctl.scheduler.framework.extension_points import points_by_methods
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.scheduler.framework.pod_traits import PodTrait
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView
from kschedctl.snapshot.pod_info import PodInfo

NEVER = 0
"""``default_until`` of a plugin that is a default in no version."""

Factory = Callable[[object, FeatureGates], Plugin | None]
"""Makes a plugin of its arguments in a profile and the feature gates; None where what these say is not replayed."""


class NextStep(NamedTuple):
    """Where people look next when a plugin is the cause; ``{node}`` in the text is the node closest to fitting."""

    kind: str
    text: str


if TYPE_CHECKING:
    import typing_extensions as typed  # type variables with defaults: in typing since Python 3.13

    ForFilter = typed.TypeVar("ForFilter", default=None)
    ForScore = typed.TypeVar("ForScore", default=None)
else:
    ForFilter = TypeVar("ForFilter")
    ForScore = TypeVar("ForScore")


class DeclaredPlugin(Generic[ForFilter, ForScore]):
    """A plugin that says what there is to know before it is made; what it leaves out is as below.

    ``ForFilter``: the state that its PreFilter leaves to its Filter and Reserve; ``ForScore``: what its Score gets,
    from its PreScore or, where it has none, its PreFilter. Both are None where they are not given: no such state.

    ``reads``: what its answers depend on; what it answers may narrow it further. One of a node's own row derives from
    OwnRowPlugin.
    ``peers``: which of the nodes that are scored with a node its score depends on.
    ``points``: the extension points at which it runs besides those whose methods it has.
    ``facts``: what may stand behind its refusals, where that is not told in words alone.
    ``default_weight``: of its scores, in a profile that says nothing of it; None where it does not score by default.
    ``gate``: the feature gate without which it is no default plugin.
    ``kinds``: the kinds of objects that it looks at besides nodes, pods and namespaces; those in ``gated_kinds`` only
    with the feature gate that a version has for this, if it has one; ``kinds_matter_to``: only where some pod has this
    trait.
    ``args_type``: its arguments; None where it has none.
    ``args_since``: the first minor version in which it has arguments.
    ``replayed_since``: the first minor version of which it is replayed what it does; up to then it is but known.
    ``since``, ``until``: the first and the last minor version of Kubernetes that has it; ``default_until``: the last
    in which it is a default plugin, NEVER for none; ``points_since``: the first in which it runs at a point, where that
    came later.
    ``hints_since``: the first in which its queueing hints count.
    ``needs_state``: extension point -> the one that has to run as well, as it prepares what the first looks at.
    ``one_state``: what its Score looks at is what its PreFilter left, though it has a PreScore.
    ``without``: what happens where a profile disables it. ``takes_less_time``: what shortens its part of an attempt.
    ``next_step``: where to look when it refuses all nodes, ``next_step_within_reach``: only those that nothing else
    keeps the pod from. ``changed``: its rules and texts that are not the same in all versions.
    """

    name: str
    reads: Literal[Reads.NODES, Reads.PODS] = Reads.PODS
    peers: Peers = Peers.ALL
    points: ClassVar[tuple[str, ...]] = ()
    facts: ClassVar[tuple[type[Fact], ...]] = ()
    default_weight: ClassVar[int | None] = None
    gate: ClassVar[str | None] = None
    kinds: ClassVar[tuple[str, ...]] = ()
    gated_kinds: ClassVar[Mapping[str, ByVersion[str]]] = {}
    kinds_matter_to: ClassVar[PodTrait | None] = None
    args_type: ClassVar[type[Struct] | None] = None
    since: ClassVar[int] = OLDEST_MINOR
    until: ClassVar[int | None] = None
    default_until: ClassVar[int | None] = None
    points_since: ClassVar[Mapping[str, int]] = {}
    args_since: ClassVar[int] = OLDEST_MINOR
    replayed_since: ClassVar[int] = OLDEST_MINOR
    hints_since: ClassVar[int] = OLDEST_MINOR
    needs_state: ClassVar[Mapping[str, str]] = {}
    one_state: ClassVar[bool] = False
    without: ClassVar[str] = ""
    takes_less_time: ClassVar[str] = ""
    next_step: ClassVar[NextStep | None] = None
    next_step_within_reach: ClassVar[NextStep | None] = None
    changed: ClassVar[tuple[ByVersion[object], ...]] = ()

    @classmethod
    def version_changes(cls) -> tuple[ByVersion[object], ...]:
        """``changed``, and what stands in modules that are not loaded before they are needed."""
        return cls.changed

    @classmethod
    def noted_changes(cls) -> tuple[NotedChange, ...]:
        """Changes that release notes alone tell, with the pods that they concern."""
        return ()

    @classmethod
    def make(cls, args: Any, gates: FeatureGates) -> Self | None:
        """The plugin of a profile, from its arguments there (None where it has none) and the feature gates.

        None where what the arguments say is not replayed.
        """
        return cls()

    if TYPE_CHECKING:  # so that type checkers see that what one point leaves is what the others get

        def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[ForFilter]: ...

        def filter(self, info: PodInfo, view: Fork, state: ForFilter | None, delta: Delta) -> Iterator[Rejection]: ...

        def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[ForScore]: ...

        def score(self, info: PodInfo, view: Fork, state: ForScore | None, rows: Rows) -> Scores: ...

        def normalize(self, state: ForScore | None, scores: Scores) -> Scores: ...

        def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: ForFilter | None) -> Changes: ...

        def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: ForFilter | None) -> Changes: ...

        def reservation(self, info: PodInfo, view: Fork, row: int, state: ForFilter | None) -> Reservation: ...


PluginClass = type[DeclaredPlugin[Any, Any]]


class OwnRowPlugin(DeclaredPlugin[ForFilter, ForScore]):
    """One whose answer about a node depends on that node's row alone; it is shown some of the nodes by themselves."""

    def room_helps(self, view: Fork) -> bool:
        """Whether its Filter lets pass each node without some of its pods that it lets pass with them."""
        return False

    reads: Literal[Reads.OWN_ROW] = Reads.OWN_ROW  # type: ignore[assignment]  # it is shown less, and says so in its types

    if TYPE_CHECKING:  # so that one which looks at a whole Fork is refused by type checkers

        def pre_filter(self, info: PodInfo, view: NodeView) -> PreFilterResult[ForFilter]: ...

        def filter(
            self, info: PodInfo, view: NodeView, state: ForFilter | None, delta: Delta
        ) -> Iterator[Rejection]: ...

        def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[ForScore]: ...

        def score(self, info: PodInfo, view: NodeView, state: ForScore | None, rows: Rows) -> Scores: ...


class Declaration(msgspec.Struct, frozen=True):
    """What one plugin declares, with all its extension points. ``make`` is None for one that is not replayed.

    ``plugin``: the class that says it, None where there is none.
    """

    name: str
    points: frozenset[str]
    default_weight: int | None = None
    gate: str | None = None
    kinds: tuple[str, ...] = ()
    gated_kinds: Mapping[str, ByVersion[str]] = msgspec.field(default_factory=dict)
    kinds_matter_to: PodTrait | None = None
    args_type: type[Struct] | None = None
    make: Factory | None = None
    since: int = OLDEST_MINOR
    until: int | None = None
    default_until: int | None = None
    points_since: Mapping[str, int] = msgspec.field(default_factory=dict)
    args_since: int = OLDEST_MINOR
    replayed_since: int = OLDEST_MINOR
    plugin: PluginClass | None = None

    @classmethod
    def of(cls, plugin: PluginClass) -> Declaration:
        return cls(
            name=plugin.name,
            points=points_by_methods(plugin).union(plugin.points),
            default_weight=plugin.default_weight,
            gate=plugin.gate,
            kinds=plugin.kinds,
            gated_kinds=plugin.gated_kinds,
            kinds_matter_to=plugin.kinds_matter_to,
            args_type=plugin.args_type,
            make=plugin.make,
            since=plugin.since,
            until=plugin.until,
            default_until=plugin.default_until,
            points_since=plugin.points_since,
            args_since=plugin.args_since,
            replayed_since=plugin.replayed_since,
            plugin=plugin,
        )

    def at(self, minor: int) -> Declaration | None:
        """What it is in a minor version, None in one that does not have it."""
        if not self.since <= minor <= (self.until or minor):
            return None
        points = frozenset(point for point in self.points if minor >= self.points_since.get(point, minor))
        args_type = self.args_type if minor >= self.args_since else None
        make = self.make if minor >= self.replayed_since else None
        same = points == self.points and args_type is self.args_type and make is self.make
        return self if same else replace(self, points=points, args_type=args_type, make=make)

    def is_default(self, gates: FeatureGates) -> bool:
        """Whether a profile that names no plugins has it."""
        minor = gates.release.version_for(f"plugin {self.name}").minor
        last = minor if self.default_until is None else self.default_until
        return minor <= last and (self.gate is None or gates.enabled(self.gate))

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The kinds that it looks at when every gate is on."""
        return (*self.kinds, *self.gated_kinds)
