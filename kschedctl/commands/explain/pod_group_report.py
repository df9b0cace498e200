"""The report on the pod group of an explained pod: its pods, the result of placing them together, and why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.reports.document import Document
from kschedctl.text.counts import agreeing, counted


class MemberReport(Document, frozen=True):
    """A pod of the group that waits for a node."""

    pod: str
    verdict: str
    """Placed (with the other pods), Preempting (once its victims are gone), Unschedulable, Gated, Error or NotTried;
    in gangs of other projects also Terminating and Failed.
    """
    node: str = ""
    message: str = ""
    """The reason why the pod is not placed, in kube-scheduler's words."""


class PlacementReport(Document, frozen=True):
    """A topology domain in which the group was tried."""

    name: str
    nodes: int
    """The number of nodes in the domain."""
    pods: int
    """The number of the group's pods that fit there."""
    fits: bool
    """True if that is enough."""
    blocking: str = ""
    """The first pod that did not fit."""
    message: str = ""
    """The reason why the blocking pod did not fit."""
    score: int | None = None
    """The score of the domain; the highest one is chosen."""


class GangTask(Document, frozen=True):
    """A task of a Volcano gang."""

    name: str
    least: int
    """The number of pods that must have a node."""
    pods: int
    """The number of pods that exist."""
    fitting: int
    """The number of pods that would have a node."""


class GroupOfTree(Document, frozen=True):
    """A PodGroup or CompositePodGroup in a tree of groups."""

    kind: str
    name: str
    policy: str
    least: int
    """The number of its pods or groups that must have nodes."""
    verdict: str
    message: str = ""
    parent: str = ""
    """The CompositePodGroup that contains it."""
    topology: str = ""
    """The label of which all nodes of the group must share a value."""


class GroupTreeReport(Document, frozen=True):
    """The tree of CompositePodGroups that contains a PodGroup.

    All groups of the tree are placed together, as their policies demand.
    """

    name: str
    verdict: str
    groups: tuple[GroupOfTree, ...] = ()
    """All groups, from the root down."""
    victims: tuple[str, ...] = ()
    """The pods that would be preempted."""
    by_chance: bool = False
    """True if the outcome for the pod depends on the random order in which groups are tried."""
    all_orders: bool = True
    """True if all orders were tried here."""


class PodGroupReport(Document, frozen=True):
    """The group of a pod, and the result of placing its pods together."""

    name: str
    verdict: str
    """Placed, WaitsForPreemption, Unschedulable, Error, or Incomplete if the group is not tried. For a gang about
    which another project decides: whether kube-scheduler's filters have room for all pods at once.
    """
    policy: str = ""
    """"gang" or "basic"; empty if the group does not exist or was not read. With "basic", pods are placed one by
    one.
    """
    min_count: int = 0
    """The number of pods of a gang that must have a node at once."""
    pods: int = 0
    """The number of pods that exist."""
    scheduled: int = 0
    """The number of pods that have a node."""
    missing: int = 0
    """The number of pods that must be created before any pod is tried."""
    message: str = ""
    """The message that the scheduler writes into the condition."""
    condition: str = "PodGroupScheduled"
    """The type of the condition that the scheduler sets on the group."""
    topology: str = ""
    """The label of which all nodes of the group must share a value."""
    members: tuple[MemberReport, ...] = ()
    placements: tuple[PlacementReport, ...] = ()
    """The topology domains in which the group was tried."""
    victims: tuple[str, ...] = ()
    """The pods that would be preempted."""
    deadlocked_with: tuple[str, ...] = ()
    """Other gangs that hold nodes for a part of their pods, and whose nodes would let this gang fit."""
    waits_for: tuple[str, ...] = ()
    """Other groups for which Permit makes the pods wait although they fit."""
    apart: tuple[str, ...] = ()
    """Groups that the groups in `waits_for` wait for in turn."""
    project: str = ""
    """The project of the group: scheduler-plugins, Volcano or Kueue; empty for Kubernetes' own groups."""
    decided_by: str = ""
    """The project that decides about the group by rules that are not replayed; empty if kube-scheduler does."""
    held_back: int = 0
    """The number of pods that Kueue's gates hold back."""
    fitting: int = 0
    """The number of pods that would have a node, including those that have one."""
    ended: int = 0
    """The number of succeeded pods. Volcano and Kueue count them as if they had a node."""
    problem: str = ""
    """The reason why the required number of pods is not known."""
    tasks: tuple[GangTask, ...] = ()
    """The tasks of a Volcano gang."""
    queue: str = ""
    """The queue in Volcano's object."""
    phase: str = ""
    """The phase in Volcano's object."""
    tree: GroupTreeReport | None = None
    """The tree of groups, if a CompositePodGroup contains the group."""

    @property
    def short_name(self) -> str:
        """The name without the namespace."""
        return self.name.partition("/")[2]


