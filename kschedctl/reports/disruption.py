"""The nodes that Karpenter would remove, and what keeps the others, as a document: kind Disruption."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.provisioning import KarpenterEvent, LaunchedClaim, NominatedNode, OverlayVerdict
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted, first_few


class DisruptionCandidate(Document, frozen=True):
    """A node that a disruption method considers."""

    node: str
    node_pool: str
    price: float
    """The node's price per hour."""
    reschedule_disruption_cost: float
    disruption_cost: float
    savings_ratio: float
    """The price divided by the cost of moving the pods."""


class DisruptionCommand(Document, frozen=True):
    """A decision to remove nodes."""

    decision: str
    candidates: tuple[str, ...]
    """The nodes that are removed."""
    savings: float
    """What the decision saves per hour."""
    existing_nodes: tuple[NominatedNode, ...]
    """The nodes to which the pods move."""
    replacements: tuple[LaunchedClaim, ...]
    """The nodes that are launched first."""


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
    """The decision about a node that is considered alone, without budgets."""

    command: DisruptionCommand | None = None
    events: tuple[str, ...] = ()
    """Karpenter's events about the node."""


class SoftConstraints(Document, frozen=True):
    """Soft constraints that keep a node, because Karpenter takes them for required while it simulates."""

    pods: dict[str, tuple[str, ...]]
    """Pod -> what its soft constraints are."""
    otherwise: str
    """What Karpenter would do with the node with preferencePolicy=Ignore: delete or replace."""

    @property
    def sentence(self) -> str:
        """Describe which soft constraints keep the node."""
        named = [f"{', '.join(constraints)} of {pod}" for pod, constraints in self.pods.items()]
        return (
            f"Karpenter takes the {first_few(named)} for required while it simulates; "
            f"with preferencePolicy=Ignore, or without it, it would {self.otherwise} the node"
        )


class NodeFate(Document, frozen=True):
    """The fate of a node that Karpenter manages, considered alone."""

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column("nodepool", keep=True)]
    fate: Annotated[str, Column("alone", tones={"stays": Tone.FAINT, "delete": Tone.GOOD, "replace": Tone.GOOD})]
    """stays, delete or replace."""
    price: Annotated[float | None, Column("price/h", form=".4f")] = None
    """The node's price per hour."""
    pods: Annotated[int | None, Column("pods")] = None
    """The number of pods that would have to move."""
    why: Annotated[str, Column("why")] = ""
    """Why the node stays, in Karpenter's words."""
    cause: Annotated[str, Column("what is behind it")] = ""
    """Which pod or constraint is behind ``why``, in our words; empty if ``why`` says it all."""
    unhealthy: tuple[str, ...] = ()
    """Unhealthy pods that use up the PodDisruptionBudget which keeps the node."""
    soft_constraints: SoftConstraints | None = None


class Disruption(Report, frozen=True):
    """The decisions of Karpenter's disruption methods, in the order in which Karpenter tries the methods.

    Each method is applied to the cluster as it is; in Karpenter, the first one that finds a command ends the round. If
    Karpenter's order is random, the methods show one possible run.
    """

    emptiness: DisruptionMethod = DisruptionMethod()
    drift: DisruptionMethod = DisruptionMethod()
    multi: DisruptionMethod = DisruptionMethod()
    single: DisruptionMethod = DisruptionMethod()
    per_node: dict[str, AloneAnswer] = {}
    """Node -> the decision about it alone, which depends on no order."""
    overlays: tuple[OverlayVerdict, ...] = ()
    """The NodeOverlays, and whether they are applied."""
    fates: tuple[NodeFate, ...] = ()
    """The fate of each node that Karpenter manages."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Disruption"

    @property
    def methods(self) -> dict[str, DisruptionMethod]:
        """The methods by name, in the order in which they are tried."""
        return {"Empty": self.emptiness, "Drifted": self.drift, "several nodes": self.multi, "one node": self.single}

    def first_line(self) -> tuple[str, ...]:
        """Return what the next round does."""
        commands = [command for method in self.methods.values() for command in method.commands]
        if not commands:
            return ("Karpenter would take no node away",)
        (first, *_) = commands
        made = f", launching {counted(len(first.replacements), 'node')} for it" if first.replacements else ""
        saved = f", saving ${first.savings:.4f} an hour" if first.savings else ""
        return (f"Karpenter would {first.decision} {counted(len(first.candidates), 'node')}{made}{saved}",)
