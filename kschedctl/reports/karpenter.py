"""The results of Karpenter's next provisioning and disruption runs, as documents: Provisioning and Disruption."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import agreeing, counted, first_few, format_price, join_words
from kschedctl.text.printable import describe_misfit

_LISTS = re.compile(r" \(counts = [^;]*|, requirements=.*?(?=, resources=|$)")


def shorten_error(error: str) -> str:
    """Remove the lists of counts and requirements from Karpenter's error.

    >>> shorten_error("unsatisfiable topology constraint for pod affinity, key=zone (counts = a: 1, nodeDomains = x")
    'unsatisfiable topology constraint for pod affinity, key=zone'
    """
    return _LISTS.sub("", error)


def describe_exhausted_budgets(pool: str) -> str:
    """Describe that the disruption budgets of a NodePool allow no further disruption."""
    return f"the disruption budgets of NodePool {pool} allow 0 nodes now"


class KarpenterEvent(Document, frozen=True):
    """An event that Karpenter writes."""

    kind: str
    name: str
    reason: str
    message: str


class RequirementTerm(Document, frozen=True, omit_defaults=True):
    """A requirement in a NodeClaim."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class ClaimTaint(Document, frozen=True, omit_defaults=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class CheapestOffering(Document, frozen=True):
    """The lowest price of the offerings."""

    price: float
    """The price per hour."""
    options: tuple[str, ...]
    """`type|zone|capacityType` of each offering with this price."""


class LaunchedClaim(Document, frozen=True):
    """A NodeClaim that Karpenter would create."""

    node_pool: str
    pods: tuple[str, ...]
    scheduling_requirements: tuple[RequirementTerm, ...]
    """The requirements that the pods leave."""
    instance_types: tuple[tuple[str, float], ...]
    """The name and lowest price of each possible instance type, the cheapest first."""
    cheapest: CheapestOffering | None
    requirements: tuple[RequirementTerm, ...]
    """The requirements in the object, narrowed to available offerings."""
    requests: dict[str, str]
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[ClaimTaint, ...] = ()
    startup_taints: tuple[ClaimTaint, ...] = ()


class ClaimOfferings(Document, frozen=True):
    """The known zones and capacity types in which the instance types of a NodeClaim are offered."""

    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]
    """The capacity types, such as spot."""


class NominatedNode(Document, frozen=True):
    """A node, existing or being launched, that takes pods."""

    node: str
    pods: tuple[str, ...]


class ProvisioningError(Document, frozen=True):
    """The reasons why Karpenter launches no node for a pod."""

    error: str
    parts: tuple[str, ...]
    """The reasons by NodePool, in the order in which pools are tried."""


class GivenUp(Document, frozen=True):
    """A preference that Karpenter dropped for a pod."""

    pod: Annotated[str, Column(keep=True)]
    reason: Annotated[str, Column("wish")]


class PoolAnswer(Document, frozen=True, omit_defaults=True):
    """The answer of a NodePool for one pod alone: what it would launch, or why it launches nothing."""

    instance_types: tuple[str, ...] = ()
    cheapest: CheapestOffering | None = None
    error: str | None = None
    relaxations: tuple[str, ...] = ()
    """The preferences that were dropped."""
    skipped: bool = False
    """True if the pool takes no part at all."""

    def describe(self, *, in_full: bool = False) -> str:
        """Describe the pool's answer in a sentence. Lists in Karpenter's errors are shortened unless `in_full`."""
        if self.skipped:
            return "not used: it is not ready, or no instance type is known or meets its requirements"
        if self.error:
            return self.error if in_full else shorten_error(self.error)
        text = f"takes it: {counted(len(self.instance_types), 'instance type')}"
        if self.cheapest and self.cheapest.price:
            text += f", cheapest {self.cheapest.options[0]} at {format_price(self.cheapest.price)}/h"
        if self.relaxations:
            text += f", without {counted(len(self.relaxations), 'preference')}"
        return text


class OverlayVerdict(Document, frozen=True):
    """The decision whether a NodeOverlay is applied."""

    name: str
    validation_succeeded: str
    reason: str
    message: str


