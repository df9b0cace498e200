"""Pods that could not be created, and the API server's answer to a manifest: kind Admission."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.json_values import JsonDict, JsonObject
from kschedctl.reports.document import Document
from kschedctl.reports.remedy import TEAMS
from kschedctl.reports.report import GateProblem, PlainReport
from kschedctl.reports.summary import CostKind, FixCost, ShortFix, ShortPods, build_restart_costs, list_clauses
from kschedctl.text.counts import capitalize, counted
from kschedctl.text.printable import rewrite_fit_error


class CreationFailure(Document, frozen=True):
    """A reason why pods were not created."""

    message: str
    """The API server's message."""
    by: str
    """The source of the report, such as `event FailedCreate of ReplicaSet d/w`."""
    last: str = ""
    """When it was last reported."""
    age: str = ""
    """The age of the report."""
    times: int = 0
    """The number of times that events report it."""


class CreationFix(Document, frozen=True):
    """A change that lets all pods be created, verified by replaying admission and scheduling."""

    what: str
    """The change in words."""
    commands: tuple[str, ...] = ()
    """The commands that make it, if the manifest itself does not change."""
    edits: tuple[str, ...] = ()
    """The fields to change in the manifest, with their values, if no command changes them."""
    by: str = "operator"
    kinds: tuple[str, ...] = ()
    weakens: str = ""
    then: str = ""
    """The reason why no node takes the created pods, in kube-scheduler's words."""
    opens: tuple[str, ...] = ()
    """The nodes that then take a pod."""
    changes: tuple[JsonDict, ...] = ()
    owner: str = ""
    owner_patch: JsonDict = {}
    restarts: int = 0

    @property
    def gets_pod_scheduled(self) -> bool:
        """True if a node takes one of the created pods."""
        return not self.then

    @property
    def costs(self) -> tuple[FixCost, ...]:
        """The costs: what the fix gives up, and the running pods that it restarts."""
        given_up = (FixCost(CostKind.GIVES_UP, self.weakens),) if self.weakens else ()
        return (*given_up, *build_restart_costs(self.restarts, self.owner))

    def to_short_fix(self) -> ShortFix:
        """Return the change as it appears in a summary."""
        return ShortFix(
            summary=capitalize(self.what),
            owner=TEAMS[self.by],
            but="; ".join(list_clauses(self.costs)),
            commands=self.commands,
            costs=self.costs,
        )

    @property
    def words(self) -> str:
        """The change in words, with its costs and consequences."""
        text = self.what
        if self.costs:
            text += f", but {'; '.join(list_clauses(self.costs))}"
        if self.then:
            text += f"; the pods are then created, but stay Pending: {rewrite_fit_error(self.then, pods=2)}"
        return text


class NotCreated(Document, frozen=True):
    """The pods of a workload that could not be created."""

    workload: str
    headline: str
    """A summary such as `1 of 6 pods (6 wanted, 5 exist): exceeded quota: …`."""
    wanted: int | None
    """The number of wanted pods, including a rollout's surge; None if it is not known."""
    there: int
    """The number of pods that exist and have neither ended nor are being deleted."""
    missing: int | None
    """The number of pods that could not be created; None if it is not known."""
    failures: tuple[CreationFailure, ...]
    reason: str = ""
    """The headline without the numbers of pods. For failures in the past, it is the whole headline."""
    creatable: int = 0
    """The number of other new pods, which can be created. They do not exist yet, and are counted only for manifests and
    replayed changes.
    """
    object: str = "Pod"
    """The kind that could not be created: Pod, or the ReplicaSet or Job that was to create pods."""
    defaults: tuple[str, ...] = ()
    """The requests and limits that LimitRanges set in the denied pods, with the LimitRange."""
    past: bool = False
    """True if pods were created since, or all exist."""
    fixes: tuple[CreationFix, ...] = ()
    """Changes that would let the pods be created."""

    @property
    def workload_key(self) -> str:
        """The namespace and name of the workload, such as `shop/web` of `Deployment shop/web`."""
        _kind, _, key = self.workload.partition(" ")
        return key

    @property
    def short_form(self) -> ShortPods:
        """The report as it appears in a summary.

        If pods are missing now and their number is known, the reason is the headline's text without the numbers.
        Otherwise, the reason is the headline.
        """
        has_number = self.object == "Pod" and bool(self.missing) and bool(self.reason)
        why = f"not created: {self.reason}" if has_number and not self.past else self.headline
        return ShortPods(pods=self.missing or 0, such_as="", workload=self.workload, why=why)

    @property
    def gate_problem(self) -> GateProblem:
        """The problem that fails a CI gate."""
        return GateProblem("not-created", self.workload, self.headline)


def describe_not_created(reports: Sequence[NotCreated]) -> str:
    """Return the headline of a single report, or the numbers of pods and workloads for several reports."""
    if len(reports) == 1:
        return reports[0].headline
    missing = sum(workload.missing or 0 for workload in reports)
    return f"{counted(missing, 'pod')} of {counted(len(reports), 'workload')}"


class OnceCreated(Document, frozen=True):
    """The scheduling answer for the pod if it were created."""

    verdict: str
    headline: str


NOT_CREATED = "NotCreated"
"""The verdict on a pod that would be scheduled but cannot be created."""


class OtherOutcome(Document, frozen=True):
    """Another answer that the server may give, because it goes through several objects in random order."""

    code: int
    message: str | None = None


class Admission(PlainReport, frozen=True):
    """The API server's answer to a manifest."""

    code: int
    """The HTTP status code."""
    allowed: bool
    reason: str | None = None
    message: str | None = None
    """The server's message. A generated suffix of a name is written as `*`."""
    warnings: tuple[str, ...] = ()
    object: JsonObject | None = None
    """The metadata and spec that are stored, or None if nothing is."""
    changed: tuple[str, ...] = ()
    """The changes that admission makes, and the object that is responsible for each."""
    resource_defaults: tuple[str, ...] = ()
    """The requests and limits that LimitRanges set, with the LimitRange; also of a denied object."""
    varies: tuple[OtherOutcome, ...] = ()
    """Other answers that further tries may get by chance."""

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return two texts: the verdict, with the status code of a denial, and the server's message."""
        return ("Admitted" if self.allowed else f"Denied ({self.code}):", self.message or "")
