"""Placements, evictions, nodes that are down and changes of node pools, as parts that several reports share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from kschedctl.api.node_health import NodeHealth
from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import GateProblem, with_pod_count
from kschedctl.reports.summary import ShortPods
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few
from kschedctl.text.printable import rewrite_fit_error

ROLLOUT_COMPLETE = "complete"
"""The progress of a rollout that has replaced all old pods. All other texts about the progress are about stuck ones."""


def join_reason_with_cause(message: str, cause: str, pods: int) -> str:
    """Return why that many pods have no node: kube-scheduler's message, reworded if a cause behind it follows."""
    if not cause:
        return message
    return f"{rewrite_fit_error(message, pods)}; {cause}" if message else cause


class UnplacedPods(Document, frozen=True):
    """New pods that stay without a node for the same reason."""

    workload: str
    verdict: str
    message: str
    """kube-scheduler's message."""
    pods: tuple[str, ...]
    queue: str = ""
    """The queue in which they wait, unschedulable or backoff; empty if it is not replayed."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pods, and that requeue them after an event that may help."""
    cause: str = ""
    """The cause behind the message, such as a missing StorageClass; empty if the message says it."""
    evicted_from: dict[str, str] = {}
    """Pod -> the node from which preemption evicted it, for the pods that did not have to leave their nodes
    otherwise. Only drains and failures fill it.
    """

    @property
    def short_form(self) -> ShortPods:
        """The pods as they appear in a summary."""
        why = join_reason_with_cause(self.message, self.cause, len(self.pods)) or self.verdict
        return ShortPods(pods=len(self.pods), such_as=self.pods[0], workload=self.workload, why=why)

    @property
    def gate_problem(self) -> GateProblem:
        """The problem that fails a CI gate."""
        message = with_pod_count(len(self.pods), self.message or self.verdict)
        return GateProblem("not-scheduled", self.workload or f"Pod {self.pods[0]}", message)


class RetriedPods(Document, frozen=True):
    """Pods of a workload that fitted nowhere at first and were tried again."""

    workload: Annotated[str, Column(keep=True)]
    pods: Annotated[tuple[str, ...], Column(show_count=True, place=-1)]
    after: Annotated[dict[str, int], Column("retried after", beneath="retried after")]
    """kube-scheduler's label of the event that requeued them -> how often it did."""
    queue: Annotated[str, Column("outcome", beneath="then")] = ""
    """The queue in which they wait; empty if they have a node in the end."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pods; empty if they have a node in the end."""


def list_unplaced_evicted_pods(groups: Iterable[UnplacedPods]) -> list[str]:
    """Return the pods without a node that had one until preemption evicted them."""
    return [pod for group in groups for pod in group.evicted_from]


def describe_fates_of_evicted(evicted: int, unplaced: int, lost: int = 0) -> str:
    """Describe how many evicted pods fit nowhere and how many are lost, as the end of a sentence.

    The text is empty if all of them get another node.

    >>> describe_fates_of_evicted(3, 1, 0), describe_fates_of_evicted(2, 1, 1), describe_fates_of_evicted(2, 0, 2)
    (' and 1 of them fits nowhere', ': 1 fits nowhere, 1 is lost', ' and lost')
    """
    no_node = f"{agreeing(unplaced, 'fits', 'fit')} nowhere"
    if unplaced and lost:
        return f": {unplaced:,} {no_node}, {counted(lost, 'is lost', 'are lost')}"
    if lost:
        return " and lost" if lost == evicted else f" and {counted(lost, 'of them is lost', 'of them are lost')}"
    if unplaced:
        return f" and {no_node}" if unplaced == evicted else f" and {unplaced:,} of them {no_node}"
    return ""


class EvictionFate(StrEnum):
    """The outcome for a pod that preemption evicted."""

    MOVED = "Moved"
    """Its controller recreated it, and it has a node."""
    PENDING = "Pending"
    """Its controller recreated it, and it fits nowhere."""
    LOST = "Lost"
    """Nobody recreates it."""
    DELETED = "Deleted"
    """It was being deleted anyway, and its controller has replaced it already."""


