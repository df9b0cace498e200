"""A real rollout replayed pod by pod: where the real scheduler chose another node than the replay, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.commands.simulate.following_report import (
    AS_REPLAYED,
    BEST_OF_A_PART,
    DIFFERING_OUTCOMES,
    NOT_BEST,
    NOT_COMPARED,
    NOT_FEASIBLE,
    NOT_LOOKED_AT,
    OTHER_SCHEDULER,
    UNKNOWN_NODE,
    UNKNOWN_POD,
    FollowedPlacement,
    FollowedRollout,
    OverlappingBinding,
)
from kschedctl.replay.shared_cluster import build_cluster_basis, describe_search_start
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, merge_unknown_kinds, summarize_unknowns
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.engine.cycle import Cycle, mask_allowed_nodes
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchTerms
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.following import StepwiseScheduler, TriedPod
from kschedctl.text.counts import agreeing, counted

Done = Callable[[int], None]
MILLISECOND, SECOND = 1_000_000, 1_000_000_000
"""Numbers of nanoseconds. Creation timestamps of objects are whole seconds."""


class RealPlacement(NamedTuple):
    """A pod that the real scheduler put on a node."""

    nanoseconds: int
    """The time of the placement in nanoseconds since 1970."""
    time: str
    """The time of the placement as written in the source."""
    pod: str
    node: str
    scheduler: str = ""
    """The scheduler, empty if unknown."""


def replay_rollout(
    cluster: Cluster,
    placements: Sequence[RealPlacement],
    manifests: Iterable[JsonObject | Struct] = (),
    *,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    on_done: Done = lambda number: None,
) -> FollowedRollout:
    """Try every pod at the time when it was really scheduled, and put it on the node on which it really ran.

    `cluster` may be from before or after the rollout. Pods of the placements have no node until their turn, and pods
    that were created later arrive at that time. `manifests` are applied first. If a placed pod is not in the cluster, a
    pod that the manifests create for its workload takes its place. If the user interrupts, the report has the pods
    compared so far. Raises InputError if a manifest is invalid, and ConfigurationError if the scheduler's configuration
    is invalid.
    """
    manifests = list(manifests)
    cluster, attachment_notes = _drop_later_attachments(cluster, placements)
    shared = prepare_simulation(cluster, manifests) if manifests else None
    created_pods = shared.workload_by_pod if shared else {}
    scheduler = Scheduler(shared.cluster if shared else cluster, call_extender)
    replay = _RolloutReplay(StepwiseScheduler(scheduler, time_passes=True, sampling=sampling), placements, created_pods)
    steps = []
    interrupted = False
    try:
        for step in replay.iter_steps():
            steps.append(step)
            on_done(1)
    except KeyboardInterrupt:
        interrupted = True
    notes = (*(shared.assumptions if shared else ()), *attachment_notes, *replay.notes)
    return _build_followed_rollout_report(replay, steps, notes, interrupted, sampling)


def _drop_later_attachments(cluster: Cluster, placements: Sequence[RealPlacement]) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster without VolumeAttachments that are not older than the first placement, and notes on them.

    NodeVolumeLimits would count the attached volume of a pod that has no node yet. Without a VolumeAttachment, a volume
    counts from the time when the replay places its pod. A VolumeAttachment of the same second as the placement is
    dropped as well. There is no note if none is dropped.
    """
    if not placements:
        return cluster, ()
    first_second = placements[0].nanoseconds // SECOND * SECOND
    earlier_attachments = tuple(
        attachment
        for attachment in cluster.volume_attachments
        if _parse_creation_time(attachment.metadata.creation_timestamp) < first_second
    )
    dropped_count = len(cluster.volume_attachments) - len(earlier_attachments)
    if not dropped_count:
        return cluster, ()
    left_out = f"VolumeAttachments that are not older than the events are ignored: {dropped_count:,}"
    note = f"{left_out}; volumes are counted with their pods"
    return replace(cluster, volume_attachments=earlier_attachments), (note,)


def _parse_creation_time(timestamp: str | None) -> int:
    """Parse a creation timestamp to nanoseconds. Return 0 if it is missing."""
    return parse_nanoseconds(timestamp) if timestamp else 0


