"""What the Cluster Autoscaler's next loop would do for pods that wait: kind ScaleUp."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class GroupRefusal(Document, frozen=True):
    """The plugin that refuses a pod on a new node of a group, and its reasons."""

    plugin: str = ""
    reasons: tuple[str, ...] = ()


class RemainingPod(Document, frozen=True):
    """Why no group grows for a pod: ``rejected`` by its filters, or the group is ``skipped``.

    ``message``: the text of the event NotTriggerScaleUp.
    """

    rejected: dict[str, GroupRefusal] = {}
    skipped: dict[str, tuple[str, ...]] = {}
    message: str | None = None


class TemplateGap(Document, frozen=True):
    """What the template of a node group without nodes lacks; replayed: with it, a new node takes the pods."""

    group: Annotated[str, Column("node group", keep=True)]
    pods: tuple[str, ...]
    lacks: Annotated[tuple[str, ...], Column("its template lacks", lines=True)]
    settings: Annotated[tuple[str, ...], Column("add to the group", lines=True)]
    """Tags or annotations by which the autoscaler learns of what the template lacks."""
    provider: str = ""
    """Whose tags these are; empty if it is not known, and the tags are those of AWS."""

    @property
    def sentence(self) -> str:
        where = "" if self.provider else " (on AWS)"
        return (
            f"it has no nodes, and its template lacks the {' and the '.join(self.lacks)}; with the "
            f"{' and the '.join(self.settings)}{where} it would take the pod"
        )


class ExpansionOption(Document, frozen=True):
    """So many nodes of a group for these pods; ``similar``: the groups with which it would share them."""

    group: str
    nodes: int
    pods: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


class GroupIncrease(Document, frozen=True, rename={"source": "from", "target": "to"}):
    """A group that grows."""

    group: Annotated[str, Column("node group", keep=True)]
    source: Annotated[int, Column("nodes")]
    target: Annotated[int, Column("then")]


class GroupTemplate(Document, frozen=True):
    """What a new node of a group is: ``pods`` that come with it, and what these request, in millicores and bytes."""

    pods: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    unschedulable: bool = False


class AutoscalerEvent(Document, frozen=True):
    """An event that the autoscaler writes."""

    object: str
    type: str
    reason: str
    message: str


class ScaleUp(Report, frozen=True):
    """``unschedulable``: the pods of which the scheduler said so; ``filtered_out``: those of them that need no node.

    ``upcoming``: group -> nodes on their way. ``result``: as upstream names it, None where the loop ends before.
    ``options``: what the expander chooses from; ``tied``: the groups among which chance decides, the ``best`` is the
    first of them by name. ``increases``: what is done; ``triggered``: the pods for which; ``awaiting``: those of which
    another loop has to decide. One possible run where upstream's order is chance. ``seen_groups``: the groups are those
    that labels name, and nothing is known of their limits. ``faults``: node groups and options that make no sense, and
    are left out. ``sources``: where groups and flags are from; ``doubts``: what is not certain of them;
    ``unknown_groups``: those of which nobody knows what a new node would be.
    """

    unschedulable: tuple[str, ...] = ()
    filtered_out: tuple[str, ...] = ()
    upcoming: dict[str, int] = {}
    cluster_healthy: bool = True
    loop_error: str | None = None
    result: str | None = None
    error: str | None = None
    options: tuple[ExpansionOption, ...] = ()
    best: str | None = None
    tied: tuple[str, ...] = ()
    increases: tuple[GroupIncrease, ...] = ()
    triggered: tuple[str, ...] = ()
    awaiting: tuple[str, ...] = ()
    remaining: dict[str, RemainingPod] = {}
    details: dict[str, dict[str, str]] = {}
    """Pod -> node group -> the figures behind a refusal, for pods of up to 50 kinds that remain."""
    template_gaps: tuple[TemplateGap, ...] = ()
    """What keeps groups without nodes from growing for the pods that remain."""
    templates: dict[str, GroupTemplate] = {}
    events: tuple[AutoscalerEvent, ...] = ()
    still_pending: dict[str, str] = {}
    """Pod for which a group grows, but whose place other pods take -> kube-scheduler's message."""
    rivals: tuple[str, ...] = ()
    """Waiting pods for which no group grows now, and that take room on the new nodes."""
    enough: int | None = None
    """How many new nodes would be enough, if pods are still pending; None if none that further loops add is."""
    seen_groups: bool = False
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    unknown_groups: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "ScaleUp"

    @property
    def everyone_gets_a_node(self) -> bool:
        """Return whether no pod is left without a node once the groups have grown."""
        return not (self.remaining or self.still_pending)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The pods that no node has room for."""
        return tuple(pod for pod in self.unschedulable if pod not in set(self.filtered_out))

    def first_line(self) -> tuple[str, ...]:
        """Which groups grow, or that none does."""
        grown = ", ".join(
            f"{increase.group} from {increase.source:,} to {increase.target:,}" for increase in self.increases
        )
        pods = counted(len(self.unschedulable), "unschedulable pod")
        return (f"Scale-up: {grown}" if grown else "No group grows", f"for {pods}")