PLACED, INCOMPLETE, GATED = "Placed", "Incomplete", "Gated"


def describe_group_failure(group: PodGroupReport, verdict: str, *, is_rejected_early: bool) -> str:
    """Describe why the group of a pod is not placed. Return an empty string if the group is not to blame.

    `verdict` is the verdict on the pod itself, and `is_rejected_early` says whether PreFilter rejects it.
    """
    if group.project:
        return _describe_gang_failure(group, verdict, is_rejected_early=is_rejected_early)
    if group.missing and verdict == GATED:
        return _describe_incomplete_gang(group)
    if verdict == GATED or group.verdict in (PLACED, INCOMPLETE):
        return ""
    return _describe_unplaced_group(group)


def _describe_gang_failure(group: PodGroupReport, verdict: str, *, is_rejected_early: bool) -> str:
    """Describe why a gang of another project is not placed, or return "" if the gang is not to blame.

    The other projects are scheduler-plugins, Volcano and Kueue. A deadlock with other gangs comes first, and then a
    project that decides by rules that are not replayed. Otherwise, the gang is not to blame if the pod is gated or its
    pods are placed one by one. If all members exist, it is not to blame either if enough of them fit or PreFilter
    rejects the pod.
    """
    # These two causes explain the failure even if enough pods fit.
    if group.deadlocked_with and verdict not in ("Schedulable", "Error"):
        return _describe_gang_deadlock(group)
    if group.decided_by:
        return _describe_externally_decided_gang(group)

    # No gang decides about pods that are placed one by one, or about a gated pod.
    if group.policy != "gang" or verdict == GATED:
        return ""

    # A gang that lacks members is rejected before its pods are tried.
    if group.missing:
        return _describe_incomplete_gang(group)
    has_enough_pods = group.verdict == PLACED or group.fitting >= group.min_count
    if has_enough_pods or is_rejected_early:
        return ""
    return _describe_unplaced_group(group)


def describe_bound_gang_failure(group: PodGroupReport) -> str:
    """Describe why a gang whose pods are bound together is not placed. Return "" if it is placed.

    If the required number of pods cannot be determined, the text says why.
    """
    if group.problem:
        return group.problem
    if group.verdict == PLACED:
        return ""
    if group.deadlocked_with:
        return _describe_gang_deadlock(group)
    return _describe_incomplete_gang(group) if group.missing else _describe_unplaced_group(group)


def _describe_externally_decided_gang(group: PodGroupReport) -> str:
    """Describe how many pods of the gang exist or fit. Another project places it by rules that are not replayed."""
    project, name = group.decided_by, group.short_name
    if group.missing:
        return f"its gang {name} has {group.pods} of the {counted(group.min_count, 'pod')} that {project} waits for"
    if not group.policy:
        return f"{project} decides about its gang {name}: {group.problem}"
    fitting = f"all {group.fitting}" if group.verdict == PLACED else f"{group.fitting} of {group.min_count}"
    return f"according to kube-scheduler's filters, {fitting} pods of its gang {name} fit at once; {project} decides"


def _describe_unplaced_group(group: PodGroupReport) -> str:
    """Describe why the group is not placed. The tree of groups that contains it may be the reason."""
    tree_outcome = _describe_unplaced_tree(group, group.tree) if group.tree else ""
    return tree_outcome or _describe_why_group_is_unplaced(group)


def _describe_why_group_is_unplaced(group: PodGroupReport) -> str:
    """Describe why the group itself is not placed, ignoring the group tree that it belongs to.

    Return "" if a single pod of the group is enough and no topology is demanded.
    """
    name = group.short_name
    if group.verdict == "WaitsForPreemption":
        return f"its pod group {name} fits once {_format_victim_count(len(group.victims))} made room for it"
    if group.verdict == "Error":
        return f"scheduling its pod group {name} fails with an error: {group.message}"
    if group.deadlocked_with:
        return _describe_gang_deadlock(group)
    if group.topology and not group.placements:
        return f"its pod group {name} has to be in one {group.topology}, but no node has that label"
    if not group.min_count:  # a single pod that fits is enough
        return f"no pod of its group {name} fits in any {group.topology}" if group.topology else ""
    return _describe_gang_shortage(group)