def _build_followed_rollout_report(
    replay: _RolloutReplay,
    placements: Sequence[FollowedPlacement],
    assumed: tuple[str, ...],
    interrupted: bool,
    sampling: SampledFrom | None,
) -> FollowedRollout:
    """Build the report from the comparisons. If no placement could be compared, it is undecided and says why."""
    scheduler = replay.following
    outcomes = Counter(placement.outcome for placement in placements)
    unknown = summarize_unknowns(
        (*find_unread_dependencies(scheduler.view.cluster), *scheduler.unknown), IN_SIMULATIONS
    )
    agree = outcomes[AS_REPLAYED] + outcomes[BEST_OF_A_PART]
    otherwise = sum(outcomes[outcome] for outcome in DIFFERING_OUTCOMES)
    nothing_compared = not (agree or otherwise)
    if nothing_compared:
        unknown = merge_unknown_kinds(((_explain_why_nothing_was_compared(outcomes),), unknown))
    return FollowedRollout(
        agree=agree,
        otherwise=otherwise,
        placements=tuple(placements),
        assumed=assumed,
        search_start=describe_search_start(sampling, len(scheduler.view.nodes), seed=0),
        **build_cluster_basis(unknown, scheduler.scheduler),
        interrupted=interrupted,
    )


def _explain_why_nothing_was_compared(outcomes: Counter[str]) -> UnknownKind:
    """Return why no placement could be compared.

    Either there are no placements, or the cluster does not have their pods, or the replays gave no result. The texts
    continue a sentence that begins with the kind, such as "Pods of the events could not be compared".
    """
    unknown_pods = outcomes[UNKNOWN_POD]
    total = outcomes.total()
    if not total:
        return UnknownKind("Event", "show no placement", VERDICT)
    if not unknown_pods:
        return UnknownKind("Pod", f"of the events could not be compared: {total:,} of {total:,}", VERDICT)
    return UnknownKind(
        "Pod",
        f"of the events are not in the cluster, {unknown_pods:,} of {total:,}: the cluster may have been read before "
        "the events",
        VERDICT,
    )


class _TimedPod(NamedTuple):
    """A pod that is on a node, or nominated for it, from a certain time on."""

    nanoseconds: int
    position: Position
    row: Row


