"""Scale-up: which groups may grow for waiting pods, which of them help, and by how many nodes they grow.

Upstream: core/scaleup/orchestrator/orchestrator.go, processors/status/eventing_scale_up_processor.go (1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import PRIORITY_MAP, STATUS_MAP
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import FilterRejection
from kschedctl.autoscaling.cluster_autoscaler.equivalence import EquivalenceGroup, group_equivalent_pods
from kschedctl.autoscaling.cluster_autoscaler.estimator import Estimator
from kschedctl.autoscaling.cluster_autoscaler.expanders import Expanders, Option
from kschedctl.autoscaling.cluster_autoscaler.limits import ResourceTracker
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, NodeGroupList, read_groups, read_options
from kschedctl.autoscaling.cluster_autoscaler.pods import all_are_new, get_source
from kschedctl.autoscaling.cluster_autoscaler.similar_groups import (
    Increase,
    TemplateShape,
    balance_increases,
    build_comparison,
)
from kschedctl.autoscaling.cluster_autoscaler.template_gaps import find_template_gaps
from kschedctl.autoscaling.progress import Begin, ignore_progress, iter_with_progress
from kschedctl.cluster import Cluster
from kschedctl.reports.scale_up import (
    AutoscalerEvent,
    ExpansionOption,
    GroupIncrease,
    GroupRefusal,
    GroupTemplate,
    RemainingPod,
    ScaleUp,
)
from kschedctl.snapshot.node_order import HOSTNAME

MAX_DETAILED = 50
"""The number of kinds of pods for which the figures behind rejections are reported."""
NAMESPACE = "kube-system"
NOT_READY, BACKED_OFF = "not ready for scale-up", "in backoff after failed scale-up"
AT_MAXIMUM = "max node group size reached"
UNKNOWN_TEMPLATE = "what a new node of it would be is not known"
"""Our own reason: the autoscaler knows the template."""
ATOMIC_TOO_LARGE = "atomic scale-up exceeds cluster node count limit"
FILTERED_OUT = "expansion options filtered out and no longer considered"
NOT_EXECUTED = "scale-up execution failed"
MAX_TOTAL = "max total nodes in cluster reached"
NOT_TRIED = "ScaleUpNotTried"
SUCCESSFUL, NO_OPTIONS, FAILED = "ScaleUpSuccessful", "ScaleUpNoOptionsAvailable", "ScaleUpError"
NOT_NEEDED, COOLDOWN, LIMITED = "ScaleUpNotNeeded", "ScaleUpInCooldown", "ScaleUpLimitedByMaxNodesTotal"


def scale_up(
    cluster: Cluster,
    node_groups: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    active_scale_ups: Mapping[str, int] | None = None,
    begin: Begin = ignore_progress,
) -> ScaleUp:
    """Return what the Cluster Autoscaler (release 1.36) does in its next loop. Invalid input is reported as ``faults``.

    ``node_groups`` have id, min, max, target, nodes, template and options. ``options`` are the flags, ``now`` is RFC
    3339, and ``active_scale_ups`` are the requested nodes of each group that do not exist yet. ``begin`` shows
    progress. Raises InputError for an invalid ``now``.
    """
    return replay_loop(cluster, node_groups, options, now=now, active_scale_ups=active_scale_ups, begin=begin)[1]


def replay_loop(
    cluster: Cluster,
    node_groups: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    active_scale_ups: Mapping[str, int] | None = None,
    begin: Begin = ignore_progress,
) -> tuple[ScaleUpRun, ScaleUp]:
    """Return the replayed loop, of which new nodes can be made, and its report. Arguments are those of ``scale_up``."""
    groups, (flags, faults) = read_groups(node_groups), read_options(options or {})
    loop = AutoscalerLoop.begin(cluster, groups, flags, now, active_scale_ups or {})
    faults = (*groups.errors, *faults)
    made = run_loop(loop, begin)
    report = made.report()

    def takes(changed: NodeGroupList, group: str, pod: Pod) -> bool:
        return would_take(AutoscalerLoop.begin(cluster, changed, flags, now, active_scale_ups or {}), group, pod)

    gaps = tuple(find_template_gaps(groups, loop.nodes, made.remaining_alike(), takes))
    return made, replace(report, faults=faults, details=made.details(), template_gaps=gaps)


def would_take(loop: AutoscalerLoop, group: str, pod: Pod) -> bool:
    """Return whether one more node of a group would take a pod, whether the group may grow or not."""
    return group in loop.templates and ScaleUpRun(loop).figures(pod, group) is None


def run_loop(loop: AutoscalerLoop, begin: Begin = ignore_progress) -> ScaleUpRun:
    """Run one loop up to scale-down."""
    made = ScaleUpRun(loop)
    if loop.is_over:
        return made
    if not loop.health.cluster_is_healthy:
        made.result = NOT_TRIED
        made.add_event("Warning", "ClusterUnhealthy", "Cluster is unhealthy")
        return made
    made.begun = True
    waiting = loop.place_waiting()
    kept = {pod.key for pod in waiting}
    made.filtered_out = [pod for pod in loop.unschedulable if pod.key not in kept]
    made.decide(loop.filter_old_enough(waiting), begin)
    return made


@dataclass(eq=False)
class ScaleUpRun:
    """The result of one loop."""

    loop: AutoscalerLoop
    begun: bool = False
    result: str | None = None
    error: str | None = None
    filtered_out: list[Pod] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    best: Option | None = None
    tied: tuple[str, ...] = ()
    expander_doubts: tuple[str, ...] = ()
    """Why it cannot be decided here which option the expander chooses."""
    increases: list[Increase] = field(default_factory=list)
    groups: list[EquivalenceGroup] = field(default_factory=list)
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limited: list[Pod] = field(default_factory=list)
    events: list[AutoscalerEvent] = field(default_factory=list)

    def add_event(self, type: str, reason: str, message: str, object: str = f"{NAMESPACE}/{STATUS_MAP}") -> None:
        self.events.append(AutoscalerEvent(object, type, reason, message))

    def decide(self, pods: Sequence[Pod], begin: Begin = ignore_progress) -> None:
        """Decide what is done for these pods. Raises InputError."""
        loop, most = self.loop, self.loop.options.max_nodes_total
        if not pods:
            self.result = NOT_NEEDED
        elif most > 0 and loop.ready_count >= most:
            self.result, self.limited = LIMITED, list(pods)
            self.add_event("Warning", "MaxNodesTotalReached", f"Max total nodes in cluster reached: {most}")
        elif all_are_new(pods, loop.now):
            self.result = COOLDOWN
        else:
            self._scale_up(pods, begin)

    def _scale_up(self, pods: Sequence[Pod], begin: Begin) -> None:
        """Choose an option among the groups that may grow, and grow its groups."""
        self.groups = group_equivalent_pods(pods)
        valid = list(self._iter_growable_groups())
        for group in valid:
            self._try(self.groups, group)
        asked = iter_with_progress(begin, "Asking node groups", valid)
        self.options = [option for group in asked if (option := self._build_option(group, valid))]
        if not self.options:
            self.result = NO_OPTIONS
            return
        self.best, self.tied = self._choose_option()
        if self.best is None:
            self._reject_all(FILTERED_OUT)
            self.result = NO_OPTIONS
            return
        count = self._cap_by_total(self.best.nodes)
        if count is None:
            self._reject_all(NOT_EXECUTED)
            self.result, self.error = FAILED, "max node total count already reached"
            return
        self.result = SUCCESSFUL
        self._grow_groups(self.best, count, valid)

    # -- which groups may grow -----------------------------------------------------------------------------------

    @cached_property
    def limits(self) -> ResourceTracker:
        loop = self.loop
        nodes = [loop.snapshot.universe.nodes.objects[row] for row in loop.snapshot.order]
        return ResourceTracker(loop.options, nodes, {name: g.id for name, g in loop.groups.of_node.items()})

    def _iter_growable_groups(self) -> Iterable[AutoscaledGroup]:
        """Yield the groups that may grow, and record why the others are skipped."""
        for group in self.loop.groups.all:
            reason = self._find_skip_reason(group)
            if reason:
                self.skipped[group.id] = (reason,)
            else:
                yield group

    def _find_skip_reason(self, group: AutoscaledGroup) -> str:
        """Return why a group may not grow, or ""."""
        loop, count = self.loop, 1
        if group.unhealthy or not loop.health.is_healthy(group):
            return NOT_READY
        if group.back_off is not None:
            return BACKED_OFF
        if group.headroom <= 0:
            return AT_MAXIMUM
        if group.options.zero_or_max_node_scaling:
            count = group.headroom
            if loop.options.max_nodes_total and len(loop.snapshot.order) + count > loop.options.max_nodes_total:
                return ATOMIC_TOO_LARGE
        if group.id not in loop.templates:
            return UNKNOWN_TEMPLATE if group.template_unknown else NOT_READY
        exceeded = self.limits.find_exceeded(group.id, loop.templates[group.id].node, count)
        return f'exceeded quota: "cluster-wide", resources: {", ".join(exceeded)}' if exceeded else ""

    def figures(self, pod: Pod, group: str) -> str | None:
        """Return the figures behind the rejection of a pod by a new node of a group, None if the node takes the pod."""
        snapshot, row = self.loop.snapshot.fork(), self.loop.get_template_row(group)
        snapshot.add_node(row)
        return snapshot.describe_rejection(self.loop.get_position(pod), row)

    def remaining_alike(self) -> Iterator[tuple[Pod, tuple[str, ...], Mapping[str, int]]]:
        """Yield, for pods alike for which no group grows, the first pod, the keys of all, and what each requests."""
        for pods in self.groups:
            if not pods.accepting_groups:
                yield pods.first, _keys(pods.pods), self._requests(pods.first)

    def details(self) -> dict[str, dict[str, str]]:
        """Return the figures behind each group's refusal, for pods for which no group grows; pods alike share them."""
        details: dict[str, dict[str, str]] = {}
        for pods in [pods for pods in self.groups if not pods.accepting_groups][:MAX_DETAILED]:
            known = [group for group in pods.rejections if group in self.loop.templates]
            figures = {group: text for group in known if (text := self.figures(pods.first, group))}
            details |= dict.fromkeys(_keys(pods.pods), figures)
        return details

    def takers(self, pods: Iterable[Pod]) -> Mapping[str, int]:
        """Return how many of the pods one more node of each group with a template would take, even if the group may
        not grow.
        """
        alike = group_equivalent_pods(pods)
        known = [group for group in self.loop.groups.all if group.id in self.loop.templates]
        for group in known:
            self._try(alike, group)
        return {group.id: sum(len(p.pods) for p in alike if group.id in p.accepting_groups) for group in known}

    def _try(self, groups: Iterable[EquivalenceGroup], group: AutoscaledGroup) -> None:
        """Find out which pods a new node of the group would take."""
        snapshot, row = self.loop.snapshot.fork(), self.loop.get_template_row(group.id)
        snapshot.add_node(row)
        for pods in groups:
            refusal = snapshot.find_rejection(self.loop.get_position(pods.first), row)
            if refusal is None:
                pods.accepting_groups.append(group.id)
            else:
                pods.rejections[group.id] = refusal

    # -- options -------------------------------------------------------------------------------------------------

    def _build_option(self, group: AutoscaledGroup, valid: Sequence[AutoscaledGroup]) -> Option | None:
        """Return the option to grow a group for the pods it takes, None if it takes none."""
        taken = [pods for pods in self.groups if group.id in pods.accepting_groups]
        if not taken:
            return None
        similar = self._find_similar_groups(group, valid)
        estimator = Estimator(
            self.loop.snapshot,
            self.loop.get_template_row(group.id),
            self.loop.templates[group.id].node,
            self._limit_nodes(group, similar),
            self.loop.get_position,
        )
        estimate = estimator.estimate(taken)
        if not estimate.nodes or not estimate.pods:
            return None
        count = group.max if group.options.zero_or_max_node_scaling else estimate.nodes
        return Option(group, count, tuple(estimate.pods), tuple(similar))

    def _limit_nodes(self, group: AutoscaledGroup, similar: Sequence[AutoscaledGroup]) -> int | None:
        """Return how many nodes an estimation may add, None if unlimited."""
        options = self.loop.options
        free = sum(max(group.headroom, 0) for group in (group, *similar))
        limits = [options.max_nodes_per_scale_up] if options.max_nodes_per_scale_up else []
        limits += [free] if free else []
        if options.max_nodes_total > 0:
            limits.append(max(options.max_nodes_total - len(self.loop.snapshot.order), 0))
        return min(limits) if limits else None

    def _find_similar_groups(self, group: AutoscaledGroup, valid: Sequence[AutoscaledGroup]) -> list[AutoscaledGroup]:
        """Return the groups that are similar and take at least the same pods."""
        if not self.loop.options.balance_similar_node_groups or group.options.zero_or_max_node_scaling:
            return []
        mine = {id(pods) for pods in self.groups if group.id in pods.accepting_groups}
        if not mine:
            return []
        alike = build_comparison(self.loop.options)
        return [
            other
            for other in valid
            if other.id != group.id
            and alike(self._shape(group), self._shape(other))
            and mine <= {id(pods) for pods in self.groups if other.id in pods.accepting_groups}
        ]

    def _shape(self, group: AutoscaledGroup) -> TemplateShape:
        template = self.loop.templates[group.id]
        return TemplateShape(template.node, self._sum_requests(template.pods))

    def _requests(self, pod: Pod) -> Mapping[str, int]:
        return self.loop.get_requests(self.loop.get_position(pod))

    def _choose_option(self) -> tuple[Option | None, tuple[str, ...]]:
        """Return the expander's choice. Raises InputError."""
        events: list[tuple[str, str, str]] = []
        config_maps = (
            config_map
            for config_map in self.loop.cluster.config_maps
            if (config_map.metadata.namespace, config_map.metadata.name) == (NAMESPACE, PRIORITY_MAP)
        )
        templates = {name: template.node for name, template in self.loop.templates.items()}
        expanders = Expanders(templates, self._requests, next(config_maps, None), events)
        best = expanders.choose(self.loop.options.expander, self.options)
        self.expander_doubts = tuple(expanders.doubts)
        for type, reason, message in events:
            self.add_event(type, reason, message, f"{NAMESPACE}/{PRIORITY_MAP}")
        return best

    # -- growing -------------------------------------------------------------------------------------------------

    def _cap_by_total(self, count: int) -> int | None:
        """Return how many of the nodes the cluster may have, None if it is full."""
        most, there = self.loop.options.max_nodes_total, len(self.loop.snapshot.order)
        if most <= 0 or there + count <= most:
            return count
        self.add_event("Warning", "MaxNodesTotalReached", f"Max total nodes in cluster reached: {most}")
        return most - there if most - there >= 1 else None

    def _grow_groups(self, best: Option, count: int, valid: Sequence[AutoscaledGroup]) -> None:
        """Increase the chosen group and groups similar to it, within the limits."""
        loop, limits = self.loop, self.limits
        count = limits.limit_count(best.group.id, loop.templates[best.group.id].node, count)
        similar = [
            similar
            for similar in self._find_similar_groups(best.group, valid)
            if not limits.find_exceeded(similar.id, loop.templates[similar.id].node, 1)
        ]
        for increase in balance_increases([best.group, *similar], count):
            group, template = increase.group, loop.templates[increase.group.id].node
            allowed = limits.limit_count(group.id, template, increase.new_size - increase.size)
            if allowed > 0:
                limits.consume(group.id, template, allowed)
                self.increases.append(increase._replace(new_size=increase.size + allowed))
        self._add_growth_events(best)

    def _add_growth_events(self, best: Option) -> None:
        """Add the events of the increases."""
        for increase in self.increases:
            size, name = increase.new_size, increase.group.id
            was = f"instead of {increase.size} (max: {increase.group.max})"
            self.add_event("Normal", "ScaledUpGroup", f"Scale-up: setting group {name} size to {size} {was}")
            said = f"Scale-up: group {name} size set to {size} {was}"
            self.add_event("Normal", "ScaledUpGroup", said)
        plan = " ".join(f"{{{i.group.id} {i.size}->{i.new_size} (max: {i.group.max})}}" for i in self.increases)
        for pod in best.pods:
            self.add_event("Normal", "TriggeredScaleUp", f"pod triggered scale-up: [{plan}]", pod.key)

    def _reject_all(self, reason: str) -> None:
        """Turn all acceptances into rejections for a reason."""
        for pods in self.groups:
            pods.rejections.update({group: FilterRejection("", (reason,)) for group in pods.accepting_groups})
            pods.accepting_groups = []

    # -- what is said --------------------------------------------------------------------------------------------

    def _build_remaining(self) -> dict[str, RemainingPod]:
        """Return why no group grows for each pod without one."""
        event = self.result not in (SUCCESSFUL, FAILED)
        left = [pods for pods in self.groups if not pods.accepting_groups]
        if self.loop.options.scale_up_simulation_for_skipped_node_groups:
            for name in self.skipped:
                if name in self.loop.templates:
                    group = next(group for group in self.loop.groups.all if group.id == name)
                    self._try(left, group)
        remaining = {pod.key: self._explain_remaining(pods, event) for pods in left for pod in pods.pods}
        message = f"pod didn't trigger scale-up: {MAX_TOTAL}"
        return remaining | {pod.key: RemainingPod(message=message) for pod in self.limited}

    def _explain_remaining(self, pods: EquivalenceGroup, event: bool) -> RemainingPod:
        """Return the rejections, the skipped groups, and the event's message for pods of an equivalence group."""
        simulated = self.loop.options.scale_up_simulation_for_skipped_node_groups
        skipped = {
            name: reasons for name, reasons in self.skipped.items() if not (simulated and name in pods.rejections)
        }
        reasons = Counter(reason for refusal in pods.rejections.values() for reason in refusal.reasons)
        reasons.update(reason for reasons in skipped.values() for reason in reasons)
        parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        message = f"pod didn't trigger scale-up: {', '.join(parts)}"
        rejected = {name: GroupRefusal(*refusal) for name, refusal in pods.rejections.items()}
        certain = all(reasons != (UNKNOWN_TEMPLATE,) for reasons in skipped.values())
        return RemainingPod(rejected, skipped, message if event and certain else None)

    def report(self) -> ScaleUp:
        """Build the report of the loop."""
        loop = self.loop
        remaining = self._build_remaining()
        for key, pod in remaining.items():
            if pod.message is not None:
                self.add_event("Normal", "NotTriggerScaleUp", pod.message, key)
        best = self.best
        awaiting = [
            pods
            for pods in self.groups
            if best and pods.accepting_groups and best.group.id not in pods.accepting_groups
        ]
        return ScaleUp(
            unschedulable=_keys(loop.unschedulable) if self.begun else (),
            filtered_out=_keys(self.filtered_out),
            upcoming=loop.upcoming,
            cluster_healthy=loop.health.cluster_is_healthy,
            result=self.result,
            error=self.error,
            options=tuple(
                ExpansionOption(o.group.id, o.nodes, _keys(o.pods), tuple(similar.id for similar in o.similar))
                for o in self.options
            ),
            best=best.group.id if best else None,
            tied=self.tied,
            doubts=self.expander_doubts,
            increases=tuple(
                GroupIncrease(i.group.id, i.size, i.new_size)
                for i in sorted(self.increases, key=lambda increase: increase.group.id)
            ),
            triggered=_keys(best.pods) if best and self.result in (SUCCESSFUL, FAILED) else (),
            awaiting=tuple(pod.key for pods in awaiting for pod in pods.pods) if self.result == SUCCESSFUL else (),
            remaining=remaining,
            templates={} if loop.is_over else {name: self._build_template_report(name) for name in loop.templates},
            events=tuple(sorted(self.events, key=lambda e: (e.object, e.type, e.reason, e.message))),
            unknown_groups=tuple(n for n, why in self.skipped.items() if why == (UNKNOWN_TEMPLATE,)),
        )

    def _build_template_report(self, group: str) -> GroupTemplate:
        """Return the report of a group's template."""
        template = self.loop.templates[group]
        requested = self._sum_requests(template.pods)
        meta = template.node.metadata
        return GroupTemplate(
            tuple(map(get_source, template.pods)),
            requested["cpu"],
            requested["memory"],
            tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in template.node.spec.taints),
            {name: value for name, value in meta.labels.items() if name != HOSTNAME},
            template.node.spec.unschedulable,
        )

    def _sum_requests(self, pods: Iterable[Pod]) -> Counter[str]:
        """Return the total requests of pods."""
        requested: Counter[str] = Counter()
        for pod in pods:
            requested.update(self._requests(pod))
        return requested


def _keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)
