"""Report documents of remedies: apiVersion kschedctl.dev/v1, kinds Remedies and RemediesOfMany.

Every remedy was replayed: its changes, applied to the objects as they were read, with all other waiting pods in the
queue.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.explain.report import ReplicaCount
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import FailedJob, describe_failing_jobs
from kschedctl.reports.remedy import Remedy, sort_verified_fixes_first
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, describe_state_counts
from kschedctl.text.counts import agreeing, counted, first_few, negate_scope


class SearchReport(Document, frozen=True):
    """The extent of a search for fixes."""

    max_changes: int
    """The most changes in a set."""
    replays: int
    """The number of replayed sets."""
    complete: bool = True
    """True if all sets were tried."""
    stopped_after: float = 0
    """The seconds after which the time limit ended the search, 0 if it did not."""
    restricted: bool = False
    """True if only the changes of one role or of some kinds were searched for."""


class Remedies(Report, frozen=True):
    """The remedies of one pod, the best first, with the verdict of its Explanation."""

    pod: str
    verdict: str
    headline: str
    remedies: tuple[Remedy, ...] = ()
    impossible: tuple[str, ...] = ()
    """The reasons why kinds of remedies cannot exist, with figures."""
    searched: SearchReport | None = None
    """The extent of the search, None if there was none."""
    stands_for: str = ""
    replicas: ReplicaCount | None = None
    """The number of the workload's pods that get a node, if only some do, or if they evict running pods."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    make_room: MakeRoom | None = None
    """A plan that moves other pods so that the pod fits, if no remedy is one."""
    interrupted: bool = False
    """True if the user interrupted, so that fixes are missing, or were not replayed with the other pods."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    preempts: tuple[str, ...] = ()
    """The pods that kube-scheduler itself preempts for the pod, without any change."""
    preempts_instead: tuple[str, ...] = ()
    """The pods that it preempts if it happens to choose another equally good node."""
    rivals: tuple[str, ...] = ()
    """The other waiting pods that take the room first, if the pod fits by itself but not behind them."""
    kind: str = "Remedies"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return three texts: the pod, its verdict with doubts, and the headline.

        Objects that wait elsewhere, and a note if the search was stopped early, follow the headline.
        """
        headline = self.headline
        if self.waiting_elsewhere:
            headline += f"; {describe_state_counts(self.waiting_elsewhere)}"
        if self.searched is not None:
            headline += _describe_stop(self.searched.stopped_after)
        return (self.pod, f"{self.verdict}{describe_doubt(self.unknown)}:", headline)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    @property
    def lacks_fixes(self) -> bool:
        """True if fixes were searched for and none was found, nor a plan of moves."""
        return self.searched is not None and not self.remedies and self.make_room is None

    @property
    def restriction_clause(self) -> str:
        """A clause that says that other fixes may help, or "" if all kinds of changes were searched for."""
        if self.searched is None or not self.searched.restricted:
            return ""
        return "others may help, since --by, --only or --without left some out"

    def describe_preemption(self) -> tuple[str, ...]:
        """Return a sentence on the pods that kube-scheduler preempts without a fix, as a tuple that may be empty."""
        if not self.preempts:
            return ()
        victims = first_few(self.preempts)
        if self.preempts_instead:
            victims += f" or, by chance, {first_few(self.preempts_instead)}"
        return (f"without a fix, kube-scheduler itself preempts {victims} for this pod",)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pod, its verdict and the shortened fixes, including the plan of moves."""
        fixes = tuple(remedy.to_short_fix() for remedy in sort_verified_fixes_first(self.remedies))
        if self.make_room:
            fixes = (*fixes, self.make_room.to_short_fix())
        warnings = [] if self.replicas is None else [self.replicas.placement_sentence]
        warnings += self.describe_preemption()
        if self.lacks_fixes:
            warnings.append("; ".join(filter(None, ("no fix was found", self.restriction_clause))))
        return replace(
            summary,
            subject=self.pod,
            verdict=self.verdict,
            warnings=tuple(warnings),
            fixes=fixes,
            advice=self.impossible,
        )


class ChosenRemedy(Document, frozen=True):
    """A remedy for many pods."""

    remedy: Remedy
    clears: tuple[str, ...]
    """The pods that it clears in addition to the remedies before it."""
    workloads: tuple[str, ...] = ()
    """The workloads whose pods it changes."""


class HelplessPods(Document, frozen=True):
    """Similar pods that still wait with all chosen remedies."""

    pods: tuple[str, ...]
    workload: str
    message: str
    """kube-scheduler's message for the first of them."""
    impossible: tuple[str, ...] = ()
    """The reasons why kinds of remedies cannot exist, with figures."""
    alone: str = ""
    """The best fix that was found for the first of them alone and not chosen; empty if there is none."""
    alone_is_taken: bool = False
    """True if other waiting pods take the room that this fix makes."""
    alone_clears: int | None = None
    """The number of waiting pods that get a node with this fix, or None if the fix was not simulated."""
    alone_wanted: int = 0
    """The number of pods in all groups that still wait and have this as their best fix."""

    @property
    def alone_is_too_little(self) -> bool:
        """True if the fix is enough for only some of the pods that need it."""
        return self.alone_clears is not None and 0 < self.alone_clears < self.alone_wanted


