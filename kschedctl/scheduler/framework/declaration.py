"""Base classes of plugins, and the declarations of a plugin class: its extension points, kinds of objects and versions.

Profiles, plugin arguments, the kinds to read from a cluster and the support of versions follow from these declarations,
for in-tree plugins and for those of other packages alike. Upstream of the extension points:
pkg/scheduler/framework/runtime/framework.go (v1.36: getExtensionPoints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

import msgspec

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.copying import replace
from kschedctl.api.kube_version import OLDEST_MINOR, ByVersion
from kschedctl.api.objects import Pod, PodSpec, Struct, Volume
from kschedctl.api.resource_names import is_dra_extended
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
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates
from kschedctl.scheduler.framework.version_changes import NotedChange
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, NodeView
from kschedctl.snapshot.pod_info import PodInfo

NEVER = 0
"""Value of `default_until` for a plugin that is a default in no version."""

Factory = Callable[[object, FeatureGates], Plugin | None]
"""Builds a plugin from its arguments in a profile and the feature gates; None if these arguments are not replayed."""


class NextStep(NamedTuple):
    """The command or object to look at next if a plugin rejected the pod. `{node}` in the text is the closest node."""

    kind: str
    text: str
    text_without_claim: str = ""
    """The text if the plugin's fact names no PersistentVolumeClaim; empty if the step is not about a claim."""


if TYPE_CHECKING:
    import typing_extensions as typed  # type variables with defaults: in typing since Python 3.13

    FilterState = typed.TypeVar("FilterState", default=None)
    ScoreState = typed.TypeVar("ScoreState", default=None)
else:
    FilterState = TypeVar("FilterState")
    ScoreState = TypeVar("ScoreState")


