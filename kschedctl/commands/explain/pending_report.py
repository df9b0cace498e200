"""The report on all pending pods, and structs about waiting pods that the audit shows as well."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.explain.report import FINE, Explanation
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.new_node import NodeGrowth
from kschedctl.reports.not_created import NOT_CREATED, NotCreated
from kschedctl.reports.report import GateProblem, Report, with_pod_count
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.reports.waiting_elsewhere import (
    WaitingElsewhere,
    describe_state_counts,
    find_unadmitted_objects,
    list_fixes,
)
from kschedctl.text.counts import agreeing, capitalize, counted, first_few, negate_scope
from kschedctl.text.printable import put_reason_in_plain_words


class PendingPod(Document, frozen=True):
    """A pod of a group of pending pods."""

    pod: str
    workload: str
    headline: str
    """The answer for the pod in one line."""
    message: str | None = None
    """kube-scheduler's message."""
    created: str = ""
    """The creation time."""
    age: str = ""
    """The age as kubectl prints it, or an empty string if it is not known."""
    priority: int = 0
    details: str = ""
    """What the headline adds to the cause of the group, with the punctuation before it. It is empty if the headline
    does not begin with the cause.
    """


class PendingGroup(Document, frozen=True):
    """Pending pods with the same cause."""

    verdict: str
    cause: str
    """The cause without figures, which differ between the pods."""
    message: str | None
    """kube-scheduler's message if it is the same for all pods."""
    pods: tuple[str, ...]
    """The pods, those of highest priority first, then the oldest."""
    age: str = ""
    """The age of the oldest pod."""
    workloads: tuple[str, ...] = ()
    """The workloads that own the pods."""
    members: tuple[PendingPod, ...] = ()
    """The pods with their own headlines."""
    priority: int = 0
    """The highest priority of the pods."""

    @property
    def short_form(self) -> ShortPods:
        """The group as it appears in a summary.

        A single pod has its own figures. The workload is named if all pods belong to the same one.
        """
        workload = self.workloads[0] if len(self.workloads) == 1 else ""
        reason = self.members[0].headline if len(self.members) == 1 else put_reason_in_plain_words(self.cause)
        return ShortPods(len(self.pods), self.pods[0], workload, f"{self.verdict}: {reason}")


class ExplainedPods(Document, frozen=True):
    """Pods that look the same to the scheduler, and the explanation of the first pod, node by node."""

    pods: tuple[str, ...]
    explanation: Explanation