class _RolloutReplay:
    """A replay that starts with the cluster as it was before the first placement."""

    def __init__(
        self, following: StepwiseScheduler, placements: Sequence[RealPlacement], created_pods: Mapping[str, str]
    ) -> None:
        """Take the pods of the placements, and pods that were created later, off their nodes.

        `created_pods` has the workload of each pod that manifests create.
        """
        self.following = following
        self.view = following.view
        self.notes: list[str] = []
        self.placements = placements
        self._placed: list[_TimedPod] = []
        """The pods that were put on their real nodes, in order of time."""
        self._unexplained_count = 0
        self._created_by_workload: dict[str, list[Position]] = {}
        """`namespace/name` of a workload -> its created pods that do not stand for a placed pod yet."""
        index = self.view.pods.index
        for pod, workload in created_pods.items():
            namespace, _, _ = pod.partition("/")
            # The workload is "Kind namespace/name" or "Kind name"
            _, _, key = workload.rpartition(" ")
            _, _, name = key.rpartition("/")
            self._created_by_workload.setdefault(f"{namespace}/{name}", []).append(index[pod])

        # Take the pods off their nodes, and drop the nominations of pods that did not exist yet
        placed_pods = [index[pod] for pod in dict.fromkeys(placement.pod for placement in placements) if pod in index]
        self._created_later = self._find_pods_created_later(placements, set(placed_pods))
        removed = [*placed_pods, *(later.position for later in self._created_later)]
        following.remove_from_nodes([position for position in removed if self.view.has_node(position)])
        self._nominated_later = self._find_nominations_created_later(placements)
        for later in self._nominated_later:
            self.view.nominate(later.position, NO_ROW)

    def _find_pods_created_later(self, placements: Sequence[RealPlacement], named: set[Position]) -> list[_TimedPod]:
        """Return the running pods that were created after the first placement, latest first.

        The `named` pods, which have a placement of their own, are left out. A note with the number of pods is added to
        `self.notes`.
        """
        if not placements:
            return []
        first = placements[0].nanoseconds
        later_pods = []
        for number in np.flatnonzero(self.view.mask_placed()).tolist():
            position = Position(number)
            created = _parse_creation_time(self.view.pods.objects[position].metadata.creation_timestamp)
            if position not in named and created > first:
                later_pods.append(_TimedPod(created, position, Row(int(self.view.node[position]))))
        if later_pods:
            self.notes.append(
                f"{counted(len(later_pods), 'running pod')} without an event "
                f"{agreeing(len(later_pods), 'counts from its', 'count from their')} creation on"
            )
        return sorted(later_pods, reverse=True)

    def _find_nominations_created_later(self, placements: Sequence[RealPlacement]) -> list[_TimedPod]:
        """Return the nominations of pods that were created after the first placement, latest first."""
        first = placements[0].nanoseconds if placements else 0
        later = []
        rows, positions = self.view.nominations
        for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
            created = _parse_creation_time(self.view.pods.objects[position].metadata.creation_timestamp)
            if created > first:
                later.append(_TimedPod(created, Position(position), Row(row)))
        return sorted(later, reverse=True)

    def iter_steps(self) -> Iterator[FollowedPlacement]:
        """Try each pod, compare the replay with the real placement, and put the pod on its real node."""
        for placement_index, placement in enumerate(self.placements):
            yield self._follow_placement(placement_index, placement)

    def _follow_placement(self, placement_index: int, placement: RealPlacement) -> FollowedPlacement:
        """Try a pod at the time of its real placement, compare the results, and put it on its real node.

        Pods and nominations that were created in the meantime arrive first. If the results differ, the order of nearby
        placements may explain this. A pod that the cluster does not have is not tried.
        """
        self._let_pods_and_nominations_arrive(placement.nanoseconds)
        position = self._take_pod_position(placement.pod)
        if position is None:
            return _build_comparison(placement, UNKNOWN_POD, reasons=("the cluster has no such pod",))
        if self.view.has_node(position):  # scheduled once more under the same name
            self.following.remove_from_nodes([position])
        row = Row(self.view.nodes.index.get(placement.node, NO_ROW))
        tried = self.following.attempt_pod(position)
        comparison = _compare_placement(placement, tried, row, self.following)
        if comparison.outcome in (NOT_BEST, NOT_FEASIBLE):
            comparison = self._explain_by_reordering(placement_index, position, row, comparison)
        if row != NO_ROW:
            self._put_pod_on_real_node(tried, row)
            self._placed.append(_TimedPod(placement.nanoseconds, position, row))
        return comparison

    def _let_pods_and_nominations_arrive(self, nanoseconds: int) -> None:
        """Put the running pods that were created by this time on their nodes, and make the nominations that existed.

        The latest come first in `_created_later` and `_nominated_later`, and are taken from the end.
        """
        while self._created_later and self._created_later[-1].nanoseconds <= nanoseconds:
            later = self._created_later.pop()
            self.view.assume(later.position, later.row)
        while self._nominated_later and self._nominated_later[-1].nanoseconds <= nanoseconds:
            later = self._nominated_later.pop()
            self.view.nominate(later.position, later.row)

    def _explain_by_reordering(
        self, placement_index: int, position: Position, row: Row, placement: FollowedPlacement
    ) -> FollowedPlacement:
        """Explain by the order of nearby placements why the pod went to a node that the replay did not choose.

        First reorder placements whose order the events leave open. If one order makes the replay choose the real node,
        return the comparison in this order. Otherwise return `placement` with the overlapping bindings that explain it.
        After MAX_UNEXPLAINED placements without an explanation, overlapping bindings are no longer searched, which a
        note says.
        """
        nearby = self._find_nearby_placements(placement_index, position)

        def compare_reordered(moved: Sequence[NearbyPlacement]) -> FollowedPlacement:
            """Compare the real placement with a replay in another order."""
            return self._compare_reordered(placement_index, position, row, moved)

        # Placements so close in time that events do not tell their order
        for moved in iter_reorderings(nearby):
            reordered = compare_reordered(moved)
            if reordered.outcome == AS_REPLAYED:
                # If placements after the pod's move before it, the pod was really tried that much later.
                pod_was_tried_later = moved[0].nanoseconds > 0
                return replace(reordered, order=len(moved) if pod_was_tried_later else -len(moved))
        if self._unexplained_count == MAX_UNEXPLAINED:
            return placement

        # Bindings that may have overlapped
        best = {Row(self.view.nodes.index[name]) for name in placement.best}
        overlapping = find_overlapping_placements(
            nearby, row, best, lambda moved: compare_reordered(moved).outcome == AS_REPLAYED
        )
        if nearby and not overlapping:
            self._unexplained_count += 1
            if self._unexplained_count == MAX_UNEXPLAINED:
                self.notes.append(
                    f"the search for overlapping bindings ended after {MAX_UNEXPLAINED:,} placements that none explains"
                )
        return replace(placement, overlapping=tuple(map(self._build_overlapping_binding, overlapping)))

    def _find_nearby_placements(self, placement_index: int, position: Position) -> list[NearbyPlacement]:
        """Return the placements of other pods less than `NEARBY_NANOSECONDS` before or after a placement.

        `position` is the position of the placement's pod. Earlier placements come first, in order of time.
        """
        candidates = self._list_earlier_placements(placement_index) + self._list_later_placements(placement_index)
        return [
            candidate
            for candidate in candidates
            if candidate.position != position and abs(candidate.nanoseconds) < NEARBY_NANOSECONDS
        ]

    def _list_earlier_placements(self, placement_index: int) -> list[NearbyPlacement]:
        """Return the placements before the one at `placement_index` whose pods are still on their nodes.

        At most `2 * MAX_NEARBY` placements are examined.
        """
        now = self.placements[placement_index].nanoseconds
        return [
            NearbyPlacement(earlier.position, earlier.row, earlier.nanoseconds - now)
            for earlier in self._placed[-2 * MAX_NEARBY :]
            if self.view.node[earlier.position] == earlier.row
        ]

    def _list_later_placements(self, placement_index: int) -> list[NearbyPlacement]:
        """Return the last of the placements after the one at `placement_index` for each pod that has no node yet.

        At most `2 * MAX_NEARBY` placements are examined.
        """
        now = self.placements[placement_index].nanoseconds
        pod_index, node_index = self.view.pods.index, self.view.nodes.index
        later_by_pod: dict[Position, NearbyPlacement] = {}
        for placement in self.placements[placement_index + 1 : placement_index + 1 + 2 * MAX_NEARBY]:
            if placement.pod in pod_index and placement.node in node_index:
                later_pod = pod_index[placement.pod]
                delay = max(placement.nanoseconds - now, 1)  # only a positive delay means "after"
                later_by_pod[later_pod] = NearbyPlacement(later_pod, Row(node_index[placement.node]), delay)
        return [later for later in later_by_pod.values() if not self.view.has_node(later.position)]

    def _compare_reordered(
        self, placement_index: int, position: Position, row: Row, moved: Sequence[NearbyPlacement]
    ) -> FollowedPlacement:
        """Compare the placement with a replay in which the `moved` placements happen on its other side in time.

        Earlier placements then come after this one, so their pods are taken off their nodes for the replay. Later
        placements come before this one, so their pods are put on their nodes. Afterwards the view is restored.
        """
        # Each attempt advances the start of the next search
        sampling = self.following.sampling
        start = sampling.start if sampling else 0
        for nearby in moved:
            self._set_on_node(nearby, present=nearby.nanoseconds > 0)
        try:
            return _compare_placement(
                self.placements[placement_index], self.following.attempt_pod(position), row, self.following
            )
        finally:
            for nearby in reversed(moved):
                self._set_on_node(nearby, present=nearby.nanoseconds <= 0)
            if sampling:
                sampling.start = start

    def _set_on_node(self, nearby: NearbyPlacement, *, present: bool) -> None:
        """Put the pod of a nearby placement on its node, or take it off if `present` is False."""
        if present:
            self.view.assume(nearby.position, nearby.row)
        else:
            self.view.forget(nearby.position)

    def _build_overlapping_binding(self, nearby: NearbyPlacement) -> OverlappingBinding:
        """Build the report about a nearby placement."""
        pod = self.view.pods.objects[nearby.position].key
        return OverlappingBinding(pod, self.view.nodes.names[nearby.row], round(nearby.nanoseconds / MILLISECOND))

    def _take_pod_position(self, pod: str) -> Position | None:
        """Return the position of a pod, or None if neither the cluster nor a manifest has the pod.

        For a pod that is not in the cluster, take the next unused pod that a manifest created for its workload. The
        pod's name must begin with the workload's name. If several names match, the longest one counts.
        """
        if pod in self.view.pods.index:
            return self.view.pods.index[pod]
        unused_pods = self._created_by_workload
        workloads = [name for name, positions in unused_pods.items() if positions and pod.startswith(f"{name}-")]
        if not workloads:
            return None
        return unused_pods[max(workloads, key=len)].pop(0)

    def _put_pod_on_real_node(self, tried: TriedPod, row: Row) -> None:
        """Put the pod on its real node. If it fits there, plugins reserve what it needs.

        If a plugin fails to reserve, a note says so and the pod is placed without reservations.
        """
        if tried.cycle is not None and row in tried.cycle.feasible:
            try:
                self.following.assume(tried, row)
                return
            except PluginError as failure:
                self.notes.append(f"{self.view.pods.objects[tried.position].key}: nothing is reserved: {failure}")
        self.following.place(tried.position, row)


