"""Scale-up: the node groups that may grow for waiting pods, and by how many nodes they grow.

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
from kschedctl.autoscaling.cluster_autoscaler.estimator import EquivalenceGroup, Estimator, group_equivalent_pods
from kschedctl.autoscaling.cluster_autoscaler.expanders import (
    ExpanderChoice,
    Expanders,
    Increase,
    Option,
    TemplateShape,
    balance_increases,
    build_similarity_check,
)
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import ResourceTracker
from kschedctl.autoscaling.cluster_autoscaler.options import (
    AutoscaledGroup,
    NodeGroupList,
    read_autoscaled_groups,
    read_autoscaler_options,
)
from kschedctl.autoscaling.cluster_autoscaler.pods import (
    are_all_pods_new,
    describe_pod_controller,
    is_expendable,
    list_pod_keys,
)
from kschedctl.autoscaling.cluster_autoscaler.template_gaps import UnhelpedPods, iter_template_gaps
from kschedctl.autoscaling.growth import Begin, ignore_progress, iter_with_progress
from kschedctl.cluster import Cluster
from kschedctl.reports.cluster_autoscaler import (
    AutoscalerEvent,
    ExpansionOption,
    GroupIncrease,
    GroupRefusal,
    GroupTemplate,
    RemainingPod,
    ScaleUp,
)
from kschedctl.snapshot.nodes import HOSTNAME

MAX_DETAILED = 50
"""Maximum number of kinds of pods for which the figures behind rejections are reported."""
NAMESPACE = "kube-system"
NOT_READY, BACKED_OFF = "not ready for scale-up", "in backoff after failed scale-up"
AT_MAXIMUM = "max node group size reached"
UNKNOWN_TEMPLATE = "its node template is unknown"
"""Our own reason, which upstream does not have because the autoscaler knows the template."""
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
    """Replay the scale-up in the next loop of the Cluster Autoscaler (release 1.36).

    ``node_groups`` have id, min, max, target, nodes, template and options. ``options`` are the flags, and ``now`` is an
    RFC 3339 time. ``active_scale_ups`` has, for each group, the number of requested nodes that do not exist yet.
    ``begin`` reports progress. Invalid groups and options are left out and reported as ``faults``. Raises InputError
    for an invalid ``now``.
    """
    _run, report = replay_scale_up(
        cluster, node_groups, options, now=now, active_scale_ups=active_scale_ups, begin=begin
    )
    return report


def replay_scale_up(
    cluster: Cluster,
    node_groups: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    active_scale_ups: Mapping[str, int] | None = None,
    begin: Begin = ignore_progress,
) -> tuple[ScaleUpRun, ScaleUp]:
    """Replay the scale-up like ``scale_up``, with the same arguments, and return the run together with its report.

    The run is needed to create the new nodes.
    """
    groups = read_autoscaled_groups(node_groups)
    flags, option_faults = read_autoscaler_options(options or {})
    loop = AutoscalerLoop.from_cluster(cluster, groups, flags, now, active_scale_ups or {})
    run = run_scale_up_loop(loop, begin)
    report = run.build_report()

    def accepts_with_groups(changed: NodeGroupList, group: str, pod: Pod) -> bool:
        """Return whether the group would accept the pod in a new loop with the changed groups."""
        return would_group_accept_pod(
            AutoscalerLoop.from_cluster(cluster, changed, flags, now, active_scale_ups or {}), group, pod
        )

    gaps = tuple(iter_template_gaps(groups, loop.nodes, run.iter_unhelped_pods(), accepts_with_groups))
    ignored = {pod.key: pod.spec.priority or 0 for pod in run.filtered_out if is_expendable(pod, flags)}
    report = replace(
        report,
        faults=(*groups.errors, *option_faults),
        details=run.build_rejection_details(),
        template_gaps=gaps,
        ignored=ignored,
        priority_cutoff=flags.expendable_pods_priority_cutoff,
        would_accept=run.find_full_groups_accepting_pods(),
    )
    return run, report


def would_group_accept_pod(loop: AutoscalerLoop, group: str, pod: Pod) -> bool:
    """Return whether one more node of the group would accept the pod, even if the group may not grow.

    The answer is False if the group's template is unknown.
    """
    return group in loop.templates and ScaleUpRun(loop).describe_rejection_by_new_node(pod, group) is None


def run_scale_up_loop(loop: AutoscalerLoop, begin: Begin = ignore_progress) -> ScaleUpRun:
    """Run one loop of the autoscaler up to the end of its scale-up.

    No scale-up is tried if the loop ends immediately or the cluster is unhealthy. ``begin`` reports progress.
    """
    run = ScaleUpRun(loop)
    if loop.ends_immediately:
        return run
    if not loop.health.cluster_is_healthy:
        run.result = NOT_TRIED
        run.add_event("Warning", "ClusterUnhealthy", "Cluster is unhealthy")
        return run
    run.begun = True
    waiting = loop.place_waiting_pods()
    waiting_keys = {pod.key for pod in waiting}
    run.filtered_out = [pod for pod in loop.unschedulable if pod.key not in waiting_keys]
    run.scale_up_for_pods(loop.filter_old_enough_pods(waiting), begin)
    return run


@dataclass(eq=False)
class ScaleUpRun:
    """The decisions of one loop, with the data on which they are based."""

    loop: AutoscalerLoop
    begun: bool = False
    """True if the loop looked at pods."""
    result: str | None = None
    error: str | None = None
    filtered_out: list[Pod] = field(default_factory=list)
    """Pods that fit on existing or upcoming nodes."""
    options: list[Option] = field(default_factory=list)
    best: Option | None = None
    tied: tuple[str, ...] = ()
    """Groups among which chance decides upstream."""
    expander_doubts: tuple[str, ...] = ()
    """Reasons why the expander's choice cannot be determined."""
    increases: list[Increase] = field(default_factory=list)
    groups: list[EquivalenceGroup] = field(default_factory=list)
    """Equivalence groups of the pods that need a node."""
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Node group -> why it may not grow."""
    limited: list[Pod] = field(default_factory=list)
    """Pods that get no node because of the maximum number of nodes."""
    events: list[AutoscalerEvent] = field(default_factory=list)

    def add_event(self, type: str, reason: str, message: str, object: str = f"{NAMESPACE}/{STATUS_MAP}") -> None:
        """Add an event of a type, with a reason and a message, about an object, by default the status ConfigMap."""
        self.events.append(AutoscalerEvent(object, type, reason, message))

    def scale_up_for_pods(self, pods: Sequence[Pod], begin: Begin = ignore_progress) -> None:
        """Scale up for these pods and store the outcome in ``result``.

        Nothing is added if there are no pods, if all of them are new, or if the cluster has its maximum of nodes.
        Raises InputError if a quantity is malformed.
        """
        loop, max_nodes = self.loop, self.loop.options.max_nodes_total
        if not pods:
            self.result = NOT_NEEDED
        elif max_nodes > 0 and loop.ready_count >= max_nodes:
            self.result = LIMITED
            self.limited = list(pods)
            self.add_event("Warning", "MaxNodesTotalReached", f"Max total nodes in cluster reached: {max_nodes}")
        elif are_all_pods_new(pods, loop.now):
            self.result = COOLDOWN
        else:
            self._grow_for_pods(pods, begin)

    def _grow_for_pods(self, pods: Sequence[Pod], begin: Begin) -> None:
        """Build an option for each group that may grow, and grow the groups of the best option.

        The outcome is stored in ``result`` and ``error``, and the new sizes in ``increases``. ``begin`` reports the
        progress over the groups.
        """
        self.groups = group_equivalent_pods(pods)
        growable = self._select_growable_groups()
        for group in growable:
            self._try_pods_on_template(self.groups, group)  # records which pods the group accepts

        tried_groups = iter_with_progress(begin, "Asking node groups", growable)
        possible_options = [self._build_growth_option(group, growable) for group in tried_groups]
        self.options = [option for option in possible_options if option is not None]
        if not self.options:
            self.result = NO_OPTIONS
            return

        self.best, self.tied = self._choose_growth_option()
        if self.best is None:
            self._reject_pods_of_all_groups(FILTERED_OUT)
            self.result = NO_OPTIONS
            return

        count = self._cap_by_max_nodes_total(self.best.nodes)
        if count is None:
            self._reject_pods_of_all_groups(NOT_EXECUTED)
            self.result, self.error = FAILED, "max node total count already reached"
            return
        self.result = SUCCESSFUL
        self._grow_groups(self.best, count, growable)

    # -- which groups may grow ------------------------------------------------------------------------------------

    @cached_property
    def limit_tracker(self) -> ResourceTracker:
        """The tracker of how much of each resource the cluster-wide limits still allow to add to the existing nodes."""
        loop = self.loop
        nodes = [loop.snapshot.universe.nodes.objects[row] for row in loop.snapshot.order]
        group_by_node = {node_name: group.id for node_name, group in loop.groups.of_node.items()}
        return ResourceTracker.build_scale_up_tracker(loop.options, nodes, group_by_node)

    def _select_growable_groups(self) -> list[AutoscaledGroup]:
        """Return the groups that may grow, and record in ``skipped`` why the other groups may not."""
        growable = []
        for group in self.loop.groups.all:
            reason = self._find_skip_reason(group)
            if reason:
                self.skipped[group.id] = (reason,)
            else:
                growable.append(group)
        return growable

    def _list_groups_skipped_for(self, reason: str) -> list[str]:
        """Return the ids of the groups that may not grow for this reason."""
        return [group for group, reasons in self.skipped.items() if reason in reasons]

    def _find_skip_reason(self, group: AutoscaledGroup) -> str:
        """Return why a group may not grow, or "" if it may."""
        loop = self.loop
        if group.unhealthy or not loop.health.is_group_healthy(group):
            return NOT_READY
        if group.back_off is not None:
            return BACKED_OFF
        if group.headroom <= 0:
            return AT_MAXIMUM
        count = 1
        if group.options.zero_or_max_node_scaling:  # such a group grows to its maximum or not at all
            count = group.headroom
            if loop.options.max_nodes_total and len(loop.snapshot.order) + count > loop.options.max_nodes_total:
                return ATOMIC_TOO_LARGE
        if group.id not in loop.templates:
            return UNKNOWN_TEMPLATE if group.template_unknown else NOT_READY
        exceeded = self.limit_tracker.find_exceeded_limits(group.id, loop.templates[group.id].node, count)
        return f'exceeded quota: "cluster-wide", resources: {", ".join(exceeded)}' if exceeded else ""

    def describe_rejection_by_new_node(self, pod: Pod, group: str) -> str | None:
        """Describe why a new node of the group would reject a pod, or return None if the node would accept the pod.

        The text gives the requested and the available amounts. It is empty if they are not known.
        """
        snapshot = self.loop.snapshot.fork()
        row = self.loop.get_template_row(group)
        snapshot.add_node(row)
        return snapshot.describe_rejection(self.loop.get_position(pod), row)

    def iter_unhelped_pods(self) -> Iterator[UnhelpedPods]:
        """Yield the equivalence groups whose pods no new node of any node group would accept."""
        for equivalents in self._list_unaccepted_groups():
            first = equivalents.first
            yield UnhelpedPods(first, list_pod_keys(equivalents.pods), self._get_pod_requests(first))

    def _list_unaccepted_groups(self) -> list[EquivalenceGroup]:
        """Return the equivalence groups whose pods no new node of any node group would accept."""
        return [equivalents for equivalents in self.groups if not equivalents.accepting_groups]

    def build_rejection_details(self) -> dict[str, dict[str, str]]:
        """Return why a new node of each group would reject the pods that no node group accepts, by pod and node group.

        The texts give the requested and the available amounts. Similar pods share them. At most MAX_DETAILED kinds of
        pods are included.
        """
        details: dict[str, dict[str, str]] = {}
        at_maximum = self._list_groups_skipped_for(AT_MAXIMUM)
        unaccepted = self._list_unaccepted_groups()
        for equivalents in unaccepted[:MAX_DETAILED]:
            figures = {}
            for group in dict.fromkeys((*equivalents.rejections, *at_maximum)):
                if group in self.loop.templates:
                    text = self.describe_rejection_by_new_node(equivalents.first, group)
                    if text:
                        figures[group] = text
            details |= dict.fromkeys(list_pod_keys(equivalents.pods), figures)
        return details

    def find_full_groups_accepting_pods(self) -> dict[str, tuple[str, ...]]:
        """Return, by pod key, the node groups at their maximum size whose new nodes would accept the pod.

        Pods that another group accepts, and pods without such a group, are left out. Only the first MAX_DETAILED kinds
        of pods are tried.
        """
        at_maximum = self._list_groups_skipped_for(AT_MAXIMUM)
        groups_by_pod: dict[str, tuple[str, ...]] = {}
        unaccepted = self._list_unaccepted_groups()
        for equivalents in unaccepted[:MAX_DETAILED]:
            accepting = tuple(
                group
                for group in at_maximum
                if group in self.loop.templates
                and self.describe_rejection_by_new_node(equivalents.first, group) is None
            )
            if accepting:
                groups_by_pod |= dict.fromkeys(list_pod_keys(equivalents.pods), accepting)
        return groups_by_pod

    def count_acceptable_pods(self, pods: Iterable[Pod]) -> Mapping[str, int]:
        """Return, by node group, how many of the pods a new node would accept if each were its only pod.

        Groups that may not grow are included, and groups without a template are left out.
        """
        equivalence_groups = group_equivalent_pods(pods)
        node_groups = [group for group in self.loop.groups.all if group.id in self.loop.templates]
        for node_group in node_groups:
            self._try_pods_on_template(equivalence_groups, node_group)  # records the groups that accept the pods
        return {
            node_group.id: sum(
                len(equivalents.pods)
                for equivalents in equivalence_groups
                if node_group.id in equivalents.accepting_groups
            )
            for node_group in node_groups
        }

    def _try_pods_on_template(self, pod_groups: Iterable[EquivalenceGroup], node_group: AutoscaledGroup) -> None:
        """Record in each equivalence group whether a new node of the node group accepts its first pod."""
        snapshot = self.loop.snapshot.fork()
        row = self.loop.get_template_row(node_group.id)
        snapshot.add_node(row)
        for pod_group in pod_groups:
            rejection = snapshot.find_rejection(self.loop.get_position(pod_group.first), row)
            if rejection is None:
                pod_group.accepting_groups.append(node_group.id)
            else:
                pod_group.rejections[node_group.id] = rejection

    # -- options --------------------------------------------------------------------------------------------------

    def _build_growth_option(self, group: AutoscaledGroup, growable: Sequence[AutoscaledGroup]) -> Option | None:
        """Build the option to grow a group for the pods that it accepts.

        Return None if new nodes of the group would help no pod.
        """
        accepted = [equivalents for equivalents in self.groups if group.id in equivalents.accepting_groups]
        if not accepted:
            return None
        similar = self._find_similar_groups(group, growable)
        estimator = Estimator(
            self.loop.snapshot,
            self.loop.get_template_row(group.id),
            self.loop.templates[group.id].node,
            max_nodes=self._compute_max_new_nodes(group, similar),
            get_position=self.loop.get_position,
        )
        estimate = estimator.estimate_node_count(accepted)
        if not estimate.nodes or not estimate.pods:
            return None
        # as upstream, which counts all nodes of a group that grows to its maximum or not at all
        count = group.max if group.options.zero_or_max_node_scaling else estimate.nodes
        return Option(group, count, tuple(estimate.pods), tuple(similar))

    def _compute_max_new_nodes(self, group: AutoscaledGroup, similar: Sequence[AutoscaledGroup]) -> int | None:
        """Return how many nodes an estimate may add to the group and similar groups, or None if this is unlimited."""
        options = self.loop.options
        limits = []
        if options.max_nodes_per_scale_up:
            limits.append(options.max_nodes_per_scale_up)
        headroom = sum(max(member.headroom, 0) for member in (group, *similar))
        if headroom:  # as upstream, where 0 sets no limit
            limits.append(headroom)
        if options.max_nodes_total > 0:
            limits.append(max(options.max_nodes_total - len(self.loop.snapshot.order), 0))
        return min(limits, default=None)

    def _find_similar_groups(
        self, group: AutoscaledGroup, growable: Sequence[AutoscaledGroup]
    ) -> list[AutoscaledGroup]:
        """Return the growable groups that are similar to the group and accept at least the same pods.

        The list is empty if balancing is off or if the group accepts no waiting pods. It is also empty for a group that
        only scales from zero to its maximum at once.
        """
        if not self.loop.options.balance_similar_node_groups or group.options.zero_or_max_node_scaling:
            return []
        accepted = {id(equivalents) for equivalents in self.groups if group.id in equivalents.accepting_groups}
        if not accepted:
            return []
        are_similar = build_similarity_check(self.loop.options)
        shape = self._build_template_shape(group)
        similar = []
        for other in growable:
            if other.id == group.id or not are_similar(shape, self._build_template_shape(other)):
                continue
            accepted_by_other = {
                id(equivalents) for equivalents in self.groups if other.id in equivalents.accepting_groups
            }
            if accepted <= accepted_by_other:
                similar.append(other)
        return similar

    def _build_template_shape(self, group: AutoscaledGroup) -> TemplateShape:
        """Build the data by which a group's template is compared with the templates of other groups."""
        template = self.loop.templates[group.id]
        return TemplateShape(template.node, self._sum_requests(template.pods))

    def _get_pod_requests(self, pod: Pod) -> Mapping[str, int]:
        """Return the requests of a pod, in millicores, bytes or units."""
        return self.loop.get_pod_requests(self.loop.get_position(pod))

    def _choose_growth_option(self) -> ExpanderChoice:
        """Let the expanders choose one of ``options``, and record their events and doubts.

        Raises InputError if a quantity is malformed.
        """
        events: list[tuple[str, str, str]] = []
        config_maps = (
            config_map
            for config_map in self.loop.cluster.config_maps
            if (config_map.metadata.namespace, config_map.metadata.name) == (NAMESPACE, PRIORITY_MAP)
        )
        templates = {name: template.node for name, template in self.loop.templates.items()}
        expanders = Expanders(templates, self._get_pod_requests, next(config_maps, None), events)
        choice = expanders.choose_expansion_option(self.loop.options.expander, self.options)
        self.expander_doubts = tuple(expanders.doubts)
        for type, reason, message in events:
            self.add_event(type, reason, message, f"{NAMESPACE}/{PRIORITY_MAP}")
        return choice

    # -- growing --------------------------------------------------------------------------------------------------

    def _cap_by_max_nodes_total(self, count: int) -> int | None:
        """Return how many of ``count`` new nodes ``--max-nodes-total`` allows, or None if it allows none.

        Add an event if it does not allow all.
        """
        max_nodes = self.loop.options.max_nodes_total
        remaining = max_nodes - len(self.loop.snapshot.order)
        if max_nodes <= 0 or count <= remaining:  # 0 sets no maximum
            return count
        self.add_event("Warning", "MaxNodesTotalReached", f"Max total nodes in cluster reached: {max_nodes}")
        return remaining if remaining > 0 else None

    def _grow_groups(self, best: Option, count: int, growable: Sequence[AutoscaledGroup]) -> None:
        """Divide ``count`` new nodes among the best option's group and similar groups, within the resource limits.

        The groups that grow are added to ``increases`` with their new sizes, and events report them.
        """
        loop, tracker = self.loop, self.limit_tracker
        count = tracker.limit_node_count(best.group.id, loop.templates[best.group.id].node, count)
        similar_groups = [
            similar
            for similar in self._find_similar_groups(best.group, growable)
            if not tracker.find_exceeded_limits(similar.id, loop.templates[similar.id].node, count=1)
        ]
        for increase in balance_increases([best.group, *similar_groups], count):
            group = increase.group
            template = loop.templates[group.id].node
            allowed = tracker.limit_node_count(group.id, template, increase.new_size - increase.size)
            if allowed > 0:
                tracker.charge_nodes(group.id, template, allowed)
                self.increases.append(increase._replace(new_size=increase.size + allowed))
        self._add_growth_events(best)

    def _add_growth_events(self, best: Option) -> None:
        """Add the events about increased groups and about the pods that triggered the increase."""
        for increase in self.increases:
            size, name = increase.new_size, increase.group.id
            previous_size = f"instead of {increase.size} (max: {increase.group.max})"
            # as upstream, which reports the size before and after it is set
            self.add_event("Normal", "ScaledUpGroup", f"Scale-up: setting group {name} size to {size} {previous_size}")
            message = f"Scale-up: group {name} size set to {size} {previous_size}"
            self.add_event("Normal", "ScaledUpGroup", message)
        plan = " ".join(
            f"{{{increase.group.id} {increase.size}->{increase.new_size} (max: {increase.group.max})}}"
            for increase in self.increases
        )
        for pod in best.pods:
            self.add_event("Normal", "TriggeredScaleUp", f"pod triggered scale-up: [{plan}]", pod.key)

    def _reject_pods_of_all_groups(self, reason: str) -> None:
        """Record a rejection with this reason for every group that accepts pods, so that no group grows."""
        for equivalents in self.groups:
            rejections = {group: FilterRejection("", (reason,)) for group in equivalents.accepting_groups}
            equivalents.rejections.update(rejections)
            equivalents.accepting_groups = []

    # -- the report -----------------------------------------------------------------------------------------------

    def _build_remaining_pods(self) -> dict[str, RemainingPod]:
        """Build the report entry of each pod for which no group grows, by the pod's key.

        With ``--scale-up-simulation-for-skipped-node-groups``, the pods are also tried on the templates of skipped
        groups. The entries of pods that the maximum number of nodes keeps out have only a message.
        """
        # As in upstream, the event about a pod is written only if the scale-up has neither succeeded nor failed.
        writes_event = self.result not in (SUCCESSFUL, FAILED)
        unaccepted = self._list_unaccepted_groups()
        if self.loop.options.scale_up_simulation_for_skipped_node_groups:
            for name in self.skipped:
                if name in self.loop.templates:
                    group = next(group for group in self.loop.groups.all if group.id == name)
                    self._try_pods_on_template(unaccepted, group)  # records the rejections by the group
        remaining = {
            pod.key: self._build_entry_of_rejected_pods(equivalents, writes_event=writes_event)
            for equivalents in unaccepted
            for pod in equivalents.pods
        }
        message = f"pod didn't trigger scale-up: {MAX_TOTAL}"
        return remaining | {pod.key: RemainingPod(message=message) for pod in self.limited}

    def _build_entry_of_rejected_pods(self, equivalents: EquivalenceGroup, *, writes_event: bool) -> RemainingPod:
        """Build the report entry for the pods of an equivalence group that no node group accepts.

        The entry has the autoscaler's message only if ``writes_event`` is set and all skipped groups have a known
        template.
        """
        skipped = dict(self.skipped)
        if self.loop.options.scale_up_simulation_for_skipped_node_groups:
            # A skipped group whose template was tried with the pods has a reason of its own for the rejection
            skipped = {name: reasons for name, reasons in skipped.items() if name not in equivalents.rejections}
        rejected = {name: GroupRefusal(*rejection) for name, rejection in equivalents.rejections.items()}
        are_templates_known = all(UNKNOWN_TEMPLATE not in reasons for reasons in skipped.values())
        if not writes_event or not are_templates_known:
            return RemainingPod(rejected, skipped, message=None)

        # The message counts each reason, in alphabetical order of these counts
        reason_counts: Counter[str] = Counter()
        for rejection in equivalents.rejections.values():
            reason_counts.update(rejection.reasons)
        for reasons in skipped.values():
            reason_counts.update(reasons)
        counted_reasons = sorted(f"{count} {reason}" for reason, count in reason_counts.items())
        return RemainingPod(rejected, skipped, f"pod didn't trigger scale-up: {', '.join(counted_reasons)}")

    def build_report(self) -> ScaleUp:
        """Build the report of the loop, and add the events about pods for which no group grows."""
        loop, best = self.loop, self.best
        remaining = self._build_remaining_pods()
        for key, pod in remaining.items():
            if pod.message is not None:
                self.add_event("Normal", "NotTriggerScaleUp", pod.message, key)
        events = sorted(self.events, key=lambda event: (event.object, event.type, event.reason, event.message))

        options = [
            ExpansionOption(
                option.group.id, option.nodes, list_pod_keys(option.pods), tuple(group.id for group in option.similar)
            )
            for option in self.options
        ]
        increases = [
            GroupIncrease(increase.group.id, increase.size, increase.new_size)
            for increase in sorted(self.increases, key=lambda increase: increase.group.id)
        ]
        templates = {}
        if not loop.ends_immediately:
            templates = {name: self._build_template_report(name) for name in loop.templates}
        return ScaleUp(
            unschedulable=list_pod_keys(loop.unschedulable) if self.begun else (),
            filtered_out=list_pod_keys(self.filtered_out),
            upcoming=loop.upcoming,
            cluster_healthy=loop.health.cluster_is_healthy,
            result=self.result,
            error=self.error,
            options=tuple(options),
            best=best.group.id if best else None,
            tied=self.tied,
            doubts=self.expander_doubts,
            increases=tuple(increases),
            triggered=list_pod_keys(best.pods) if best and self.result in (SUCCESSFUL, FAILED) else (),
            awaiting=self._list_pods_awaiting_later_loop(best) if best and self.result == SUCCESSFUL else (),
            remaining=remaining,
            templates=templates,
            events=tuple(events),
            unknown_groups=tuple(self._list_groups_skipped_for(UNKNOWN_TEMPLATE)),
        )

    def _list_pods_awaiting_later_loop(self, best: Option) -> tuple[str, ...]:
        """Return the keys of the pods that some groups accept, but not the group that grows in this loop."""
        keys: list[str] = []
        for pod_group in self.groups:
            if pod_group.accepting_groups and best.group.id not in pod_group.accepting_groups:
                keys += list_pod_keys(pod_group.pods)
        return tuple(keys)

    def _build_template_report(self, group: str) -> GroupTemplate:
        """Build the report of a group's template, with the total requests of its pods."""
        template = self.loop.templates[group]
        requested = self._sum_requests(template.pods)
        meta = template.node.metadata
        return GroupTemplate(
            pods=tuple(map(describe_pod_controller, template.pods)),
            cpu_milli=requested["cpu"],
            memory=requested["memory"],
            taints=tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in template.node.spec.taints),
            labels={name: value for name, value in meta.labels.items() if name != HOSTNAME},
            unschedulable=template.node.spec.unschedulable,
        )

    def _sum_requests(self, pods: Iterable[Pod]) -> Counter[str]:
        """Return the total requests of the pods, by resource."""
        requested: Counter[str] = Counter()
        for pod in pods:
            requested.update(self._get_pod_requests(pod))
        return requested