class DeclaredPlugin(Generic[FilterState, ScoreState]):
    """Base class of plugins, with the attributes by which a plugin declares its properties.

    `FilterState` is the type of the state that PreFilter passes to Filter and Reserve. `ScoreState` is the type of the
    state that Score gets from PreScore or, without a PreScore, from PreFilter. Both default to None, meaning no state.
    """

    name: str
    reads: Literal[Reads.NODES, Reads.PODS] = Reads.PODS
    """The data that its answers depend on; an answer may narrow it. OwnRowPlugin is the base for Reads.OWN_ROW."""
    peers: Peers = Peers.ALL
    """The other scored nodes on which the score of a node depends."""
    points: ClassVar[tuple[str, ...]] = ()
    """Extension points at which it runs, in addition to those whose methods it has."""
    facts: ClassVar[tuple[type[Fact], ...]] = ()
    """The types of facts behind its rejections."""
    default_weight: ClassVar[int | None] = None
    """Weight of its scores in the default profile; None if it does not score by default."""
    gate: ClassVar[str | None] = None
    """The feature gate that makes it a default plugin; None if it does not depend on one."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of objects that it reads, besides nodes, pods and namespaces."""
    gated_kinds: ClassVar[Mapping[str, ByVersion[str]]] = {}
    """Kind that it reads only with a feature gate -> that gate, by version."""
    kinds_matter_to: ClassVar[PodTrait | None] = None
    """If set, `kinds` matter only if some pod has this trait."""
    args_type: ClassVar[type[Struct] | None] = None
    """Type of its arguments; None if it has none."""
    since: ClassVar[int] = OLDEST_MINOR
    """First minor version that has the plugin."""
    until: ClassVar[int | None] = None
    """Last minor version that has the plugin."""
    default_until: ClassVar[int | None] = None
    """Last minor version in which it is a default plugin, or NEVER."""
    points_since: ClassVar[Mapping[str, int]] = {}
    """Extension point -> first minor version in which the plugin runs there, if later than `since`."""
    args_since: ClassVar[int] = OLDEST_MINOR
    """First minor version in which it has arguments."""
    replayed_since: ClassVar[int] = OLDEST_MINOR
    """First minor version whose behavior is replayed; in older ones only the name is accepted."""
    hints_since: ClassVar[int] = OLDEST_MINOR
    """First minor version in which its queueing hints count."""
    needs_state: ClassVar[Mapping[str, str]] = {}
    """Extension point -> the one that must be enabled as well because it prepares the state."""
    one_state: ClassVar[bool] = False
    """True if its Score uses the state of PreFilter although it has a PreScore."""
    counts_pods_elsewhere: ClassVar[bool] = False
    """True if its filter counts pods on other nodes, so that a rejection says little about the node itself."""
    looks_at_own_pods: ClassVar[bool] = False
    """True if its filter looks at no pods but the node's own, although `reads` has no value for that."""
    looks_at_cordons: ClassVar[bool] = False
    """True if its filter may reject a node only because of the node's cordon."""
    without: ClassVar[str] = ""
    """The consequence of disabling the plugin in a profile, as a clause."""
    takes_less_time: ClassVar[str] = ""
    """A change that would make its part of a scheduling attempt faster."""
    next_step: ClassVar[NextStep | None] = None
    """The step to take next if it rejects all nodes."""
    next_step_within_reach: ClassVar[NextStep | None] = None
    """The step to take next if it rejects all nodes that nothing else rejects."""
    fixes: ClassVar[str] = ""
    """The module of kschedctl/fixes/ways/ that proposes fixes for its rejections; empty if none does."""
    changed: ClassVar[tuple[ByVersion[object], ...]] = ()
    """Its rules and messages that differ between versions."""

    @classmethod
    def list_version_changes(cls) -> tuple[ByVersion[object], ...]:
        """Return the plugin's rules that differ between versions.

        A plugin overrides this method if some rules are declared in modules that are loaded only when needed.
        """
        return cls.changed

    @classmethod
    def list_noted_changes(cls) -> tuple[NotedChange, ...]:
        """Return the changes that are known only from release notes, with the pods that they affect.

        By default, there are no such changes.
        """
        return ()

    @classmethod
    def make(cls, args: Any, gates: FeatureGates) -> Self | None:
        """Build the plugin for a profile, or return None if these arguments are not replayed.

        `args` are the plugin's arguments in the profile, or None if it has none.
        """
        return cls()

    def can_more_pods_help(self, info: PodInfo) -> bool:
        """Return whether Filter may stop rejecting a node once pods are added. By default, it never does."""
        return False

    if TYPE_CHECKING:  # lets type checkers compare the state that one extension point returns with what others accept

        def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[FilterState]:
            """Examine the pod before nodes are filtered, and return the state for `filter`."""

        def filter(self, info: PodInfo, view: Fork, state: FilterState | None, delta: Delta) -> Iterator[Rejection]:
            """Yield the rejections of nodes that cannot run the pod."""

        def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[ScoreState]:
            """Return the state for scoring the feasible rows."""

        def score(self, info: PodInfo, view: Fork, state: ScoreState | None, rows: Rows) -> Scores:
            """Return the raw score of each feasible row."""

        def normalize(self, state: ScoreState | None, scores: Scores) -> Scores:
            """Return the scores scaled to 0..100."""

        def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: FilterState | None) -> Changes:
            """Return the objects that change when the pod gets the node at `row`."""

        def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: FilterState | None) -> Changes:
            """Return the objects as they are assumed between Reserve and PreBind."""

        def reservation(self, info: PodInfo, view: Fork, row: int, state: FilterState | None) -> Reservation:
            """Return the objects that would be reserved on the node at `row`."""


PluginClass = type[DeclaredPlugin[Any, Any]]


class OwnRowPlugin(DeclaredPlugin[FilterState, ScoreState]):
    """A plugin whose answer about a node depends only on the node's row.

    Such a plugin may be run on part of the nodes.
    """

    def can_evictions_only_help(self, view: Fork) -> bool:
        """Return whether removing pods from a node never makes Filter reject it. By default, it may."""
        return False

    reads: Literal[Reads.OWN_ROW] = Reads.OWN_ROW  # type: ignore[assignment]  # narrower than in the base class
    """Always Reads.OWN_ROW."""

    if TYPE_CHECKING:  # lets type checkers reject a plugin that needs a whole Fork

        def pre_filter(self, info: PodInfo, view: NodeView) -> PreFilterResult[FilterState]:
            """Examine the pod before nodes are filtered, and return the state for `filter`."""

        def filter(self, info: PodInfo, view: NodeView, state: FilterState | None, delta: Delta) -> Iterator[Rejection]:
            """Yield the rejections of nodes that cannot run the pod."""

        def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[ScoreState]:
            """Return the state for scoring the feasible rows."""

        def score(self, info: PodInfo, view: NodeView, state: ScoreState | None, rows: Rows) -> Scores:
            """Return the raw score of each feasible row."""


