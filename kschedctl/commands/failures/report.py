"""The report of ``failures``: apiVersion kschedctl.dev/v1, kind Failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.lost_nodes import (
    LatePods,
    PodsWaitingForDeletion,
    WaitingRule,
    describe_late_pods,
    describe_waiting_pods,
)
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import (
    EvictedPod,
    FailedJob,
    PendingLeftOut,
    PinnedVolume,
    PodCount,
    Spread,
    UnplacedPods,
    describe_data_on_nodes,
    describe_evictions,
    describe_failing_jobs,
    describe_fates_of_evicted,
    list_displaced_pods,
)
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, capitalize, counted, first_few


class Failure(Document, frozen=True):
    """The failure of some nodes at once. With several runs, it is the worst run."""

    name: str
    nodes: tuple[str, ...]
    displaced: int
    """The number of pods that are recreated."""
    unplaced: int
    """The number of pods that fit nowhere else: displaced pods, and pods of other nodes that are preempted."""
    evicted: int
    """The number of pods of other nodes that are preempted, each counted once."""
    lost: int
    """The number of pods that no controller recreates: pods of the nodes, and preempted pods of other nodes."""
    reasons: tuple[UnplacedPods, ...] = ()
    """The unplaced pods by workload and kube-scheduler's message, including preempted ones."""
    unknown: tuple[UnknownKind, ...] = ()
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """The minimum and maximum of unplaced and evicted pods over the runs."""
    unplaced_over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """The minimum and maximum of unplaced pods, by workload."""
    in_no_order: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of pods that fit nowhere even if no other pod comes back, by workload."""
    zones: tuple[PodCount, ...] = ()
    """The number of pods in each zone before and after, for the worst failure only."""
    nodes_changed: tuple[PodCount, ...] = ()
    """The number of pods on each node on which it changes, for the worst failure only."""
    not_created: tuple[NotCreated, ...] = ()
    """The displaced pods that the API server denies because of quotas or LimitRanges."""
    unplaced_evicted: int = 0
    """The number of preempted pods of other nodes among the unplaced ones."""
    evicted_pods: tuple[EvictedPod, ...] = ()
    """The pods that preemption evicts, for the worst failure only."""
    ending: int = 0
    """The number of pods of DaemonSets and of static pods on the nodes. They end with the nodes."""
    waiting_until_deleted: tuple[str, ...] = ()
    """The pods that get a node only once the lost nodes are deleted."""
    waiting_by_rule: tuple[PodsWaitingForDeletion, ...] = ()
    """The pods in `waiting_until_deleted`, by the reason why they wait."""
    late: int = 0
    """The number of other pods that run again only once the lost nodes are deleted, although there is room for them."""
    late_pods: tuple[LatePods, ...] = ()
    """The late pods by the reason why they are late, for the worst failure only."""
    lost_pods: tuple[str, ...] = ()
    """The pods that no controller recreates, for the worst failure only."""
    lost_victims: int = 0
    """The number of preempted pods of other nodes among the lost ones."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because their pods are lost or preempted. Their pods are among the lost ones."""
    pinned_volumes: tuple[PinnedVolume, ...] = ()
    """The volumes of unplaced and lost pods that can be used only from the nodes, for the worst failure only."""

    @property
    def safe(self) -> bool:
        """True if no pod is lost or preempted and every displaced pod gets a node before the lost nodes are deleted."""
        return not (self.unplaced or self.waiting_until_deleted or self.evicted or self.not_created or self.lost)

    @property
    def unplaced_displaced(self) -> int:
        """The number of displaced pods that fit nowhere else, without preempted pods of other nodes."""
        return self.unplaced - self.unplaced_evicted

    def describe_costs(self) -> tuple[str, ...]:
        """Describe each kind of cost of the failure. Return () if it has none."""
        costs = (
            self._describe_displaced_pods(),
            self._describe_waiting_pods(),
            self._describe_late_pods(),
            self._describe_evicted_pods(),
            self._describe_lost_pods(),
        )
        return tuple(cost for cost in costs if cost)

    @property
    def consequences(self) -> str:
        """The costs of the failure in words, or "" if it has none."""
        *first_costs, last_cost = self.describe_costs() or ("",)
        return f"{', '.join(first_costs)}, and {last_cost}" if first_costs else last_cost

    def _describe_displaced_pods(self) -> str:
        """Describe how many displaced pods get no node or are not created. Return "" if the failure has no such pods.

        If all displaced pods get a node, but other pods are evicted for them, say how many get a node.
        """
        denied = sum(workload.missing or 0 for workload in self.not_created)
        none_fits = self.unplaced_displaced == self.displaced
        texts = []
        if none_fits and self.displaced > 1:
            texts.append(f"none of its {self.displaced:,} displaced pods fits elsewhere")
        elif none_fits and self.displaced == 1:
            texts.append("its only displaced pod fits nowhere else")
        elif self.unplaced_displaced:
            verb = agreeing(self.unplaced_displaced, "fits", "fit")
            of_pods = f"of its {counted(self.displaced, 'displaced pod')}"
            texts.append(f"{self.unplaced_displaced:,} {of_pods} {verb} nowhere else")
        elif self.evicted:
            texts.append(f"{counted(self.displaced - denied, 'displaced pod gets', 'displaced pods get')} another node")
        if denied:
            texts.append(counted(denied, "pod is not recreated", "pods are not recreated"))
        return ", ".join(texts)

    def _describe_waiting_pods(self) -> str:
        """Describe how many pods wait until the lost nodes are deleted, or return an empty string."""
        if not self.waiting_until_deleted:
            return ""
        waiting = counted(len(self.waiting_until_deleted), "pod waits", "pods wait")
        return f"{waiting} until {self._describe_lost_node_objects()} deleted"

    def _describe_late_pods(self) -> str:
        """Describe how many pods with a place to go run again only after the deletion, or return an empty string."""
        if not self.late:
            return ""
        late = counted(self.late, "pod runs", "pods run")
        return f"{late} again only after {self._describe_lost_node_objects()} deleted"

    def _describe_lost_node_objects(self) -> str:
        """Return the Node objects of the lost nodes with the verb "is" or "are"."""
        return agreeing(len(self.nodes), "its Node is", "the lost nodes' Node objects are")

    def describe_late_pods(self) -> tuple[str, ...]:
        """Return texts that name the pods that run again only after the deletion, and say why."""
        return describe_late_pods(self.late_pods)

    def _describe_evicted_pods(self) -> str:
        """Describe how many pods of other nodes are evicted and get no node, or return an empty string."""
        if not self.evicted:
            return ""
        evicted = counted(self.evicted, "pod elsewhere is preempted", "pods elsewhere are preempted")
        return f"{evicted}{describe_fates_of_evicted(self.evicted, self.unplaced_evicted)}"

    def _describe_lost_pods(self) -> str:
        """Describe how many pods are lost for good, and how many of these were preempted. Return "" if none is lost.

        Jobs that fail are named as well.
        """
        if not self.lost:
            return ""
        lost = counted(self.lost, "pod is lost for good", "pods are lost for good")
        jobs = describe_failing_jobs(self.failed_jobs)
        preempted = ""
        if self.lost_victims:
            preempted = "preempted" if self.lost_victims == self.lost else f"{self.lost_victims:,} of them preempted"
        details = "; ".join(filter(None, (preempted, jobs)))
        return f"{lost} ({details})" if details else lost

    @property
    def lost_without_controller(self) -> tuple[str, ...]:
        """The lost pods apart from those that end with their Job, for the worst failure only."""
        ended_pods = {pod for job in self.failed_jobs for pod in job.pods}
        return tuple(pod for pod in self.lost_pods if pod not in ended_pods)