class PendingPods(Report, frozen=True):
    """All pending pods of a scope by cause: those that do not fit first, in order of their highest priority."""

    scope: str
    """The namespace and labels that were searched, in words."""
    groups: tuple[PendingGroup, ...] = ()
    not_created: tuple[NotCreated, ...] = ()
    """The workloads that lack pods which could not be created."""
    elsewhere: int = 0
    """The number of pods that are pending outside the scope, if none is pending inside."""
    not_replayed: tuple[str, ...] = ()
    """The things that are not replayed and could change an answer."""
    ignored: tuple[str, ...] = ()
    """Input that the replayed version drops, ignores or rejects."""
    extended: tuple[str, ...] = ()
    """The data that extenders received."""
    upstream_faults: tuple[str, ...] = ()
    """Bugs of kube-scheduler that decide an answer."""
    unknown: tuple[UnknownKind, ...] = ()
    """The kinds of objects that an answer depends on and that were not read."""
    undecided: bool = False
    """True if what was not read could change the verdict."""
    explained: tuple[ExplainedPods, ...] = ()
    """Some pods node by node, on request."""
    growth: NodeGrowth | None = None
    """The nodes that an autoscaler would add for all pods, if one is known."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects that wait before kube-scheduler sees a pod of them."""
    asked_about: tuple[str, ...] = ()
    """The objects that the question named, if all of them wait elsewhere."""
    unready_nodes: tuple[str, ...] = ()
    """The nodes that are unreachable, not ready or not initialized, so that no pending pod gets them."""
    aged_until_now: bool = False
    """True if the ages extend to the present time, because it is not known when the cluster was read."""
    kind: str = "PendingPods"

    @property
    def has_uncertain_ages(self) -> bool:
        """True if ages are shown that extend to the present time instead of the time of the cluster."""
        return self.aged_until_now and any(group.age for group in self.groups)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the headline, in one or two parts.

        If the user named objects, the headline is only about these. If pods are pending, it has the numbers of pods and
        causes, followed by pods that could not be created, objects that wait elsewhere, and nodes that are not ready.
        Otherwise it says what waits instead, or that nothing is pending. It ends with the unread kinds that could
        change the verdict.
        """
        if self.asked_about:
            return self._build_named_objects_headline()
        pod_count = sum(len(group.pods) for group in self.groups)
        if not pod_count:
            return self._build_headline_without_pods()
        counts = f"{counted(pod_count, 'pod')} pending {self.scope}, {counted(len(self.groups), 'cause')}"
        additions = (
            self._describe_missing_pods(),
            describe_state_counts(self.waiting_elsewhere),
            self._describe_unready_nodes(),
        )
        return ("; ".join(filter(None, (counts, *additions))) + describe_doubt(self.unknown),)

    def _build_headline_without_pods(self) -> tuple[str, ...]:
        """Return the headline if no pod is pending, in two parts.

        It is about the objects that wait elsewhere, or else the pods that could not be created. If there are neither,
        it says that nothing is pending.
        """
        unready_nodes = f"; {self._describe_unready_nodes()}" if self.unready_nodes else ""
        scope = f"{negate_scope(self.scope)}{describe_doubt(self.unknown)}{unready_nodes}"
        waiting_objects = describe_state_counts(self.waiting_elsewhere)
        if waiting_objects:
            return (f"{waiting_objects}:", f"no pod is pending {scope}")
        missing_pods = self._describe_missing_pods()
        if missing_pods:
            return (f"{capitalize(missing_pods)};", f"no other pod is pending {scope}")
        return ("Nothing is pending", scope)

    def _describe_unready_nodes(self) -> str:
        """Return a clause that names the nodes that are not ready, or "" if all are ready."""
        if not self.unready_nodes:
            return ""
        are = counted(len(self.unready_nodes), "node is", "nodes are")
        return f"{are} not ready ({first_few(self.unready_nodes)})"

    @property
    def headline_names_unread(self) -> bool:
        """Return whether the headline names the unread kinds: not if it is about named objects that wait."""
        return not (self.asked_about and self.waiting_elsewhere)

    @property
    def headline_entries(self) -> int:
        """Return 1 if the headline is about a single object that the user named, otherwise 0."""
        return int(bool(self.asked_about) and len(self.waiting_elsewhere) == 1)

    def _describe_missing_pods(self) -> str:
        """Describe how many pods are missing because they could not be created, or return "" if there are none.

        If the number is unknown for a workload, the text has no number.
        """
        failures = [failure for failure in self.not_created if not failure.past]
        if not failures:
            return ""
        workloads = failures[0].workload if len(failures) == 1 else counted(len(failures), "workload")
        if any(failure.missing is None for failure in failures):
            return f"pods of {workloads} are not created"
        number = sum(failure.missing or 0 for failure in failures)
        return f"{counted(number, 'pod')} of {workloads} {agreeing(number, 'is', 'are')} not created"

    def _build_named_objects_headline(self) -> tuple[str, ...]:
        """Return the headline about the objects that the user named, in two parts.

        If none of them waits, the parts are their names and a statement that they do not wait. If one waits, the parts
        are its name and its headline. If several wait, the parts are the number of objects in each state and the name
        of the first object.
        """
        if not self.waiting_elsewhere:
            verb = agreeing(len(self.asked_about), "does", "do")
            status = agreeing(len(self.asked_about), "its status", "their status")
            text = f"{verb} not wait for anything, according to {status}{describe_doubt(self.unknown)}"
            return (", ".join(self.asked_about), text)
        # If the user named objects, no others are in `waiting_elsewhere`.
        first = self.waiting_elsewhere[0]
        if len(self.waiting_elsewhere) == 1:
            return (first.resource, first.headline)
        return (f"{describe_state_counts(self.waiting_elsewhere)}:", first.resource)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with everything that waits, its fixes, and figures, which include new nodes.

        If the user named a single object, the warnings also have its holders and details.
        """
        figures = {"pending": sum(len(group.pods) for group in self.groups), "causes": len(self.groups)}
        if self.waiting_elsewhere:
            figures["waitingElsewhere"] = len(self.waiting_elsewhere)
        if self.growth is not None:
            figures |= {"newNodes": self.growth.nodes, "neverScheduled": self.growth.unplaced_count}
        pods = (
            *(workload.short_form for workload in self.not_created),
            *(group.short_form for group in self.groups),
            *(entry.short_form for entry in self.waiting_elsewhere),
        )
        fixes = tuple(fix.to_short_fix() for fix in list_fixes(self.waiting_elsewhere))
        warnings = summary.warnings
        if self.asked_about and len(self.waiting_elsewhere) == 1:
            (entry,) = self.waiting_elsewhere
            warnings = (*summary.warnings, *entry.unnamed_holders, *entry.details)
        return replace(summary, subject=self.scope, pods=pods, figures=figures, fixes=fixes, warnings=warnings)

    def build_csv_table(self) -> CsvTable:
        """Build a table with a row for each creation failure, pending pod, and object that waits elsewhere."""
        failure_rows = [(workload.workload, NOT_CREATED, workload.headline) for workload in self.not_created]
        pod_rows = [(pod, group.verdict, group.cause) for group in self.groups for pod in group.pods]
        object_rows = [(entry.resource, entry.state.value, entry.headline) for entry in self.waiting_elsewhere]
        return CsvTable(("pod", "verdict", "cause"), [*failure_rows, *pod_rows, *object_rows])

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the names of the pending pods."""
        return tuple(pod for group in self.groups for pod in group.pods)

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for each workload without pods, cause of pending pods, and object that is not admitted."""
        waiting = [
            GateProblem("not-scheduled", f"Pod {group.pods[0]}", with_pod_count(len(group.pods), group.cause))
            for group in self.groups
            if group.verdict not in FINE
        ]
        elsewhere = (entry.gate_problem for entry in find_unadmitted_objects(self.waiting_elsewhere))
        return [*(workload.gate_problem for workload in self.not_created), *waiting, *elsewhere]


class TerminatingVictim(Document, frozen=True, kw_only=True):
    """A pod that terminates to make room for another pod."""

    pod: str
    node: str
    asked: str = ""
    """When its deletion was requested; empty if unknown."""
    due: str = ""
    """When its grace period ends; empty if unknown."""
    overdue: str = ""
    """For how long it should have been gone; empty while it has time."""


class LastWords(Document, frozen=True, kw_only=True):
    """The scheduler's last message about a pod."""

    message: str
    at: str = ""
    """The time of the message; for a condition, the time of the first rejection."""
    age: str = ""
    source: str = ""
    """The source of the message: an event, or the pod's condition."""
    attempts: int = 0
    """The number of known rejections, 0 if unknown. Events expire within the hour, and several may be merged into
    one.
    """