def _build_comparison(
    placement: RealPlacement,
    outcome: str,
    *,
    feasible: int = 0,
    best: tuple[str, ...] = (),
    behind: int = 0,
    lost: Mapping[str, int] = MappingProxyType({}),
    plugin: str = "",
    reasons: tuple[str, ...] = (),
) -> FollowedPlacement:
    """Build the comparison of a placement with the replay. Fields that do not apply to the outcome are left empty."""
    return FollowedPlacement(
        placement.pod,
        placement.node,
        time=placement.time,
        scheduler=placement.scheduler,
        outcome=outcome,
        feasible=feasible,
        best=best,
        behind=behind,
        lost=dict(lost),
        plugin=plugin,
        reasons=reasons,
    )


def _compare_placement(
    placement: RealPlacement, tried: TriedPod, row: Row, following: StepwiseScheduler
) -> FollowedPlacement:
    """Compare the replay of a pod with the node at `row`, to which the pod really went.

    `row` is NO_ROW if the cluster does not have that node. Nothing is compared if another scheduler placed the pod or
    if the cycle failed with an error. If the replay searched all nodes, kube-scheduler may have searched only some of
    them. A node that is the best of such a part then counts as BEST_OF_A_PART.
    """
    cycle = tried.cycle
    served_names = following.scheduler.configuration.profiles
    if cycle is None or (placement.scheduler and placement.scheduler not in served_names):
        return _build_comparison(placement, OTHER_SCHEDULER)
    if row == NO_ROW:
        return _build_comparison(placement, UNKNOWN_NODE)
    if cycle.error is not None:
        return _build_comparison(placement, NOT_COMPARED, reasons=(cycle.error,))

    feasible = len(cycle.feasible)
    if row not in cycle.feasible:
        return _compare_infeasible_placement(placement, cycle, row, feasible)

    best = tuple(sorted(cycle.view.nodes.names[best_row] for best_row in cycle.scores.best.tolist()))
    if placement.node in best:
        return _build_comparison(placement, AS_REPLAYED, feasible=feasible, best=best)
    deficit = _compute_score_deficit(cycle, row, best[0])
    is_best_of_part = following.sampling is None and _is_best_of_sample(cycle, row, following)
    return _build_comparison(
        placement,
        BEST_OF_A_PART if is_best_of_part else NOT_BEST,
        feasible=feasible,
        best=best,
        behind=deficit.total,
        lost=deficit.by_plugin,
    )