class Provisioning(Report, frozen=True):
    """The result of Karpenter's next run. If Karpenter's order is random, it is one possible run."""

    pending: tuple[str, ...] = ()
    """The pods that Karpenter considers."""
    rejected: tuple[KarpenterEvent, ...] = ()
    """The events of pods that Karpenter does not consider."""
    deleting_node_pods: tuple[str, ...] = ()
    """The pods of nodes that are being deleted."""
    scheduler_error: str | None = None
    templates: tuple[str, ...] = ()
    """The NodePools that take part, in the order in which they are tried."""
    pool_events: tuple[KarpenterEvent, ...] = ()
    new_node_claims: tuple[LaunchedClaim, ...] = ()
    """The NodeClaims that would be created."""
    existing_nodes: tuple[NominatedNode, ...] = ()
    """The existing nodes that take pods."""
    pod_errors: dict[str, ProvisioningError] = {}
    """Pod -> why no new node comes for it."""
    relaxations: tuple[GivenUp, ...] = ()
    """The preferences of pods that were dropped."""
    limits_exceeded: dict[str, str] = {}
    """NodePool -> why nothing would be launched although a claim was made."""
    per_pool: dict[str, dict[str, PoolAnswer]] = {}
    """Pod -> NodePool -> the pool's answer, which depends on no order."""
    missing: dict[str, dict[str, tuple[str, ...]]] = {}
    """Pod without a node -> NodePool -> all that keeps the pool from taking it, for up to 8 kinds of pods."""
    overlays: tuple[OverlayVerdict, ...] = ()
    seen_types: int | None = None
    """The number of instance types that existing nodes show, if no others are known. There are then no prices, and
    it is not certain that no type fits.
    """
    still_pending: dict[str, str] = {}
    """Pod for which a node comes but that kube-scheduler would place nowhere -> its message. New nodes are of their
    cheapest type.
    """
    claim_offerings: tuple[ClaimOfferings, ...] = ()
    """The offerings of each NodeClaim in ``new_node_claims``, in the same order."""
    rivals: tuple[str, ...] = ()
    """Waiting pods ahead in the queue that take the room of the pods still pending on the new nodes."""
    enough: int | None = None
    """The number of new nodes that would be enough for the pods still pending; None if further runs do not help."""
    node_classes: dict[str, str] = {}
    """NodePool -> why its node class is not ready or was not read. Its zones, pod limit and disk are then not known."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "Provisioning"

    @property
    def are_all_placed(self) -> bool:
        """True if every pending pod gets a node."""
        refused = self.pod_errors or self.rejected or self.scheduler_error
        return not (refused or self.limits_exceeded or self.still_pending)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return three texts: how many nodes are launched, for how many pending pods, and a remark.

        The remark says how many pods get no node or stay pending. If no node is launched, it says which instance types
        are known. The remark may be "". Without pending pods, the last two texts are "".
        """
        pod_count = len(self.pending) + len({event.name for event in self.rejected})
        if not pod_count:
            return ("No pending pods: Karpenter would launch no node", "", "")
        pods = counted(pod_count, "pending pod")
        node_count = len(self.new_node_claims)
        if not node_count:
            remark = ""
            if self.knows_only_seen_types and self.pod_errors:
                remark = f"– {self._describe_known_types()}"
            return ("Karpenter would launch no node", f"for {pods}", remark)
        without = len(self.pod_errors) + len(self.rejected)
        remarks = []
        if without:
            remarks.append(f"{without:,} {agreeing(without, 'gets', 'get')} none")
        if waiting := len(self.still_pending):
            stay = agreeing(waiting, "stays", "stay")
            number = f"{waiting:,} more" if without else f"{waiting:,}"
            remarks.append(f"{number} {stay} pending although a node is launched")
        remark = f"– {', '.join(remarks)}" if remarks else ""
        return (f"Karpenter would launch {counted(node_count, 'node')}", f"for {pods}", remark)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pods that get no node or stay pending, warnings, and counts of nodes and pods.

        The pods are grouped by reason. Previous pods, warnings and counts of the summary are replaced.
        """
        pods_by_reason: dict[str, list[str]] = {}
        for pod, reason in self._iter_pods_with_reason():
            pods_by_reason.setdefault(reason, []).append(pod)
        return replace(
            summary,
            pods=tuple(
                ShortPods(pods=len(pods), such_as=pods[0], workload="", why=reason)
                for reason, pods in pods_by_reason.items()
            ),
            warnings=tuple(self._iter_warnings()),
            figures={
                "nodes": len(self.new_node_claims),
                "withoutNode": len(self.pod_errors) + len(self.rejected),
                "stillPending": len(self.still_pending),
            },
        )

    @property
    def knows_only_seen_types(self) -> bool:
        """True if no instance types are known besides those that existing nodes show."""
        return self.seen_types is not None

    def _iter_pods_with_reason(self) -> Iterator[tuple[str, str]]:
        """Yield each pod that gets no node or stays pending, with the reason."""
        for pod, error in self.pod_errors.items():
            yield pod, self._describe_obstacles(pod) or shorten_error(error.error)
        for event in self.rejected:
            yield event.name, event.message
        for pod, message in self.still_pending.items():
            yield pod, describe_misfit("stays pending although a node is launched; it", message)

    def iter_node_class_faults(self) -> Iterator[str]:
        """Yield a description of each distinct fault of node classes, with the NodePools that have the fault."""
        pools_by_fault: dict[str, list[str]] = {}
        for pool, fault in self.node_classes.items():
            pools_by_fault.setdefault(fault, []).append(pool)
        for fault, pools in pools_by_fault.items():
            yield f"{fault} ({agreeing(len(pools), 'NodePool', 'NodePools')} {join_words(pools)})"

    def _iter_warnings(self) -> Iterator[str]:
        """Yield the warnings of the report.

        The warnings say that no NodePool is eligible, that only the instance types of existing nodes are known, and
        which NodePools launch nothing because of their limits.
        """
        if self.scheduler_error:
            reasons = tuple(self.iter_node_class_faults()) or (self.scheduler_error,)
            yield f"no NodePool is eligible: {'; '.join(reasons)}"
        if self.knows_only_seen_types:
            yield f"{self._describe_known_types()}: specify --instance-types FILE"
        for pool, why in self.limits_exceeded.items():
            yield f"NodePool {pool}: {why}"

    def _describe_known_types(self) -> str:
        """Describe which instance types are known if none were given."""
        if not self.seen_types:
            return "no instance type is known, so some may fit"
        verb = agreeing(self.seen_types, "is", "are")
        types = agreeing(self.seen_types, "instance type", f"{self.seen_types:,} instance types")
        return f"only the {types} of existing nodes {verb} known; others may fit"

    def _describe_obstacles(self, pod: str) -> str:
        """Describe all that keeps each NodePool from taking the pod, or return "" if it is not known."""
        obstacles = {pool: reasons for pool, reasons in self.missing.get(pod, {}).items() if reasons}
        return "; ".join(f"NodePool {pool}: {', '.join(reasons)}" for pool, reasons in obstacles.items())


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
    """The savings of the decision per hour."""
    existing_nodes: tuple[NominatedNode, ...]
    """The nodes to which the pods move."""
    replacements: tuple[LaunchedClaim, ...]
    """The nodes that are launched first."""


def describe_lost_pods(pods: Sequence[str]) -> str:
    """Describe how many pods end because no controller recreates them, or return "" if there are none."""
    if not pods:
        return ""
    are_lost = counted(len(pods), "pod is lost", "pods are lost")
    return f"{are_lost}, since no controller recreates {agreeing(len(pods), 'it', 'them')}: {first_few(pods)}"


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
    """The decision about a node that is considered separately, without budgets."""

    command: DisruptionCommand | None = None
    events: tuple[str, ...] = ()
    """Karpenter's events about the node."""