class PendingLeftOut(Document, frozen=True):
    """The pending pods that a replay leaves out, although they may take room that it gives to other pods."""

    pods: int = 0
    """The number of pods."""
    fitting: tuple[str, ...] | None = ()
    """The pods that fit on a node as long as no pod of the replayed change takes the room. None if they are not known.
    """
    nominated: tuple[str, ...] = ()
    """The other pods for which preemption reserved a node. They fit there once its terminating pods are gone."""
    preempting: tuple[str, ...] = ()
    """The pods that fit on no node now, but get a node because they or other pending pods preempt running pods."""

    def describe(self) -> tuple[str, ...]:
        """Return a text that says how many pods were left out, and which of them may take room.

        Return () if there are none.

        >>> PendingLeftOut(9, nominated=("d/p",)).describe()[0].partition(", but ")[2]
        '1 of them has a nominated node and may take room on it before displaced pods do (d/p)'
        >>> PendingLeftOut(9, ("d/p",), preempting=("d/q", "d/r")).describe()[0].partition(", but ")[2]
        '1 of them fits now and may take the room first (d/p), and 2 of them get a node by preemption (d/q, d/r)'
        """
        if not self.pods:
            return ()
        left_out = counted(
            self.pods, "pending pod was left out of the simulation", "pending pods were left out of the simulation"
        )
        if self.fitting is None:
            return (f"{left_out} and may take the room first",)
        clauses = []
        if self.fitting:
            fits = self._agree_with_pods(self.fitting, "fits", "fit")
            clauses.append(f"{fits} now and may take the room first ({first_few(self.fitting)})")
        if self.preempting:
            gets = self._agree_with_pods(self.preempting, "gets a node", "get a node")
            clauses.append(f"{gets} by preemption ({first_few(self.preempting)})")
        if self.nominated:
            has = self._agree_with_pods(self.nominated, "has a nominated node", "have nominated nodes")
            on_it = agreeing(len(self.nominated), "on it before displaced pods do", "on them before displaced pods do")
            clauses.append(f"{has} and may take room {on_it} ({first_few(self.nominated)})")
        if self.fitting:
            return (f"{left_out}, but {', and '.join(clauses)}",)
        no_fit = "it does not fit" if self.pods == 1 else "none of them fits"
        exceptions = f", but {', and '.join(clauses)}" if clauses else ""
        now = "right now" if clauses else "even now"
        return (f"{left_out}: {no_fit} {now}{exceptions}",)

    def _agree_with_pods(self, pods: Sequence[str], singular: str, plural: str) -> str:
        """Return the predicate in the form that agrees with the pods, after the number of these pods or "it".

        >>> PendingLeftOut(9)._agree_with_pods(["d/p"], "fits", "fit")
        '1 of them fits'
        """
        if self.pods == 1:
            return f"it {singular}"
        return f"{len(pods):,} of them {agreeing(len(pods), singular, plural)}"

    @property
    def may_take_room(self) -> bool:
        """True if some of the pods may take the room of other pods."""
        may_fit = self.fitting is None or bool(self.fitting)  # None: it is unknown which pods fit
        return bool(self.pods) and (may_fit or bool(self.nominated or self.preempting))


class EvictedPod(Document, frozen=True):
    """A pod that preemption evicts. A pod that is evicted twice is listed twice."""

    pod: Annotated[str, Column("preempted pod", keep=True)]
    node: Annotated[str, Column(keep=True, beneath="on")]
    by: Annotated[str, Column("preempted by", keep=True, beneath="preempted by", place=1, narrow=True)]
    """The pod for which it is evicted."""
    priority: Annotated[int, Column()]
    workload: str
    budgets: Annotated[tuple[str, ...], Column(beneath="budgets", show_all=True, place=2)] = ()
    """The PodDisruptionBudgets that select it."""
    fate: str = ""
    """Moved, Pending if its replacement fits nowhere, Lost if no controller recreates it, or Deleted if it was being
    deleted anyway; empty if it is not known.
    """
    target: Annotated[str, Column("replacement", keep=True, beneath="replacement:", place=1)] = ""
    """The node to which the replacement moves."""
    round: int = 1
    """1 if the preemptor was not evicted before, 2 if the preemptor replaces a pod of round 1, and so on."""
    tied: tuple[str, ...] = ()
    """Pods of the node that are equal in priority and start: kube-scheduler may evict one of them instead."""

    @property
    def was_terminating(self) -> bool:
        """True if the pod was being deleted anyway, so that the preemptor only waits until it is gone."""
        return self.fate == EvictionFate.DELETED

    @property
    def gate_problem(self) -> GateProblem:
        """The problem that fails a CI gate."""
        return GateProblem("evicted", f"Pod {self.pod}", f"evicted from {self.node} for {self.by}")


