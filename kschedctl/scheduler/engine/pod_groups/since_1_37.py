"""Behavior of pod groups that changed in v1.37, and the checks before any pod of a group is tried.

Upstream: validatePodGroup and updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go, PodGroupPostFilter in
plugins/defaultpreemption/default_preemption.go, selectVictimsOnDomain in framework/preemption/podgrouppreemption.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.pod_groups.hierarchy import find_placed_pods
from kschedctl.scheduler.engine.pod_groups.state import get_group_priority
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import SUCCESS, Code, Plugin, Status, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

UNTIL_INFEASIBLE = ByVersion(
    "extension point that decides whether enough pods of a group have a node",
    (("", False), ("1.37", True)),
    "#138643, #140412",
    bool_texts=("Permit", "PlacementFeasible"),
)
LIKE_ITS_PODS = ByVersion(
    "the pods of a group must have the group's priority and the same preemptionPolicy",
    (("", False), ("1.37", True)),
    "#139920, #140359, #140183",
)
REPORTS_VIOLATIONS = ByVersion(
    "an invalid pod group has a condition that says why its pods are not tried",
    (("", False), ("1.37", True)),
    "#139920, #140359, #140183",
)
CONDITION = ByVersion(
    "condition that says whether a PodGroup was scheduled",
    (("", "PodGroupScheduled"), ("1.37", "PodGroupInitiallyScheduled")),
    "#139743",
)
LEFT_OVER_AT_ONCE = ByVersion(
    "unscheduled pods of a group are retried as soon as other pods of the group get a node",
    (("", False), ("1.37", True)),
    "#139613",
)
KEEPS_ITS_NODES = ByVersion(
    "when a pod group preempts, its pods keep their nodes while the scheduler decides which victims to spare",
    (("", False), ("1.37", True)),
    "#138757, #139980",
)
CONSTRAINED_PREEMPT = ByVersion(
    "pod groups with scheduling constraints can preempt", (("", False), ("1.37", True)), "#140683"
)
NOMINATES_MEMBERS = ByVersion(
    "when a pod group preempts, its pods get a nominatedNodeName",
    (("", False), ("1.37", True)),
    "#138967, #140590",
)
WAITS_FOR_VICTIMS = ByVersion(
    "a pod group does not preempt again while its victims on the nominated nodes are terminating",
    (("", False), ("1.37", True)),
    "#138710, #140641",
)
NO_PREFIX = "none"
MESSAGE_PREFIX = ByVersion(
    "prefix of the message for a pod group that preempts",
    (("", NO_PREFIX), ("1.37", "pod group preemption: ")),
    "#139218, #139674, #140311",
)
IN_PREEMPTION: tuple[ByVersion[object], ...] = (
    KEEPS_ITS_NODES,
    CONSTRAINED_PREEMPT,
    NOMINATES_MEMBERS,
    WAITS_FOR_VICTIMS,
    MESSAGE_PREFIX,
)

NOT_OF_ONE = "all pods in a single pod group should have the same "
SEVERAL_SCHEDULERS = NOT_OF_ONE + '.spec.schedulerName set, got: "{}" and "{}"'
OTHER_PRIORITY = NOT_OF_ONE + "priority as the pod group's priority, got {} and {}"
OTHER_POLICY = NOT_OF_ONE + "preemption policy, got {} and {}"
NOT_ITS_POLICY = NOT_OF_ONE + "preemption policy as the pod group's preemption policy, got {} and {}"
PREEMPTS, NEVER = "PreemptLowerPriority", "Never"


class GroupProgress(NamedTuple):
    """The number of pods (or groups) of a group that have nodes, and the number not tried yet."""

    scheduled: int
    remaining: int


@runtime_checkable
class PlacementFeasiblePlugin(Plugin, Protocol):
    """A plugin that decides whether enough pods of a group have a node."""

    def check_placement_feasibility(self, group: AnyGroup, progress: GroupProgress) -> Status:
        """Return Success if the group can be bound, Wait if it cannot yet, and Unschedulable if it never can."""


def run_placement_feasible(framework: FrameworkLike, group: AnyGroup, progress: GroupProgress) -> Status:
    """Run the PlacementFeasible plugins, and return the first status that is not Success, otherwise Success."""
    plugins = [plugin for plugin in framework.plugins_at("preEnqueue") if offers(plugin, PlacementFeasiblePlugin)]
    statuses = (plugin.check_placement_feasibility(group, progress) for plugin in plugins)
    return next((status for status in statuses if status.code is not Code.SUCCESS), SUCCESS)


def find_validation_error(
    group: AnyGroup | None, waiting: Mapping[Position, PodInfo], view: Fork, release: KubeVersion
) -> str:
    """Return why the pods of a group cannot be tried, or an empty string if they can.

    `waiting` has the group's waiting pods in order. `group` is None if the object does not exist.
    """
    return next(_iter_validation_errors(group, waiting, view, release), "")


def _iter_validation_errors(
    group: AnyGroup | None, waiting: Mapping[Position, PodInfo], view: Fork, release: KubeVersion
) -> Iterator[str]:
    """Yield the reasons why the pods of a group cannot be tried.

    Before v1.37, the waiting pods must share a schedulerName. Since then, all waiting and placed pods must match the
    group, if its object exists.
    """
    infos = list(waiting.values())
    if not LIKE_ITS_PODS.at(release):
        names = dict.fromkeys(info.spec.scheduler_name for info in infos)
        if len(names) > 1:
            yield SEVERAL_SCHEDULERS.format(*names)
    elif infos and group is not None:
        placed = (view.pods.get_info(position) for position in find_placed_pods(view, group).tolist())
        yield from _iter_member_errors((*infos, *placed), group, infos[0], view)


def never_preempts(group: AnyGroup, infos: Iterable[PodInfo], view: Fork) -> bool:
    """Return whether a group must not preempt.

    The preemption policy of the group decides. In versions in which groups have no policy, the policies of its pods
    decide.
    """
    if view.settings.policies_of_groups:
        return group.spec.preemption_policy not in (None, PREEMPTS)
    return any(info.spec.preemption_policy == NEVER for info in infos)


def _iter_member_errors(infos: Iterable[PodInfo], group: AnyGroup, first: PodInfo, view: Fork) -> Iterator[str]:
    """Yield an error for each scheduler name, priority or preemption policy of a pod that differs from its group's.

    The scheduler name is compared with the name in the `first` pod. In versions in which groups have no preemption
    policy, the policy is compared with the policy of the `first` pod.
    """
    priority = get_group_priority(group, view)
    if view.settings.policies_of_groups:
        policy = group.spec.preemption_policy or PREEMPTS
        policy_error = NOT_ITS_POLICY
    else:
        policy = _get_preemption_policy(first)
        policy_error = OTHER_POLICY

    for info in infos:
        if info.spec.scheduler_name != first.spec.scheduler_name:
            yield SEVERAL_SCHEDULERS.format(info.spec.scheduler_name, first.spec.scheduler_name)
        if info.priority != priority:
            yield OTHER_PRIORITY.format(info.priority, priority)
        if _get_preemption_policy(info) != policy:
            yield policy_error.format(_get_preemption_policy(info), policy)


def _get_preemption_policy(info: PodInfo) -> str:
    """Return the pod's preemption policy, which is PreemptLowerPriority by default."""
    return info.spec.preemption_policy or PREEMPTS
