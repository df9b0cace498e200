"""The pod group of a pod that is explained: who is there, who is missing, and what placing them together comes to."""

from __future__ import annotations

from kschedctl.reports.document import Document


class MemberReport(Document, frozen=True):
    """A pod of the group that waits for a node.

    ``verdict``: Placed (on ``node``, with the others), Preempting (on ``node``, once its victims are gone),
    Unschedulable, Gated (it is not tried), Error or NotTried. ``message``: why it is not placed, in kube-scheduler's
    words. Of gangs of other projects those are told too that are of no use any more: Terminating and Failed.
    """

    pod: str
    verdict: str
    node: str = ""
    message: str = ""


class PlacementReport(Document, frozen=True):
    """A topology domain in which the group was tried: how many of its pods fit on its ``nodes``, and is that enough.

    ``blocking``: the first pod that did not fit there, and ``message`` why. ``score``: of those that fit, the highest
    is taken.
    """

    name: str
    nodes: int
    pods: int
    fits: bool
    blocking: str = ""
    message: str = ""
    score: int | None = None


class GangTask(Document, frozen=True):
    """A task of a gang of Volcano: of the ``pods`` that it has ``fitting`` would have a node, and ``least`` have to."""

    name: str
    least: int
    pods: int
    fitting: int


class GroupOfTree(Document, frozen=True):
    """A PodGroup or CompositePodGroup of a tree: how many of its pods or groups (``least``) have to have nodes.

    ``parent``: the CompositePodGroup that it is of; ``verdict`` and ``message`` are as of a PodGroupReport.
    """

    kind: str
    name: str
    policy: str
    least: int
    verdict: str
    message: str = ""
    parent: str = ""
    topology: str = ""


class GroupTreeReport(Document, frozen=True):
    """The tree of CompositePodGroups that a PodGroup is of: all are placed together, as far as their policies say.

    ``groups``: all of them, from the root down. ``by_chance``: kube-scheduler tries the groups of one in an order that
    is up to chance, and in another one the pod fares otherwise; without ``all_orders`` not all of them were tried here.
    """

    name: str
    verdict: str
    groups: tuple[GroupOfTree, ...] = ()
    victims: tuple[str, ...] = ()
    by_chance: bool = False
    all_orders: bool = True


class PodGroupReport(Document, frozen=True):
    """``policy`` is gang or basic, empty when the group does not exist or was not read; of a gang ``min_count`` pods
    have to have a node at once. ``pods`` exist, ``scheduled`` of them have a node, and ``missing`` more have to come
    before any is tried.

    ``verdict``: Placed, WaitsForPreemption, Unschedulable, Error or Incomplete (it is not tried); ``message`` is what
    the scheduler writes into its ``condition``. ``topology``: the label of which its nodes have to share
    a value, and ``placements`` those values. ``victims`` would have to go. ``deadlocked_with``: other gangs of which a
    part has nodes; this one, in the same state, would fit if they gave theirs up. ``waits_for``: other groups
    of its pods, for which Permit lets these wait though they fit; ``apart``: groups that these wait for in turn.

    ``project``: whose group it is, scheduler-plugins, Volcano or Kueue, empty for Kubernetes' own. ``decided_by``: who
    decides about it by rules that are not replayed; the verdict is then whether kube-scheduler's filters have room for
    all at once. With policy basic its pods are placed one by one, and the verdict is no more than that.
    ``held_back``: how many of its pods still have gates of Kueue's.
    ``fitting``: how many would have a node then, those that have one among them. ``problem``: why it is not known how
    many have to. ``ended`` pods succeeded; Volcano and Kueue count them as if they had a node.
    ``queue`` and ``phase`` are what Volcano's object says. ``tree``: of a group that is of a CompositePodGroup.
    """

    name: str
    verdict: str
    policy: str = ""
    min_count: int = 0
    pods: int = 0
    scheduled: int = 0
    missing: int = 0
    message: str = ""
    condition: str = "PodGroupScheduled"
    topology: str = ""
    members: tuple[MemberReport, ...] = ()
    placements: tuple[PlacementReport, ...] = ()
    victims: tuple[str, ...] = ()
    deadlocked_with: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    project: str = ""
    decided_by: str = ""
    held_back: int = 0
    fitting: int = 0
    ended: int = 0
    problem: str = ""
    tasks: tuple[GangTask, ...] = ()
    queue: str = ""
    phase: str = ""
    tree: GroupTreeReport | None = None

    @property
    def short_name(self) -> str:
        """Without the namespace."""
        return self.name.partition("/")[2]