def select_displaced_pods(evicted: Iterable[EvictedPod]) -> list[EvictedPod]:
    """Return the evicted pods without those that were being deleted anyway, which lose nothing by the eviction.

    kube-scheduler does not delete these again. Upstream: pkg/scheduler/framework/preemption (v1.36).
    """
    return [pod for pod in evicted if not pod.was_terminating]


def list_displaced_pods(evicted: Iterable[EvictedPod]) -> tuple[str, ...]:
    """Return the names of the evicted pods, each once, without pods that were being deleted anyway."""
    return tuple(dict.fromkeys(pod.pod for pod in select_displaced_pods(evicted)))


def describe_evictions(evicted: Iterable[EvictedPod]) -> tuple[str, ...]:
    """Return texts that name the victims of preemption.

    The first text names the evicted pods and says whether other pods could be evicted instead. The second names the
    pods that were being deleted anyway. A text that names no pods is left out.
    """
    victims = list(evicted)
    texts = []
    if displaced_pods := list_displaced_pods(victims):
        is_any_tied = any(pod.tied for pod in select_displaced_pods(victims))
        instead = ", or others of the same priority and start time" if is_any_tied else ""
        texts.append(f"evicts {first_few(displaced_pods)}{instead}")
    if terminating := tuple(dict.fromkeys(pod.pod for pod in victims if pod.was_terminating)):
        are_gone = agreeing(len(terminating), "is gone", "are gone")
        texts.append(f"waits until {first_few(terminating)}, already terminating, {are_gone}")
    return tuple(texts)


def describe_violated_budgets(violated_budgets: Mapping[str, int], evicted: Sequence[EvictedPod]) -> tuple[str, ...]:
    """Return a text on each PodDisruptionBudget that preemption violates.

    `violated_budgets` maps the name of each budget to the number of disruptions that it allows now.
    """
    texts = []
    for name, allowed in violated_budgets.items():
        pods = list_displaced_pods(pod for pod in evicted if name in pod.budgets)
        texts.append(
            f"violates PodDisruptionBudget {name}: it allows {counted(allowed, 'disruption')} now, "
            f"and preemption evicts {counted(len(pods), 'pod')}"
        )
    return tuple(texts)


class Headroom(Document, frozen=True):
    """The free amount of a resource before and after, in millicores for cpu and bytes for memory."""

    resource: str
    allocatable: int
    """The amount on all nodes. For a drain, all amounts are those of the nodes that are not drained."""
    requested_before: int
    requested_after: int
    largest_free_before: int
    """The largest free amount on one node that rejects the pod for nothing else."""
    largest_free_after: int
    """The largest free amount on one node that rejects the pod for nothing else."""


class PodCount(Document, frozen=True):
    """The number of pods in a zone or on a node, before and after."""

    place: str
    before: int
    after: int


class Spread(Document, frozen=True):
    """The smallest and the largest value over several runs."""

    least: int
    most: int

    def __str__(self) -> str:
        """Return ``3 to 5``, or the number itself if all runs agree."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


def describe_differing_runs(runs: int, spreads: Mapping[str, Spread], words: Mapping[str, str]) -> tuple[str, ...]:
    """Return a text about the numbers of pods that differ between the runs, or () if none does.

    `words` say what the numbers count.

    >>> describe_differing_runs(3, {"unplaced": Spread(0, 2), "moved": Spread(4, 4)}, {"unplaced": "fit nowhere else"})
    ('3 runs differ, and the rest is about the first: 0 to 2 pods fit nowhere else',)
    """
    numbers = [
        f"{spread} pods {words.get(name, name)}" for name, spread in spreads.items() if spread.least < spread.most
    ]
    return (f"{runs:,} runs differ, and the rest is about the first: {', '.join(numbers)}",) if numbers else ()


class WorkloadVariation(Document, frozen=True):
    """The differences in the placement of a workload between runs."""

    workload: str
    running: Spread
    """The number of running pods."""
    domains: dict[str, dict[str, Spread]] = msgspec.field(default_factory=dict)
    """Topology key -> value -> number of pods."""


class Variation(Document, frozen=True):
    """The differences between the results of runs with other seeds."""

    runs: int
    outcomes: int
    """The number of different outcomes."""
    placed: Spread
    pending: Spread
    new_pending: Spread
    """Pods without a node, apart from those that waited before."""
    evicted: Spread
    workloads: tuple[WorkloadVariation, ...] = ()


class MovedPod(Document, frozen=True):
    """A pod that gets another node."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", show_above=1, form="")] = 1
    """The number of nodes that were equally good."""


