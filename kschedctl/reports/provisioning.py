"""What Karpenter's next run would do for pods that wait: kind Provisioning."""

from __future__ import annotations

import re
from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import agreeing, counted

_LISTS = re.compile(r" \(counts = [^;]*|, requirements=.*?(?=, resources=|$)")


def without_lists(error: str) -> str:
    """A reason of Karpenter's without what it counts and requires.

    >>> without_lists("unsatisfiable topology constraint for pod affinity, key=zone (counts = a: 1, nodeDomains = x")
    'unsatisfiable topology constraint for pod affinity, key=zone'
    """
    return _LISTS.sub("", error)


class KarpenterEvent(Document, frozen=True):
    """An event that Karpenter writes."""

    kind: str
    name: str
    reason: str
    message: str


class RequirementTerm(Document, frozen=True, omit_defaults=True):
    """A requirement as a NodeClaim has it."""

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
    """The lowest price an hour, and ``type|zone|capacityType`` of all that have it."""

    price: float
    options: tuple[str, ...]


class LaunchedClaim(Document, frozen=True):
    """A NodeClaim that would be made.

    ``scheduling_requirements``: what its pods leave; ``requirements``: of the object, narrowed to what can be had.
    ``instance_types``: name and lowest price of those that are left, the cheapest first.
    """

    node_pool: str
    pods: tuple[str, ...]
    scheduling_requirements: tuple[RequirementTerm, ...]
    instance_types: tuple[tuple[str, float], ...]
    cheapest: CheapestOffering | None
    requirements: tuple[RequirementTerm, ...]
    requests: dict[str, str]
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[ClaimTaint, ...] = ()
    startup_taints: tuple[ClaimTaint, ...] = ()


class NominatedNode(Document, frozen=True):
    """A node, or one on its way, that takes pods."""

    node: str
    pods: tuple[str, ...]


class ProvisioningError(Document, frozen=True):
    """Why no new node comes for a pod; ``parts``: pool by pool, in the order of templates."""

    error: str
    parts: tuple[str, ...]


class GivenUp(Document, frozen=True):
    """A wish of a pod that was dropped."""

    pod: Annotated[str, Column(keep=True)]
    reason: Annotated[str, Column("wish")]


class PoolAnswer(Document, frozen=True, omit_defaults=True):
    """What a pool alone would launch for a pod alone, or why nothing.

    ``skipped``: why the pool takes no part at all.
    """

    instance_types: tuple[str, ...] = ()
    cheapest: CheapestOffering | None = None
    error: str | None = None
    relaxations: tuple[str, ...] = ()
    skipped: bool = False

    def text(self, in_full: bool = False) -> str:
        """In a sentence; the lists in Karpenter's errors only in full."""
        if self.skipped:
            return "takes no part: not ready, or none of its types is left"
        if self.error:
            return self.error if in_full else without_lists(self.error)
        cheapest = self.cheapest
        price = f", cheapest {cheapest.options[0]} at ${cheapest.price:.4f}/h" if cheapest and cheapest.price else ""
        dropped = f", with {counted(len(self.relaxations), 'wish', 'wishes')} given up" if self.relaxations else ""
        return f"takes it: {counted(len(self.instance_types), 'instance type')}{price}{dropped}"


class OverlayVerdict(Document, frozen=True):
    """Whether a NodeOverlay is applied."""

    name: str
    validation_succeeded: str
    reason: str
    message: str


class Provisioning(Report, frozen=True):
    """``pending``: the pods that count; ``rejected``: events of those that do not. ``templates``: the pools that take
    part, in the order in which they are tried. ``limits_exceeded``: pool -> why nothing would be launched although a
    claim was made. ``per_pool``: pod -> pool -> answer, which depends on no order. One possible run where upstream's
    order is chance. ``seen_types``: how many instance types nodes prove, where no others are known; then that no type
    fits is not certain, and there are no prices. ``still_pending``: pods for which a node comes and that kube-scheduler
    would place nowhere all the same, each node being of its cheapest type, with its message. ``node_classes``:
    pool -> why its node class is not ready, or that it was not read: then its zones, pod limit and disk are not known.
    """

    pending: tuple[str, ...] = ()
    rejected: tuple[KarpenterEvent, ...] = ()
    deleting_node_pods: tuple[str, ...] = ()
    scheduler_error: str | None = None
    templates: tuple[str, ...] = ()
    pool_events: tuple[KarpenterEvent, ...] = ()
    new_node_claims: tuple[LaunchedClaim, ...] = ()
    existing_nodes: tuple[NominatedNode, ...] = ()
    pod_errors: dict[str, ProvisioningError] = {}
    relaxations: tuple[GivenUp, ...] = ()
    limits_exceeded: dict[str, str] = {}
    per_pool: dict[str, dict[str, PoolAnswer]] = {}
    missing: dict[str, dict[str, tuple[str, ...]]] = {}
    """Pod without a node -> NodePool -> all that keeps the pool from taking it, for up to 8 kinds of pods."""
    overlays: tuple[OverlayVerdict, ...] = ()
    seen_types: int | None = None
    still_pending: dict[str, str] = {}
    rivals: tuple[str, ...] = ()
    """Waiting pods for which no node is launched, and that take room on the new nodes."""
    enough: int | None = None
    """How many new nodes would be enough, if pods are still pending; None if none that further runs add is."""
    node_classes: dict[str, str] = {}
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Provisioning"

    @property
    def everyone_gets_a_node(self) -> bool:
        refused = self.pod_errors or self.rejected or self.scheduler_error
        return not (refused or self.limits_exceeded or self.still_pending)

    def first_line(self) -> tuple[str, ...]:
        """How many nodes would come, and for how many pods."""
        pods = counted(len(self.pending) + len({event.name for event in self.rejected}), "pending pod")
        made = len(self.new_node_claims)
        what = f"Karpenter would launch {counted(made, 'node')}" if made else "Karpenter would launch no node"
        without = len(self.pod_errors) + len(self.rejected)
        return (
            what,
            f"for {pods}",
            f"– {without:,} {agreeing(without, 'gets', 'get')} none" if without and made else "",
        )