class SoftConstraints(Document, frozen=True):
    """Soft constraints that keep a node, because Karpenter treats them as required while it simulates."""

    pods: dict[str, tuple[str, ...]]
    """Pod -> what its soft constraints are."""
    otherwise: str
    """Karpenter's decision about the node with preferencePolicy=Ignore: delete or replace."""

    @property
    def sentence(self) -> str:
        """A sentence on the soft constraints that keep the node from being disrupted."""
        named = [f"{', '.join(constraints)} of {pod}" for pod, constraints in self.pods.items()]
        return (
            f"Karpenter treats the {first_few(named)} as required in its simulation; with preferencePolicy=Ignore, or "
            f"without these constraints, it would {self.otherwise} the node"
        )


class NodeFate(Document, frozen=True):
    """Karpenter's decision about one of its nodes, considered separately."""

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column("nodepool", keep=True)]
    fate: Annotated[str, Column("alone", tones={"stays": Tone.FAINT, "delete": Tone.GOOD, "replace": Tone.GOOD})]
    """stays, delete or replace."""
    price: Annotated[float | None, Column("price/h", form=".3g")] = None
    """The node's price per hour."""
    pods: Annotated[int | None, Column("pods")] = None
    """The number of pods that would have to move."""
    why: Annotated[str, Column("reason")] = ""
    """The reason why the node stays, in Karpenter's words."""
    cause: Annotated[str, Column("underlying cause")] = ""
    """The pod or constraint behind ``why``, in our words; empty if ``why`` says it all."""
    unhealthy: tuple[str, ...] = ()
    """Unhealthy pods that use up the PodDisruptionBudget which keeps the node."""
    soft_constraints: SoftConstraints | None = None