class PinnedVolume(Document, frozen=True):
    """A bound volume that can be used only from nodes that are drained or fail."""

    volume: str
    claim: str
    """``namespace/name``."""
    pod: str
    """The pod that uses the claim."""
    nodes: tuple[str, ...]
    """The only nodes from which the volume can be used."""
    local: bool
    """True if the data is on the node itself, so that it is lost with the node."""
    domain: str = ""
    """The topology domain from which the volume can be used, such as ``zone a``; empty if the volume names nodes."""

    @property
    def cause(self) -> str:
        """The reason why the pod fits nowhere else."""
        return self._explain(f"volume {self.volume} (claim {self.claim})", count=1)

    @property
    def shared_cause(self) -> str:
        """The reason why one or several pods with such volumes fit nowhere else. It names no volume."""
        return self._explain("bound volumes", count=2)

    def _explain(self, subject: str, count: int) -> str:
        """Explain where `count` volumes, which are the subject of the sentence, force their pods to run."""
        nodes = first_few(self.nodes)
        can_run = agreeing(count, "the pod can run only", "their pods can run only")
        there = agreeing(len(self.nodes), "there", "on these nodes")
        if self.local:
            return f"{subject} {agreeing(count, 'is', 'are')} local to {nodes}, so {can_run} {there}"
        if self.domain:
            are_only = agreeing(len(self.nodes), "is the only node", "are the only nodes")
            place = f"can be used only from {self.domain}, where {nodes} {are_only}"
            return f"{subject} {place}, so {agreeing(count, 'the pod needs a node', 'a node is needed')} there"
        return f"{subject} can be used only from {nodes}, so {can_run} {there}"


def explain_pinned_pods(volumes: Sequence[PinnedVolume]) -> dict[str, str]:
    """Return, by pod, why the pods with these volumes fit nowhere else.

    If volumes of several pods can be used only from the same nodes, these pods have the same text, so that reports can
    group them.
    """
    pods_by_place: dict[tuple[tuple[str, ...], bool], set[str]] = {}
    for volume in volumes:
        pods_by_place.setdefault((volume.nodes, volume.local), set()).add(volume.pod)
    return {
        volume.pod: volume.cause if len(pods_by_place[volume.nodes, volume.local]) == 1 else volume.shared_cause
        for volume in volumes
    }


def describe_data_on_nodes(volumes: Iterable[PinnedVolume]) -> tuple[str, ...]:
    """Return a text that names the local volumes, whose data is lost if their nodes are deleted.

    Return () if there are no local volumes.
    """
    local = {volume.volume: volume for volume in volumes if volume.local}
    if not local:
        return ()
    nodes = tuple(dict.fromkeys(node for volume in local.values() for node in volume.nodes))
    of_volumes = f"of local {agreeing(len(local), 'volume', 'volumes')}"
    names = join_first_few([f"{volume.volume} ({volume.pod})" for volume in local.values()])
    condition = f"{nodes[0]} is deleted" if len(nodes) == 1 else f"their nodes ({first_few(nodes)}) are deleted"
    return (f"the data {of_volumes} {names} is lost if {condition}",)


class JobFailureReason(StrEnum):
    """The reason in the condition Failed of a Job. Upstream: staging/src/k8s.io/api/batch/v1/types.go (v1.36)."""

    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    POD_FAILURE_POLICY = "PodFailurePolicy"
    MAX_FAILED_INDEXES_EXCEEDED = "MaxFailedIndexesExceeded"
    FAILED_INDEXES = "FailedIndexes"