class Declaration(msgspec.Struct, frozen=True):
    """The declarations of one plugin, including all its extension points. See DeclaredPlugin for the fields."""

    name: str
    points: frozenset[str]
    default_weight: int | None = None
    gate: str | None = None
    kinds: tuple[str, ...] = ()
    gated_kinds: Mapping[str, ByVersion[str]] = msgspec.field(default_factory=dict)
    kinds_matter_to: PodTrait | None = None
    args_type: type[Struct] | None = None
    make: Factory | None = None
    """Builds the plugin; None if the plugin is not replayed."""
    since: int = OLDEST_MINOR
    until: int | None = None
    default_until: int | None = None
    points_since: Mapping[str, int] = msgspec.field(default_factory=dict)
    args_since: int = OLDEST_MINOR
    replayed_since: int = OLDEST_MINOR
    plugin: PluginClass | None = None
    """The plugin's class; None if there is none."""

    @classmethod
    def from_class(cls, plugin: PluginClass) -> Declaration:
        """Build the declaration of a plugin class from the class's attributes and methods."""
        return cls(
            name=plugin.name,
            points=find_extension_points(plugin).union(plugin.points),
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

    def restrict_to_minor(self, minor: int) -> Declaration | None:
        """Return the declaration as of a minor version, or None if that version does not have the plugin.

        Extension points, `args_type` and `make` are left out if they belong only to later versions.
        """
        if not self.since <= minor <= (self.until or minor):
            return None
        points = frozenset(point for point in self.points if minor >= self.points_since.get(point, minor))
        args_type = self.args_type if minor >= self.args_since else None
        make = self.make if minor >= self.replayed_since else None
        if points == self.points and args_type is self.args_type and make is self.make:
            return self
        return replace(self, points=points, args_type=args_type, make=make)

    def is_default(self, gates: FeatureGates) -> bool:
        """Return whether the plugin is enabled in a profile that lists no plugins.

        Return False if the plugin stopped being a default plugin in an earlier version, or if its feature gate is off.
        """
        minor = gates.release.version_for(f"plugin {self.name}").minor
        if self.default_until is not None and minor > self.default_until:
            return False
        return self.gate is None or gates.enabled(self.gate)

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """The kinds that the plugin reads when every feature gate is on."""
        return (*self.kinds, *self.gated_kinds)


class ExtensionPoint(NamedTuple):
    """Upstream's interface for an extension point, and the methods that implement it here."""

    interface: str
    methods: tuple[str, ...] = ()
    """Empty for a point that is not replayed; plugins declare in `points` that they run there."""


EXTENSION_POINTS: Mapping[str, ExtensionPoint] = {
    "preFilter": ExtensionPoint("PreFilterPlugin", ("pre_filter",)),
    "filter": ExtensionPoint("FilterPlugin", ("filter",)),
    "postFilter": ExtensionPoint("PostFilterPlugin", ("post_filter",)),
    "reserve": ExtensionPoint("ReservePlugin", ("reserve", "release", "reservation")),
    "preScore": ExtensionPoint("PreScorePlugin", ("pre_score",)),
    "score": ExtensionPoint("ScorePlugin", ("score", "normalize")),
    "preBind": ExtensionPoint("PreBindPlugin"),
    "bind": ExtensionPoint("BindPlugin"),
    "postBind": ExtensionPoint("PostBindPlugin"),
    "permit": ExtensionPoint("PermitPlugin", ("permit",)),
    "preEnqueue": ExtensionPoint("PreEnqueuePlugin", ("pre_enqueue",)),
    "queueSort": ExtensionPoint("QueueSortPlugin"),
    "placementGenerate": ExtensionPoint("PlacementGeneratePlugin"),
    "placementScore": ExtensionPoint("PlacementScorePlugin"),
}
"""Name in a configuration -> extension point, in the order in which upstream sets them up."""


def find_extension_points(plugin: object) -> frozenset[str]:
    """Return the extension points whose methods a plugin or plugin class implements."""
    implemented = set()
    for name, point in EXTENSION_POINTS.items():
        methods = [getattr(plugin, method, None) for method in point.methods]
        if methods and all(map(callable, methods)):
            implemented.add(name)
    return frozenset(implemented)


class PodTrait(NamedTuple):
    """A property that only some pods have."""

    has_trait: Callable[[PodSpec], bool]
    """Returns whether a pod with this spec has the trait."""
    absence_reason: str
    """States that no pod has the trait."""


def _uses_disks(spec: PodSpec) -> bool:
    """Return whether the pod uses volumes other than emptyDir, hostPath and images."""

    def without_disks(volume: Volume) -> Volume:
        """Return the volume with only its sources that are not disks."""
        return Volume(volume.name, image=volume.image, empty_dir=volume.empty_dir, host_path=volume.host_path)

    return any(volume != without_disks(volume) for volume in spec.volumes)


def _uses_devices(spec: PodSpec) -> bool:
    """Return whether the pod has resource claims or requests an extended resource."""
    return bool(spec.resource_claims) or any(map(is_dra_extended, _iter_resource_names(spec)))


def _iter_resource_names(spec: PodSpec) -> Iterator[str]:
    """Yield the names of all resources in the pod's requests, limits and overhead."""
    yield from spec.overhead
    requirements = [container.resources for container in (*spec.containers, *spec.init_containers)]
    if spec.resources:
        requirements.append(spec.resources)
    for resources in requirements:
        yield from resources.requests
        yield from resources.limits


USES_DISKS = PodTrait(_uses_disks, "no pod has a claim or a disk")
USES_DEVICES = PodTrait(_uses_devices, "no pod claims devices or requests an extended resource")
IS_GROUPED = PodTrait(lambda spec: spec.scheduling_group is not None, "no pod is in a group")


ALWAYS_READ = ("Node", "Pod", "Namespace", "PriorityClass")
"""Kinds that are read for every answer."""

READ_FOR_NEW_PODS = ("RuntimeClass", "ResourceClaimTemplate")
"""Kinds that are read if pods may be created; their content becomes part of new pods."""


def list_kinds_read(plugins: Iterable[Declaration], gates: FeatureGates) -> tuple[str, ...]:
    """Return the kinds of objects that the plugins read, starting with the kinds that every answer needs.

    A kind that depends on a feature gate is included only if the version has the gate and the gate is on.
    """
    kinds = list(ALWAYS_READ)
    for plugin in plugins:
        kinds += plugin.kinds
        for kind, gate_by_version in plugin.gated_kinds.items():
            gate = gate_by_version.at(gates.release)
            if gate in GATE_STAGES and gates.enabled(gate):
                kinds.append(kind)
    return tuple(dict.fromkeys(kinds))


def find_irrelevant_kinds(plugins: Iterable[Declaration], specs: Iterable[PodSpec]) -> dict[str, str]:
    """Return the kinds that cannot affect any answer about these pods, each with the reason.

    A plugin may matter only to pods with a certain trait, such as volumes. A kind is irrelevant if none of these pods
    has the trait of any plugin that reads the kind. `specs` are all pods of the cluster, including running ones, since
    a displaced pod may have to be placed again.
    """
    plugin_list, pod_specs = list(plugins), list(specs)
    traits = {plugin.kinds_matter_to for plugin in plugin_list if plugin.kinds_matter_to is not None}
    absent_traits = {trait for trait in traits if not any(map(trait.has_trait, pod_specs))}
    needed_kinds: set[str] = set()
    reason_by_kind: dict[str, str] = {}
    for plugin in plugin_list:
        trait = plugin.kinds_matter_to
        if trait in absent_traits:  # a plugin without a trait matters to every pod
            reason_by_kind.update(dict.fromkeys(plugin.all_kinds, trait.absence_reason))
        else:
            needed_kinds.update(plugin.all_kinds)
    return {kind: reason for kind, reason in reason_by_kind.items() if kind not in needed_kinds}
