"""The report on the pod group of an explained pod: its pods, and the result of placing them together."""

from __future__ import annotations

from kschedctl.reports.document import Document


class MemberReport(Document, frozen=True):
    """A pod of the group that waits for a node."""

    pod: str
    verdict: str
    """Placed (with the other pods), Preempting (once its victims are gone), Unschedulable, Gated, Error or NotTried;
    in gangs of other projects also Terminating and Failed.
    """
    node: str = ""
    message: str = ""
    """Why the pod is not placed, in kube-scheduler's words."""


class PlacementReport(Document, frozen=True):
    """A topology domain in which the group was tried."""

    name: str
    nodes: int
    """The number of nodes in the domain."""
    pods: int
    """The number of the group's pods that fit there."""
    fits: bool
    """Whether that is enough."""
    blocking: str = ""
    """The first pod that did not fit."""
    message: str = ""
    """Why the blocking pod did not fit."""
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
    """Whether the outcome for the pod depends on the random order in which groups are tried."""
    all_orders: bool = True
    """Whether all orders were tried here."""


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
    """Why the required number of pods is not known."""
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