_FAILURE_CAUSES = {
    JobFailureReason.BACKOFF_LIMIT_EXCEEDED: "evicted pods count as failed, and its backoffLimit allows no more",
    JobFailureReason.POD_FAILURE_POLICY: "its podFailurePolicy demands that once a pod is evicted",
    JobFailureReason.MAX_FAILED_INDEXES_EXCEEDED: "the indexes of evicted pods fail, more than its maxFailedIndexes",
    JobFailureReason.FAILED_INDEXES: "the indexes of evicted pods fail, and no other index is left",
}


class FailedJob(Document, frozen=True):
    """A Job that fails because its evicted pods count as failed, which ends all its pods."""

    job: str
    pods: tuple[str, ...] = ()
    """The pods that end with the Job."""
    reason: JobFailureReason = JobFailureReason.BACKOFF_LIMIT_EXCEEDED

    def describe(self) -> str:
        """Describe the failure and its cause, and name the pods."""
        ended_pods = counted(len(self.pods), "pod ends", "pods end")
        return f"{self.job} fails: {_FAILURE_CAUSES[self.reason]}; its {ended_pods} ({first_few(self.pods)})"


def describe_failing_jobs(failed_jobs: Sequence[FailedJob]) -> str:
    """Return a clause that names Jobs that fail and counts their pods, or "" if there are none.

    >>> describe_failing_jobs([FailedJob("Job d/run", ("d/a", "d/b"))])
    'Job d/run fails, which ends its 2 pods'
    >>> describe_failing_jobs([FailedJob("Job d/run", ("d/a",)), FailedJob("Job d/etl", ("d/b",))])
    'Job d/run, Job d/etl fail, which ends their 2 pods'
    """
    if not failed_jobs:
        return ""
    jobs = first_few([job.job for job in failed_jobs])
    fail, their = agreeing(len(failed_jobs), "fails", "fail"), agreeing(len(failed_jobs), "its", "their")
    return f"{jobs} {fail}, which ends {their} {counted(sum(len(job.pods) for job in failed_jobs), 'pod')}"


class BlockedPod(Document, frozen=True):
    """A pod that cannot be evicted, with the reason."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    node: Annotated[str, Column(keep=True)]
    why: Annotated[str, Column()]
    budgets: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    """Pods that the budgets do not count as healthy, so that they use up what the budgets allow."""


def group_blocked_pods(blocked: Iterable[BlockedPod]) -> tuple[ShortPods, ...]:
    """Group blocked pods of the same workload that cannot be evicted for the same reason.

    >>> pods = [BlockedPod(f"d/db-{number}", "StatefulSet d/db", "n1", "its budget allows none") for number in (0, 1)]
    >>> [(group.pods, group.such_as) for group in group_blocked_pods(pods)]
    [(2, 'd/db-0')]
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for pod in blocked:
        groups.setdefault((pod.workload, pod.why), []).append(pod.pod)
    return tuple(ShortPods(len(pods), pods[0], workload, why) for (workload, why), pods in groups.items())


def describe_victims(victims: Iterable[str], tied: Mapping[str, Sequence[str]]) -> list[str]:
    """Describe each victim in a text. Victims that could be replaced by the same other pods share a text at the end.

    ``tied`` maps a victim to pods that are equal to it, so that they could be evicted instead. Victims themselves are
    no alternatives.

    >>> describe_victims(["d/a"], {}), describe_victims(["d/a", "d/b", "d/x"], {"d/a": ["d/c"], "d/b": ["d/c"]})
    (['d/a'], ['d/x', 'any 2 of d/a, d/b, d/c'])
    >>> describe_victims(["d/a", "d/b"], {"d/a": ["d/b"]})
    ['d/a', 'd/b']
    """
    certain, choices = _group_victims(victims, tied)
    return [*certain, *choices]


def list_victims(victims: Iterable[str], tied: Mapping[str, Sequence[str]]) -> str:
    """Return the texts of `describe_victims` as one list, in which it is clear where each choice ends.

    >>> list_victims(["d/x", "d/y"], {})
    'd/x, d/y'
    >>> list_victims(["d/x", "d/a", "d/e"], {"d/a": ["d/b", "d/c"], "d/e": ["d/f"]})
    'd/x, and one of d/a, d/b, d/c, and either d/e or d/f'
    """
    certain, choices = _group_victims(victims, tied)
    return ", and ".join(filter(None, (", ".join(certain), *choices)))