def _describe_pods_waiting_for_deletion(rule: WaitingRule, groups: Mapping[str, PodsWaitingForDeletion]) -> str:
    """Describe why pods stay pending until the lost nodes are deleted, and which pods wait after which failure.

    `groups` maps the name of each failure to the pods that then wait because of `rule`. Only the first LOSSES_NAMED
    failures are named, and the others are counted.
    """
    losses = [f"if {name} is lost: {first_few(group.pods)}" for name, group in groups.items()]
    further = len(losses) - LOSSES_NAMED
    if further > 0:
        losses[LOSSES_NAMED:] = [counted(further, "more loss has the same effect", "more losses have the same effect")]
    waiting = f"Until the lost nodes' Node objects are deleted, pods stay Pending, since {rule.reason}"
    return f"{waiting}. {capitalize('; '.join(losses))}"


LOSSES_NAMED = 3
"""The number of failures whose waiting pods are named."""


class Failures(Report, frozen=True):
    """The failures of every unit, worst first."""

    unit: str
    """The kind of unit that fails: node, zone, pool, or a pair of one kind, such as ``pair of zones``."""
    scenarios: int
    """The number of failures to simulate."""
    safe: bool
    """True if after each failure every recreated pod gets a node without preempting others.

    This has to hold before and after the lost nodes are deleted.
    """
    seed: int
    failures: tuple[Failure, ...] = ()
    outside: tuple[str, ...] = ()
    """The nodes that belong to no unit, so that no failure includes them."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    remedy: Mapping[str, Any] | None = None
    """A scenario for ``whatif`` that leaves no pod without a node, if one was found."""
    search_start: SearchStart | None = None
    runs: int = 1
    single_unit: str = ""
    """The kind of unit to which nodes belong: node, zone or pool."""
    pairs: bool = False
    """True if any two units fail at once."""
    unready: tuple[str, ...] = ()
    """The nodes that are not ready before any failure."""
    pending_left_out: PendingLeftOut = PendingLeftOut()
    """The pending pods, which take no part in the simulated failures."""
    kind: str = "Failures"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return three texts: which units can be lost, the worst consequences, and what makes the answer uncertain."""
        return (*self._build_answer(), describe_doubt(self.unknown).strip())

    @property
    def headline_names_unread(self) -> bool:
        """True if there are no failures, since only then does the summary have the whole headline."""
        return not self.failures

    def describe_nodes_outside(self) -> tuple[str, ...]:
        """Return one text that names the nodes without the label of a unit, or () if every node belongs to a unit.

        No simulated loss includes the named nodes.
        """
        if not self.outside:
            return ()
        nodes = f"{counted(len(self.outside), 'node')} {agreeing(len(self.outside), 'belongs', 'belong')}"
        why = f"without a {self.single_unit} label, so no simulated loss includes them"
        return (f"{nodes} to no {self.single_unit}: {first_few(self.outside)} ({why})",)

    def describe_waiting_pods(self) -> tuple[str, ...]:
        """Return texts that say which pods wait until lost nodes are deleted, or () if none does.

        There is a text for each reason. Unless only the worst failure has such pods, it names the failures.
        """
        if not self.failures:
            return ()
        worst = self.failures[0]
        texts: list[str] = []
        for rule in WaitingRule:
            groups = {
                failure.name: group
                for failure in self.failures
                for group in failure.waiting_by_rule
                if group.rule is rule
            }
            if len(groups) > 1:
                texts.append(_describe_pods_waiting_for_deletion(rule, groups))
                continue
            for text in describe_waiting_pods(groups.values()):
                texts.append(text if worst.name in groups else f"If {next(iter(groups))} is lost, {text}")
        return tuple(texts)

    def describe_unready_nodes(self) -> tuple[str, ...]:
        """Return a text that names the nodes that are not ready before any failure, or () if all are ready."""
        if not self.unready:
            return ()
        nodes = counted(len(self.unready), "node is", "nodes are")
        return (
            f"{nodes} not ready already, so that the cluster has less room than it seems: {first_few(self.unready)}",
        )

    def _build_answer(self) -> tuple[str, str]:
        """Return which units can be lost, and then the consequences of the worst failure.

        If it has no consequences, the second part is the number of simulated failures.
        """
        unsafe_count = sum(not failure.safe for failure in self.failures)
        tried_count = len(self.failures)
        answer = self._describe_losable_units(unsafe_count)
        failures = counted(self.scenarios, "failure")
        simulated = f"({failures} simulated)"
        if self.interrupted:
            simulated = f"(interrupted after {tried_count:,} of {failures})"
        worst = self.failures[0] if self.failures else None
        if worst is None or not worst.consequences:
            return answer, simulated
        if self.interrupted or not unsafe_count:
            answer = f"{answer} {simulated}"
        return f"{answer}.", f"The worst is {self.name_failure(worst)}: {worst.consequences}"

    def name_failure(self, failure: Failure) -> str:
        """Return the name of what fails, such as `n1`, `zone a` or `pools a and b`."""
        if self.single_unit == "node":
            return failure.name
        return f"{self.single_unit}s {failure.name}" if self.pairs else f"{self.single_unit} {failure.name}"

    def _describe_losable_units(self, unsafe_count: int) -> str:
        """Describe which units can be lost. `unsafe_count` is the number of simulated failures that are not safe."""
        tried_count = len(self.failures)
        are_all_unsafe = unsafe_count == tried_count == self.scenarios
        if unsafe_count and are_all_unsafe:
            return f"No {self.unit} can be lost without disruption"
        if unsafe_count:
            several_units = f"pairs of {self.single_unit}s" if self.pairs else f"{self.unit}s"
            units = several_units if tried_count > 1 else self.unit
            return f"{unsafe_count:,} of {tried_count:,} {units} cannot be lost without disruption"
        if self.interrupted:
            return f"Unknown whether any {self.unit} can be lost without disruption"

        sentence = f"any {self.unit} can be lost: every recreated pod gets a node"
        if not any(failure.displaced or failure.lost for failure in self.failures):
            sentence = f"no {self.unit} has pods that its loss would displace"
        return f"Probably {sentence}" if describe_doubt(self.unknown) else capitalize(sentence)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the verdict, the numbers of failures, and the worst failure if there is one."""
        figures = {"tried": len(self.failures), "withConsequences": sum(not loss.safe for loss in self.failures)}
        summary = replace(summary, subject=self.unit, verdict="Safe" if self.safe else "Unsafe", figures=figures)
        if not self.failures:
            return summary
        worst = self.failures[0]
        return replace(
            summary,
            subject=f"worst: {worst.name}",
            headline=" ".join(self._build_answer()),  # the summary has its own field for doubts
            pods=tuple(_iter_short_pods(worst)),
            figures=figures
            | {
                "displaced": worst.displaced,
                "unplaced": worst.unplaced,
                "unplacedEvicted": worst.unplaced_evicted,
                "waitingUntilDeleted": len(worst.waiting_until_deleted),
                "late": worst.late,
                "evicted": worst.evicted,
                "lost": worst.lost,
            },
            victims=list_displaced_pods(worst.evicted_pods),
            warnings=(
                *describe_data_on_nodes(worst.pinned_volumes),
                *_describe_lost_pods(worst),
                *describe_evictions(worst.evicted_pods),
                *(self.pending_left_out.describe() if self.pending_left_out.may_take_room else ()),
                *self.describe_waiting_pods(),
                *worst.describe_late_pods(),
                *self.describe_nodes_outside(),
                *self.describe_unready_nodes(),
            ),
        )

    def build_csv_table(self) -> CsvTable:
        """Build a table with a row for each simulated failure, the worst first."""
        rows = [
            (
                rank,
                loss.name,
                len(loss.nodes),
                loss.displaced,
                loss.unplaced,
                loss.evicted,
                loss.lost,
                loss.unplaced_evicted,
                len(loss.waiting_until_deleted),
                loss.late,
            )
            for rank, loss in enumerate(self.failures, 1)
        ]
        return CsvTable(
            (
                "rank",
                "failure",
                "nodes",
                "displaced",
                "unplaced",
                "evicted",
                "lost",
                "unplacedEvicted",
                "waitingUntilDeleted",
                "late",
            ),
            rows,
        )

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the pods that some failure leaves without a node, at least until the lost nodes are deleted."""
        unplaced = (pod for failure in self.failures for group in failure.reasons for pod in group.pods)
        waiting = (pod for failure in self.failures for pod in failure.waiting_until_deleted)
        return (*unplaced, *waiting)

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return f"any {self.unit} can be lost without disruption"

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for a CI gate for each failure that is not safe."""
        return [
            GateProblem(
                "loss-not-borne",
                f"{self.unit.capitalize()} {failure.name}",
                failure.consequences,
            )
            for failure in self.failures
            if not failure.safe
        ]


def _describe_lost_pods(worst: Failure) -> tuple[str, ...]:
    """Return a text on each Job that fails, and one that names the other pods that are lost for good."""
    texts = [job.describe() for job in worst.failed_jobs]
    if worst.lost_without_controller:
        pods = first_few(worst.lost_without_controller)
        texts.append(f"lost for good, since no controller recreates them: {pods}")
    return tuple(texts)


def _iter_short_pods(worst: Failure) -> Iterator[ShortPods]:
    """Yield, for the summary, the pods that the worst failure leaves uncreated or without a node."""
    yield from (denied.short_form for denied in worst.not_created)
    yield from (pods.short_form for pods in worst.reasons)