class RemediesOfMany(Report, frozen=True):
    """The remedies that clear most of many waiting pods, chosen by how many pods they clear in simulations.

    Each remedy clears the most among the pods that the earlier remedies leave. Another combination may clear more.
    """

    scope: str
    waiting: int
    """The number of waiting pods."""
    cleared: int
    """The number of waiting pods that get a node with all chosen remedies."""
    chosen: tuple[ChosenRemedy, ...] = ()
    left: tuple[HelplessPods, ...] = ()
    """The pods that still wait."""
    not_created: tuple[NotCreated, ...] = ()
    """Workloads with pods that could not be created, and so do not wait."""
    complete: bool = True
    """True if all remedies found for single pods were tried."""
    stopped_after: float = 0
    """The seconds after which the time limit ended the search, 0 if it did not."""
    fitting: int = 0
    """The number of other pending pods, which get a node without any change."""
    ended: tuple[str, ...] = ()
    """The other pending pods that end without any change, since their Job fails."""
    preempted: tuple[str, ...] = ()
    """The running pods that kube-scheduler preempts for pending pods without any change."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because of these preemptions."""
    max_changes: int = 0
    """The most changes that may be chosen together, or 0 if no choice was made."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    elsewhere: int = 0
    """The number of pods that wait in other namespaces, if none of the scope waits."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    kind: str = "RemediesOfMany"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many of the waiting pods get a node with the chosen changes, or that no pod waits."""
        if not self.waiting:
            return self._describe_no_waiting_pods()
        get = agreeing(1 if self.waiting == 1 else self.cleared, "gets", "get")
        cleared = f"{self.cleared:,} of {counted(self.waiting, 'pending pod')} {self.scope} {get} a node"
        changes = self._changes_clause
        stop = _describe_stop(self.stopped_after)
        other_pods = f"{self._other_pods_clause}{self._waiting_elsewhere_text}"
        return (f"{cleared}{changes}{stop}{other_pods}{describe_doubt(self.unknown)}",)

    def _describe_no_waiting_pods(self) -> tuple[str, ...]:
        """Return the headline and its continuation for a scope in which no pod waits for a fix.

        If pending pods get a node without a fix, the headline says that no pod needs one. Otherwise, it says that no
        pod waits, and the continuation has the number of pods that wait in other namespaces.
        """
        scope_text = negate_scope(self.scope)
        doubt = describe_doubt(self.unknown)
        # The objects of the scope whose pods kube-scheduler does not see yet
        objects_text = self._waiting_elsewhere_text
        if self.fitting:
            get = agreeing(self.fitting, "pending pod gets a node", "pending pods get a node")
            return ("No pod needs a fix", f"{scope_text}{doubt}{objects_text}: {self.fitting:,} {get} without one")

        other_namespaces_text = ""
        if self.elsewhere:
            are = agreeing(self.elsewhere, "is", "are")
            other_namespaces_text = f"; {counted(self.elsewhere, 'pod')} {are} pending in other namespaces"
        return ("Nothing is pending", f"{scope_text}{doubt}{objects_text}{other_namespaces_text}")

    @property
    def _changes_clause(self) -> str:
        """A clause such as " with these 2 changes", or a clause that no change was found that helps another pod.

        If a fix has several changes, the clause has the number of fixes as well.
        """
        if not self.chosen:
            return ": no change was found that helps any other pod"
        change_count = sum(len(chosen.remedy.kinds) for chosen in self.chosen)
        if change_count == 1:
            return " with this change"
        if change_count == len(self.chosen):
            return f" with these {change_count} changes"
        # Users see numbered fixes, some of which have several changes
        fixes = agreeing(len(self.chosen), "this fix", f"these {len(self.chosen)} fixes")
        consist = agreeing(len(self.chosen), "consists", "consist")
        return f" with {fixes}, which {consist} of {change_count} changes"

    @property
    def _other_pods_clause(self) -> str:
        """A clause on pending pods that get a node without a change, and on those that end because a Job fails."""
        fit = agreeing(self.fitting, "more pending pod fits without a change", "more pending pods fit without a change")
        if self.preempted:
            fit = agreeing(self.fitting, "more pending pod gets a node", "more pending pods get a node")
            fit = f"{fit} without a change, but this preempts {counted(len(self.preempted), 'pod')}"
        clause = f"; {self.fitting:,} {fit}" if self.fitting else ""
        if self.ended:
            clause += f"; {counted(len(self.ended), 'pending pod ends', 'pending pods end')} because a Job fails"
        return clause

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    @property
    def ends_at_limit(self) -> bool:
        """True if the most changes were chosen, and a pod that still waits has a fix of its own."""
        change_count = sum(len(chosen.remedy.kinds) for chosen in self.chosen)
        has_most_changes = self.max_changes > 0 and change_count == self.max_changes
        return has_most_changes and any(pods.alone for pods in self.left)

    @property
    def _waiting_elsewhere_text(self) -> str:
        """The number of objects whose pods kube-scheduler does not see yet, as the end of a line.

        It is "" if there are none.
        """
        return f"; {describe_state_counts(self.waiting_elsewhere)}" if self.waiting_elsewhere else ""

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the scope as its subject, and with fixes, pods, numbers and warnings.

        The fixes are the chosen ones. The pods are those that were not created and those that still wait. The warnings
        are about preemption.
        """
        fixes = tuple(chosen.remedy.to_short_fix(len(chosen.clears)) for chosen in self.chosen)
        helpless = tuple(
            ShortPods(pods=len(group.pods), such_as=group.pods[0], workload=group.workload, why=group.message)
            for group in self.left
        )
        figures = {"waiting": self.waiting, "cleared": self.cleared}
        if self.elsewhere:
            figures["elsewhere"] = self.elsewhere
        not_created = tuple(workload.short_form for workload in self.not_created)
        return replace(
            summary,
            subject=self.scope,
            fixes=fixes,
            pods=(*not_created, *helpless),
            figures=figures,
            warnings=self.describe_preemption(),
        )

    def describe_preemption(self) -> tuple[str, ...]:
        """Return a sentence on the pods that kube-scheduler preempts without a fix, as a tuple that may be empty."""
        if not self.preempted:
            return ()
        failure = f", so that {describe_failing_jobs(self.failed_jobs)}" if self.failed_jobs else ""
        return (f"without a fix, kube-scheduler itself preempts {first_few(self.preempted)}{failure}",)


def _describe_stop(seconds: float) -> str:
    """Return a clause that says that the time limit ended the search, or "" if `seconds` is 0."""
    return f"; the search was stopped after {seconds:g} s, so that there may be better fixes" if seconds else ""