def _format_victim_count(count: int) -> str:
    """Return the number of victims with its verb, such as "1 pod has"."""
    return f"{counted(count, 'pod')} {agreeing(count, 'has', 'have')}"


def _describe_unplaced_tree(group: PodGroupReport, tree: GroupTreeReport) -> str:
    """Describe why the tree of groups is not placed: it waits for preemption, fails with an error, or does not fit.

    Return "" if the pod's own group failed by itself, or if the tree or the group is placed.
    """
    root = tree.groups[0]
    own_group = next(member for member in tree.groups if member.kind == "PodGroup" and member.name == group.short_name)
    if tree.verdict == "WaitsForPreemption":
        return f"its CompositePodGroup {root.name} fits once {_format_victim_count(len(tree.victims))} made room for it"
    if tree.verdict == "Error":
        return f"scheduling its CompositePodGroup {root.name} fails with an error: {root.message}"
    # The root's failure is copied into the groups below it, so a group with another message failed by itself
    if PLACED in (tree.verdict, own_group.verdict) or own_group.message != root.message:
        return ""
    domain = f" in one {root.topology}" if root.topology else ""
    return (
        f"its CompositePodGroup {root.name} needs nodes for {counted(root.least, 'group')} at once{domain}, but fewer "
        "fit"
    )


def _describe_gang_shortage(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods fit, or, if enough fit, for which gangs they wait at Permit."""
    if group.waits_for and _count_fitting_members(group) + group.scheduled >= group.min_count:
        return _describe_gang_wait(group)
    domain = f" in one {group.topology}" if group.topology else ""
    most_fitting = max((placement.pods for placement in group.placements), default=_count_fitting_members(group))
    fitting = most_fitting + group.scheduled
    nodes = "a node" if group.min_count == 1 else "nodes"
    needed_nodes = f"{nodes} for {counted(group.min_count, 'pod')} at once{domain}"
    fits = f"only {fitting:,} {agreeing(fitting, 'fits', 'fit')}" if fitting else "none fits"
    return f"its gang {group.short_name} needs {needed_nodes}, but {fits}"


def _describe_incomplete_gang(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods are still missing."""
    needed_pods = counted(group.min_count, "pod")
    return (
        f"its gang {group.short_name} has {group.pods:,} of the {needed_pods} that it needs; until they exist, no pod "
        "is tried"
    )


def _describe_gang_wait(group: PodGroupReport) -> str:
    """Describe which gangs a fitting gang waits for at Permit.

    If those gangs wait for further gangs, the text names these too, and says that no pod is ever bound.
    """
    message = f"its gang {group.short_name} fits, but waits at Permit for {_join_gang_names(group.waits_for)}"
    next_waits_for = group.apart  # the gangs that the awaited gangs wait for
    if not next_waits_for:
        return message
    return f"{message}, whose pods wait for {_join_gang_names(next_waits_for)}: no pod is ever bound"


def _join_gang_names(names: Sequence[str]) -> str:
    """Join the names of gangs, such as "gangs ml/a and ml/b"."""
    return f"{agreeing(len(names), 'gang', 'gangs')} {' and '.join(names)}"


def _describe_gang_deadlock(group: PodGroupReport) -> str:
    """Describe the deadlock between the gang and another gang, each of which holds nodes that the other needs."""
    placed_pods = f"{group.scheduled} of the {counted(group.min_count, 'pod')} of its gang {group.short_name}"
    held = "holds a node" if group.scheduled == 1 else "hold nodes"
    other = group.deadlocked_with[0]
    return f"deadlock: {placed_pods} {held}, and its other pods need the nodes that gang {other} holds in the same way"


def suggest_deadlock_end(group: PodGroupReport) -> str:
    """Suggest which gang to delete to end the deadlock. Return an empty string if there is no deadlock."""
    if not group.deadlocked_with:
        return ""
    other = group.deadlocked_with[0]
    return f"Suspend or delete {other}: in a replay, {group.name} then fits in its place, or vice versa"


def _count_fitting_members(group: PodGroupReport) -> int:
    """Return the number of members that fit, with or without preemption."""
    return sum(member.verdict in ("Placed", "Preempting") for member in group.members)