def _compare_infeasible_placement(placement: RealPlacement, cycle: Cycle, row: Row, feasible: int) -> FollowedPlacement:
    """Build the comparison for a real node that is not feasible in the replay.

    The node was rejected by PreFilter or Filter, it was not reached by the search, or a PreFilter plugin limited the
    search to other nodes.
    """
    if cycle.pre_filter.status.rejected:
        plugin = cycle.pre_filter.plugin
        status = cycle.pre_filter.status
    elif not cycle.filter.passing[row]:
        plugin, status = cycle.filter.find_first_rejection(row)
    elif cycle.search is not None and not cycle.considered[row]:
        return _build_comparison(placement, NOT_LOOKED_AT, feasible=feasible)
    else:
        plugin = " ".join(cycle.pre_filter.narrowed_by)
        status = cycle.get_node_status(row)
    return _build_comparison(placement, NOT_FEASIBLE, feasible=feasible, plugin=plugin, reasons=status.reasons)


class _ScoreDeficit(NamedTuple):
    """The number of points by which a node trails the best node."""

    total: int
    by_plugin: dict[str, int]
    """Plugin -> points, without plugins that score both nodes alike."""


def _compute_score_deficit(cycle: Cycle, row: Row, best_node: str) -> _ScoreDeficit:
    """Compute by how many points the node at `row` trails the best node, in total and by plugin."""
    rows = cycle.scores.rows.tolist()
    real_index = rows.index(row)
    best_index = rows.index(cycle.view.nodes.index[best_node])
    by_plugin = {}
    for name, scores in cycle.scores.weighted.items():
        points = int(scores[best_index] - scores[real_index])
        if points:
            by_plugin[name] = points
    total = cycle.scores.total
    return _ScoreDeficit(int(total[best_index] - total[real_index]), by_plugin)


