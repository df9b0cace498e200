"""Objects that wait before kube-scheduler sees one of their pods: queued, suspended, or left to an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from kschedctl.api.ownership import Owner
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.report import GateProblem
from kschedctl.reports.summary import ShortPods
from kschedctl.text.counts import agreeing, counted


class WaitingState(StrEnum):
    """The state of an object that holds its pods back from kube-scheduler."""

    NOT_ADMITTED = "NotAdmitted"
    """A queue, or the scheduler of a gang, has not let it start."""
    ADMISSIBLE = "Admissible"
    """A queue will let it start, if nothing else changes."""
    SUSPENDED = "Suspended"
    """Somebody has set ``suspend``."""
    NOT_CHECKED = "NotChecked"
    """An operator creates its pods, in a shape that only the operator knows."""
    BYPASSES_SCHEDULER = "BypassesScheduler"
    """A pod has a node by spec.nodeName, so kube-scheduler selects no node for its claims and nobody binds them."""


class ReportedCondition(Document, frozen=True):
    """A condition in the status of an object, word for word."""

    type: str
    status: str
    reason: str = ""
    message: str = ""

    @property
    def words(self) -> str:
        """The condition in a line: ``QuotaReserved=False, Pending: insufficient quota …``."""
        reason = f", {self.reason}" if self.reason else ""
        return f"{self.type}={self.status}{reason}" + (f": {self.message}" if self.message else "")


class WaitingElsewhere(Document, frozen=True):
    """An object whose pods kube-scheduler does not see yet."""

    resource: Annotated[str, Column(keep=True)]
    """Kind, namespace and name."""
    state: Annotated[WaitingState, Column(tone=Tone.WARNING)]
    headline: Annotated[str, Column()]
    """The event for which the object waits, in one line."""
    pods: Annotated[int | None, Column(place=-1)] = None
    """The number of pods that it would have; None if it is not known."""
    decides: str = ""
    """Who lets it start."""
    details: tuple[str, ...] = ()
    """The facts behind the headline."""
    conditions: tuple[ReportedCondition, ...] = ()
    """The conditions in its status."""
    holders: tuple[str, ...] = ()
    """The objects that hold the quota or the place that it waits for."""
    fixes: tuple[Remedy, ...] = ()
    """The best changes that let a queue admit it, each verified by replay unless it needs values. Only for a named
    object.
    """
    part_of: tuple[str, ...] = ()
    """The workloads that it stands for."""
    created: str = ""
    age: str = ""
    exists: bool = True
    """True if the cluster has the object, judged by its UID."""
    replayed: bool = False
    """True if a replay of the queues decided if the object may start."""
    names_holder: bool = False
    """True if the headline already names the holder, which is then the only one."""

    @property
    def kind(self) -> str:
        """The kind of the object, as its API calls it."""
        return Owner.parse(self.resource).kind

    @property
    def unnamed_holders(self) -> tuple[str, ...]:
        """The holders that the headline does not name."""
        return () if self.names_holder else self.holders

    @property
    def gate_problem(self) -> GateProblem:
        """The problem that fails a CI gate."""
        return GateProblem("not-scheduled", self.resource, self.headline)

    @property
    def short_form(self) -> ShortPods:
        """The object as it appears in a summary."""
        return ShortPods(pods=self.pods or 0, such_as="", workload=self.resource, why=self.headline)


def list_fixes(waiting: Sequence[WaitingElsewhere]) -> list[Remedy]:
    """Return the fixes of all objects."""
    return [fix for entry in waiting for fix in entry.fixes]


def describe_state_counts(waiting: Sequence[WaitingElsewhere]) -> str:
    """Describe how many objects are in each state: ``1 Workload not admitted, 2 custom resources not checked``.

    >>> describe_state_counts([WaitingElsewhere("Job a/b", WaitingState.SUSPENDED, "suspended")])
    '1 Job suspended'
    """
    counts = Counter((entry.kind, entry.state) for entry in waiting if entry.state is not WaitingState.NOT_CHECKED)
    phrases = []
    for (kind, state), number in counts.items():
        descriptions = {
            WaitingState.NOT_ADMITTED: "not admitted",
            WaitingState.ADMISSIBLE: "about to be admitted",
            WaitingState.SUSPENDED: "suspended",
            WaitingState.BYPASSES_SCHEDULER: f"that {agreeing(number, 'bypasses', 'bypass')} the scheduler",
        }
        phrases.append(f"{counted(number, kind)} {descriptions[state]}")
    unchecked = sum(entry.state is WaitingState.NOT_CHECKED for entry in waiting)
    if unchecked:
        phrases.append(f"{counted(unchecked, 'custom resource')} not checked")
    return ", ".join(phrases)


def has_unadmitted(waiting: Sequence[WaitingElsewhere]) -> bool:
    """Return whether an object waits for a queue, a gang's scheduler or kube-scheduler."""
    return bool(find_unadmitted_objects(waiting))


def has_unchecked_objects(waiting: Sequence[WaitingElsewhere]) -> bool:
    """Return whether there are objects whose pods are unknown.

    Either an operator would create the pods, or the object is not in a queue yet and the queues were not replayed.
    """
    for entry in waiting:
        is_queued = entry.state in (WaitingState.NOT_ADMITTED, WaitingState.ADMISSIBLE)
        is_outcome_unknown = is_queued and not entry.exists and not entry.replayed
        if entry.state is WaitingState.NOT_CHECKED or is_outcome_unknown:
            return True
    return False


def find_unadmitted_objects(waiting: Sequence[WaitingElsewhere]) -> list[WaitingElsewhere]:
    """Return the objects that wait for a queue, a gang's scheduler or kube-scheduler.

    An object that the cluster does not have yet counts only if the queues were replayed.
    """
    states = (WaitingState.NOT_ADMITTED, WaitingState.BYPASSES_SCHEDULER)
    return [entry for entry in waiting if entry.state in states and (entry.exists or entry.replayed)]