class Disruption(Report, frozen=True):
    """The decisions of Karpenter's disruption methods, in the order in which Karpenter tries the methods.

    Each method is applied to the cluster as it is. In Karpenter, the first method that finds a command ends the round.
    If Karpenter's order is random, the methods show one possible run.
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
    """The decision about each node that Karpenter manages."""
    without_claim: dict[str, str] = {}
    """Node that has no NodeClaim in the data, and so is not managed -> the NodePool that its label names."""
    moved_pods: dict[str, tuple[str, ...]] = {}
    """Node that some command removes -> its pods that controllers recreate."""
    lost_pods: dict[str, tuple[str, ...]] = {}
    """Node that some command removes -> its pods that no controller recreates. Karpenter evicts them nevertheless."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "Disruption"

    @property
    def methods(self) -> dict[str, DisruptionMethod]:
        """The methods by name, in the order in which they are tried."""
        return {"Empty": self.emptiness, "Drifted": self.drift, "several nodes": self.multi, "one node": self.single}

    def list_lost_pods(self, command: DisruptionCommand) -> tuple[str, ...]:
        """Return the pods that end with the nodes of a command because no controller recreates them."""
        return tuple(pod for node in command.candidates for pod in self.lost_pods.get(node, ()))

    @property
    def budget_blocked(self) -> dict[str, str]:
        """The NodePool of each node that only the NodePool's disruption budgets keep from being disrupted."""
        blocked: dict[str, str] = {}
        for method in self.methods.values():
            for candidate in method.candidates:
                is_consolidated = method is self.multi or method is self.single
                answer = self.per_node.get(candidate.node)
                # A candidate of consolidation counts only if it would be disrupted on its own
                would_be_disrupted = not is_consolidated or (answer is not None and answer.command is not None)
                if would_be_disrupted and method.budgets.get(candidate.node_pool) == 0:
                    blocked.setdefault(candidate.node, candidate.node_pool)
        return blocked

    def describe_blocked_nodes(self) -> str:
        """Describe which NodePools' disruption budgets keep which nodes, or return "" if they keep none."""
        blocked = self.budget_blocked
        if not blocked:
            return ""
        texts = []
        for pool in dict.fromkeys(blocked.values()):
            nodes = [node for node, node_pool in blocked.items() if node_pool == pool]
            texts.append(f"{describe_exhausted_budgets(pool)}, which keeps {first_few(nodes)}")
        return "; ".join(texts)

    def describe_nodes_without_claim(self) -> str:
        """Describe which nodes of NodePools have no NodeClaim, or return "" if there are none."""
        if not self.without_claim:
            return ""
        were = agreeing(len(self.without_claim), "it was", "they were")
        return f"the data has no NodeClaim of {first_few(tuple(self.without_claim))}, so {were} not judged"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with each node that stays and the reason, except nodes that disruption budgets keep."""
        blocked = self.budget_blocked
        staying = tuple(
            ShortPods(pods=1, such_as=fate.node, workload="", why="; ".join(filter(None, (fate.why, fate.cause))))
            for fate in self.fates
            if fate.fate == "stays" and fate.node not in blocked
        )
        return replace(summary, pods=staying)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the next round's decision: the first command of the first method that finds any.

        If there is no command, the text says which nodes disruption budgets keep. Nodes that belong to a NodePool but
        have no NodeClaim are named in any case.
        """
        commands = [command for method in self.methods.values() for command in method.commands]
        if not commands:
            reasons = "; ".join(filter(None, (self.describe_blocked_nodes(), self.describe_nodes_without_claim())))
            if not self.fates and not reasons:
                reasons = "no node has a NodeClaim in the data"
            return (f"Karpenter would remove no node{': ' if reasons else ''}{reasons}",)
        command = commands[0]
        sentence = f"Karpenter would {command.decision} {counted(len(command.candidates), 'node')}"
        if command.replacements:
            sentence += f", and launch {counted(len(command.replacements), 'node')} first"
        if command.savings:
            sentence += f", saving {format_price(command.savings)} an hour"
        lost = describe_lost_pods(self.list_lost_pods(command))
        return ("; ".join(filter(None, (sentence, lost, self.describe_nodes_without_claim()))),)