def _is_best_of_sample(cycle: Cycle, row: Row, following: StepwiseScheduler) -> bool:
    """Return whether the node may be the best that the scheduler saw because its search stopped before a better node.

    The search stops once it has found a certain number of feasible nodes. Its best node may be this one if enough
    consecutive feasible nodes around it, in the scheduler's order, are no better. Scores are computed as if all nodes
    had been searched.
    """
    offered = int(mask_allowed_nodes(cycle.pre_filter, cycle.view).sum())
    nodes_needed = following.start_sampling(SampledFrom()).count_nodes_needed_for_scoring(
        offered, SearchTerms.from_profile(cycle.framework.profile, cycle.framework.release)
    )
    total = cycle.scores.total
    node_index = cycle.scores.rows.tolist().index(row)

    # Rotate the nodes so that this one comes first, because the search wraps around. The nodes before the first better
    # node follow this one, and the nodes after the last better node precede it.
    better_indexes = np.flatnonzero(np.roll(total > total[node_index], -node_index))
    if not len(better_indexes):
        return nodes_needed <= len(total)
    count_from_node = int(better_indexes[0])
    count_before_node = len(total) - 1 - int(better_indexes[-1])
    return nodes_needed <= count_from_node + count_before_node


# -- the order of nearby placements ------------------------------------------------------------------------------------


UNORDERED_NANOSECONDS = 100_000_000
"""The time within which events say nothing about the order in which pods were tried."""
MAX_REORDERED = 16
"""The maximum number of pods that are tried in another order."""
NEARBY_NANOSECONDS = 1_000_000_000
"""The time for which bindings may have waited for each other in a burst."""
MAX_NEARBY = 40
"""The maximum number of nearby placements that are tried as an explanation."""
MAX_UNEXPLAINED = 100
"""The number of unexplained placements after which the search for explanations stops."""


class NearbyPlacement(NamedTuple):
    """A pod bound to a row at about the same time as another pod."""

    position: Position
    row: Row
    nanoseconds: int
    """The delay after the other pod, negative if before."""


def iter_reorderings(nearby: Sequence[NearbyPlacement]) -> Iterator[Sequence[NearbyPlacement]]:
    """Yield groups of placements that may really have happened on the other side of the pod's placement.

    They are close to the pod's placement in time. Groups of earlier placements come first, then groups of later ones.
    Each group adds the next closest placement to the previous group, up to MAX_REORDERED placements.
    """
    simultaneous = [placement for placement in nearby if abs(placement.nanoseconds) <= UNORDERED_NANOSECONDS]
    before = [placement for placement in reversed(simultaneous) if placement.nanoseconds <= 0]
    after = [placement for placement in simultaneous if placement.nanoseconds > 0]
    for placements in (before[:MAX_REORDERED], after[:MAX_REORDERED]):
        for size in range(1, len(placements) + 1):
            yield placements[:size]


def find_overlapping_placements(
    nearby: Sequence[NearbyPlacement],
    row: Row,
    best_rows: Collection[Row],
    agrees: Callable[[Sequence[NearbyPlacement]], bool],
) -> Sequence[NearbyPlacement]:
    """Return placements that explain why a pod went to `row` instead of a best node, or () if none do.

    The explanation is preferably a single placement. Otherwise it is all earlier placements on `row`, all later
    placements on the best nodes, or both. `agrees` returns whether the replay chooses `row` if the placements are moved
    to the other side of the pod. At most MAX_NEARBY placements are moved at a time.
    """
    earlier_on_row = [placement for placement in nearby if placement.nanoseconds <= 0 and placement.row == row]
    later_on_best = [placement for placement in nearby if placement.nanoseconds > 0 and placement.row in best_rows]
    likely_placements = sorted((*earlier_on_row, *later_on_best), key=_get_absolute_delay)
    unlikely_placements = sorted(
        (placement for placement in nearby if placement not in likely_placements), key=_get_absolute_delay
    )
    single_moves = [[placement] for placement in (*likely_placements, *unlikely_placements)[:MAX_NEARBY]]
    groups = (earlier_on_row[::-1], later_on_best, likely_placements)
    group_moves = [placements[:MAX_NEARBY] for placements in groups if len(placements) > 1]
    return next((moves for moves in (*single_moves, *group_moves) if agrees(moves)), ())


def _get_absolute_delay(nearby: NearbyPlacement) -> int:
    """Return the time between the placement and the pod in nanoseconds."""
    return abs(nearby.nanoseconds)
