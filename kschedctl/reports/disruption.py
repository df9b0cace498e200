"""Which nodes Karpenter would take away, and what keeps the others: kind Disruption."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.provisioning import KarpenterEvent, LaunchedClaim, NominatedNode, OverlayVerdict
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted, first_few


class DisruptionCandidate(Document, frozen=True):
    """A node that a method looks at; prices an hour. ``savings_ratio``: of its price to the cost of moving its pods."""

    node: str
    node_pool: str
    price: float
    reschedule_disruption_cost: float
    disruption_cost: float
    savings_ratio: float


class DisruptionCommand(Document, frozen=True):
    """Nodes that go; ``existing_nodes``: where their pods go; ``replacements``: what is launched for them first."""

    decision: str
    candidates: tuple[str, ...]
    savings: float
    existing_nodes: tuple[NominatedNode, ...]
    replacements: tuple[LaunchedClaim, ...]


class DisruptionMethod(Document, frozen=True):
    """One of Karpenter's disruption methods, with its candidates and commands."""

    candidates: tuple[DisruptionCandidate, ...] = ()
    candidate_events: tuple[KarpenterEvent, ...] = ()
    budgets: dict[str, int] = {}
    """NodePool -> how many of its nodes may be disrupted now."""
    budget_events: tuple[KarpenterEvent, ...] = ()
    commands: tuple[DisruptionCommand, ...] = ()
    events: tuple[KarpenterEvent, ...] = ()
    error: str = ""
    """The error that ends the method and the round, in Karpenter's words."""


class AloneAnswer(Document, frozen=True):
    """What becomes of a node that is looked at alone, whatever budgets say, and ``events`` about it."""

    command: DisruptionCommand | None = None
    events: tuple[str, ...] = ()


class SoftConstraints(Document, frozen=True):
    """Soft constraints that keep a node, because Karpenter takes them for required while it simulates."""

    pods: dict[str, tuple[str, ...]]
    """Pod -> what its soft constraints are."""
    otherwise: str
    """What Karpenter would do with the node with preferencePolicy=Ignore: delete or replace."""

    @property
    def sentence(self) -> str:
        named = [f"{', '.join(constraints)} of {pod}" for pod, constraints in self.pods.items()]
        return (
            f"Karpenter takes the {first_few(named)} for required while it simulates; "
            f"with preferencePolicy=Ignore, or without it, it would {self.otherwise} the node"
        )


class NodeFate(Document, frozen=True):
    """What becomes of a node that Karpenter manages, looked at alone: ``why`` it stays, in Karpenter's words.

    ``price``: an hour; ``pods``: those that would have to move.
    """

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column("nodepool", keep=True)]
    fate: Annotated[str, Column("alone", tones={"stays": Tone.FAINT, "delete": Tone.GOOD, "replace": Tone.GOOD})]
    price: Annotated[float | None, Column("price/h", form=".4f")] = None
    pods: Annotated[int | None, Column("pods")] = None
    why: Annotated[str, Column("why")] = ""
    cause: Annotated[str, Column("what is behind it")] = ""
    """Which pod or constraint is behind ``why``, in our words; empty if ``why`` says it all."""
    unhealthy: tuple[str, ...] = ()
    """Unhealthy pods that use up the PodDisruptionBudget which keeps the node."""
    soft_constraints: SoftConstraints | None = None


class Disruption(Report, frozen=True):
    """The methods in the order in which they are tried, each by itself on the cluster as it is: the first that finds
    a command ends the round. ``per_node`` depends on no order; the methods are one possible run where it is chance.
    ``fates``: of all nodes that Karpenter manages.
    """

    emptiness: DisruptionMethod = DisruptionMethod()
    drift: DisruptionMethod = DisruptionMethod()
    multi: DisruptionMethod = DisruptionMethod()
    single: DisruptionMethod = DisruptionMethod()
    per_node: dict[str, AloneAnswer] = {}
    overlays: tuple[OverlayVerdict, ...] = ()
    fates: tuple[NodeFate, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Disruption"

    @property
    def methods(self) -> dict[str, DisruptionMethod]:
        """In the order in which they are tried."""
        return {"Empty": self.emptiness, "Drifted": self.drift, "several nodes": self.multi, "one node": self.single}

    def first_line(self) -> tuple[str, ...]:
        """What the next round does."""
        commands = [command for method in self.methods.values() for command in method.commands]
        if not commands:
            return ("Karpenter would take no node away",)
        (first, *_) = commands
        made = f", launching {counted(len(first.replacements), 'node')} for it" if first.replacements else ""
        saved = f", saving ${first.savings:.4f} an hour" if first.savings else ""
        return (f"Karpenter would {first.decision} {counted(len(first.candidates), 'node')}{made}{saved}",)