def _group_victims(victims: Iterable[str], tied: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the victims without alternatives, and a text for each group of victims with the same alternatives."""
    victim_names = list(victims)
    singles: list[str] = []
    victims_by_alternatives: dict[tuple[str, ...], list[str]] = {}
    for victim in victim_names:
        alternatives = tuple(pod for pod in tied.get(victim, ()) if pod not in victim_names)
        if alternatives:
            victims_by_alternatives.setdefault(alternatives, []).append(victim)
        else:
            singles.append(victim)

    shared_texts = []
    for alternatives, group in victims_by_alternatives.items():
        if len(group) == len(alternatives) == 1:
            shared_texts.append(f"either {group[0]} or {alternatives[0]}")
        else:
            number = "one" if len(group) == 1 else f"any {len(group)}"
            shared_texts.append(f"{number} of {first_few([*group, *alternatives])}")
    return singles, shared_texts


class EvictionChain(Document, frozen=True):
    """The outcomes of preempted pods once no pod moves any longer. Each pod is counted once."""

    evicted: int
    """Pods that were evicted at least once, without pods that were being deleted anyway."""
    moved: int
    """Pods that run on another node than the one from which they were evicted first."""
    returned: int
    """Pods that run on the node from which they were evicted first."""
    pending: int
    lost: int
    """Pods that no controller recreates."""
    deleted: int = 0
    """Pods that were being deleted anyway."""
    rounds: int = 1
    preempting: tuple[str, ...] = ()
    """Evicted pods whose replacements evict others, by their keys."""
    evicted_in_turn: tuple[str, ...] = ()
    """Pods that replacements of evicted pods evict, by their keys."""
    tied: dict[str, tuple[str, ...]] = {}
    """Evicted pod -> pods of its node that are equal in priority and start, one of which may be evicted instead."""
    outrun: tuple[str, ...] = ()
    """Preemptors, by their keys, whose victims come back to the node before them again and again."""

    @property
    def sentence(self) -> str:
        """The chain in words: ``evicts 5 pods: 3 get another node, 2 stay Pending``.

        Pods that were being deleted anyway are among the pods in this sentence.
        """
        return f"evicts {counted(self.evicted + self.deleted, 'pod')}{self.outcomes_clause}"

    @property
    def outcomes_clause(self) -> str:
        """The outcomes of the evicted pods, as the end of a sentence about their eviction.

        The text reads like ``: 3 get another node, 2 stay Pending`` or, for a single pod, like ``, which stays
        Pending``. The text also names the pods that replacements evict, and the preemptors that lose their node to
        replacements.
        """
        verbs_by_outcome = (
            (self.moved, ("gets another node", "get another node")),
            (self.returned, ("returns to its node", "return to their nodes")),
            (self.pending, ("stays Pending", "stay Pending")),
            (self.lost, ("is gone for good", "are gone for good")),
            (self.deleted, ("was being deleted anyway", "were being deleted anyway")),
        )
        occurring = [(number, verbs) for number, verbs in verbs_by_outcome if number]
        if self.evicted + self.deleted != 1:
            text = ": " + ", ".join(counted(number, *verbs) for number, verbs in occurring)
        elif occurring:
            _number, (singular, _plural) = occurring[0]
            text = f", which {singular}"
        else:
            text = ", which waits"  # the only pod has none of these outcomes yet

        if self.evicted_in_turn:
            replacements = counted(len(self.preempting), "replacement evicts", "replacements evict")
            text += f", and {replacements} {first_few(self.evicted_in_turn)} in turn"
        if self.outrun:
            wait = agreeing(len(self.outrun), "keeps waiting", "keep waiting")
            text += f", and replacements take the node before {first_few(self.outrun)}, which {wait}"
        return text

    def name_victims(self, victims: Iterable[str]) -> str:
        """Return a list of the victims, and of the pods that could be evicted instead."""
        return list_victims(victims, self.tied)

    @property
    def goes_on(self) -> bool:
        """True if replacements evict pods in turn, preemptors keep waiting, or pods return to their nodes."""
        return bool(self.evicted_in_turn or self.outrun or self.returned)


def describe_objects_without_pods(titles: Sequence[str]) -> str:
    """Return a clause that says that none of these objects, which are not workloads, creates pods."""
    return f"{first_few(titles)} {agreeing(len(titles), 'creates', 'create')} no pods"


def describe_missing_namespaces(similar_by_name: Mapping[str, str]) -> str:
    """Return a clause that says that missing namespaces have to be created, or "" if none is missing.

    The values of ``similar_by_name`` are similar names of namespaces that exist, or empty.

    >>> describe_missing_namespaces({"tema": "team"})
    ', if namespace tema (did you mean team?), which does not exist, is created'
    """
    names = [f"{name} (did you mean {similar}?)" if similar else name for name, similar in similar_by_name.items()]
    if not names:
        return ""
    if len(names) == 1:
        return f", if namespace {names[0]}, which does not exist, is created"
    return f", if namespaces {first_few(names)}, which do not exist, are created"


NO_POOL = {"": "(none)"}


class PoolChange(Document, frozen=True):
    """The nodes, pods and utilization of a pool now and after the plan.

    Utilization is in percent of the pool's allocatable resources, or None if it has none.
    """

    pool: str
    nodes_before: int
    nodes_after: int
    pods_before: int
    pods_after: int
    cpu_before: float | None
    cpu_after: float | None
    memory_before: float | None
    memory_after: float | None
    cordoned: int = 0
    """The number of nodes that are cordoned now. These nodes and their pods are not counted."""


class DownNode(Document, frozen=True):
    """A node that is unreachable or not ready, with pods that are evicted or already being deleted."""

    node: str
    health: NodeHealth
    pods: tuple[str, ...]
    """The pods that stay Terminating."""
    not_replaced: tuple[str, ...] = ()
    """The pods among them whose controllers create no replacement as long as the pods exist."""

    def iter_gate_problems(self) -> Iterator[GateProblem]:
        """Yield a problem for the CI gate for each pod that stays Terminating on the node."""
        for pod in self.pods:
            yield GateProblem(
                "eviction-blocked", f"Pod {pod}", f"stays Terminating: {self.node} is {self.health.adjective}"
            )


def describe_pods_stuck_on_down_nodes(down_nodes: Sequence[DownNode]) -> tuple[str, ...]:
    """Describe how long pods stay Terminating on unreachable nodes, and on nodes that are not ready."""
    texts = []
    for health in (NodeHealth.UNREACHABLE, NodeHealth.NOT_READY):
        nodes = [down for down in down_nodes if down.health is health]
        if nodes:
            texts.append(_describe_stuck_pods(nodes, health))
    return tuple(texts)


def _describe_stuck_pods(nodes: Sequence[DownNode], health: NodeHealth) -> str:
    """Describe how long the pods of these nodes stay Terminating, and which of them get no replacement until then.

    `health` is the health of all these nodes: they are unreachable or not ready.
    """
    pods = [pod for down in nodes for pod in down.pods]
    if health is NodeHealth.UNREACHABLE:
        stay = agreeing(len(pods), "stays", "stay")
        recovery = agreeing(len(nodes), "its kubelet returns", "their kubelets return")
    else:
        stay = "may stay"  # the kubelet reports, and ends pods if its container runtime works
        recovery = agreeing(len(nodes), "it is ready again", "they are ready again")
    nodes_are = f"{first_few([down.node for down in nodes])} {agreeing(len(nodes), 'is', 'are')}"
    their_pods_stay = f"{agreeing(len(nodes), 'its', 'their')} {counted(len(pods), 'pod')} {stay}"
    forced_deletion = agreeing(len(pods), "the pod is force-deleted", "the pods are force-deleted")
    nodes_get = agreeing(len(nodes), "the node is deleted or gets", "the nodes are deleted or get")
    end = f"{recovery}, {forced_deletion}, or {nodes_get} the out-of-service taint"
    text = f"{nodes_are} {health.adjective}: {their_pods_stay} Terminating until {end}"
    not_replaced = [pod for down in nodes for pod in down.not_replaced]
    if not_replaced:
        text += f"; {first_few(not_replaced)} {agreeing(len(not_replaced), 'gets', 'get')} no replacement until then"
    return text
