"""The answer to "why is this pod Pending?" as a document: apiVersion kschedctl.dev/v1, kinds Explanation and
Explanations.

`kschedctl schema explanation` prints the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.commands.explain.pod_group_report import PodGroupReport, describe_group_failure
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.not_created import NOT_CREATED, CreationFix, NotCreated, OnceCreated
from kschedctl.reports.placements import FailedJob, describe_failing_jobs
from kschedctl.reports.plugin_answers import (
    ExtenderCallReport,
    ExtenderErrorReport,
    FirstFailReport,
    SearchedNodes,
    StatusReport,
)
from kschedctl.reports.remedy import Remedy, sort_verified_fixes_first
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortCause, ShortNodes, ShortPods, Summary, describe_no_node, describe_node_share
from kschedctl.reports.unknown import (
    UnknownKind,
    describe_doubt,
)
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, describe_state_counts, has_unadmitted, list_fixes
from kschedctl.scheduler.framework.facts import CauseScope
from kschedctl.scheduler.in_tree_plugins import AnyFact
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few


class PreFilterReport(Document, frozen=True):
    """A PreFilter plugin's answer."""

    code: str
    reasons: tuple[str, ...] = ()
    node_names: tuple[str, ...] | None = None
    """The nodes that the plugin leaves; None if it leaves all."""


class PostFilterReport(Document, frozen=True):
    """The answer of the PostFilter plugins together, under the name of one of them."""

    status: FirstFailReport
    nominated: str = ""
    """The node that they nominate."""


class NearestMiss(Document, frozen=True):
    """The node that is closest to satisfying a reason."""

    node: str
    fact: str
    """The figures on that node, in words."""
    fact_data: AnyFact | None = None
    """The figures as data."""

    @property
    def is_same_on_all_nodes(self) -> bool:
        """True if the fact does not depend on the node."""
        return self.fact_data is not None and self.fact_data.is_same_on_all_nodes


class Elimination(Document, frozen=True):
    """All nodes that the scheduler rejects for one reason."""

    plugin: str
    """The plugin that rejects them; empty for nodes that the scheduler did not look at."""
    reason: str
    nodes: int
    """The number of nodes."""
    only: int
    """The number of nodes that nothing else rejects."""
    nearest: NearestMiss | None = None

    @property
    def short_form(self) -> ShortCause:
        """The elimination as it appears in a summary."""
        closest = self.nearest or NearestMiss(node="", fact="")
        return ShortCause(self.reason, self.nodes, self.plugin, closest=closest.node, fact=closest.fact)


class Refusal(Document, frozen=True):
    """One plugin's reason against one node."""

    plugin: str
    reason: str
    fact: str = ""
    """The figures behind the reason, in words."""
    fact_data: AnyFact | None = None
    """The figures as data."""


class NodeReport(Document, frozen=True):
    """One node, feasible or rejected."""

    name: str
    zone: str
    pool: str
    feasible: bool
    refusals: tuple[Refusal, ...] = ()
    """Everything that rejects the node; the scheduler reports the first."""
    total: int | None = None
    """The total score of a feasible node."""


class NodeGroup(Document, frozen=True):
    """Nodes that are rejected for the same reasons."""

    nodes: int
    """The number of nodes."""
    pools: tuple[str, ...]
    """The node pools that contain them."""
    such_as: tuple[str, ...]
    """Two of the nodes, closest to fitting first."""
    refusals: tuple[Refusal, ...]
    """The rejections of the first of these."""

    @property
    def short_form(self) -> ShortNodes:
        """The group as it appears in a summary."""
        facts = (f"{refusal.plugin}: {refusal.fact or refusal.reason}" for refusal in self.refusals[:4])
        return ShortNodes(self.nodes, self.pools[:3], self.such_as[0], tuple(facts))


class Cause(Document, frozen=True):
    """A reason that keeps the pod off some of its eligible nodes.

    A node is eligible if it satisfies the pod's own constraints, its volumes and its devices. If possible, nodes with
    an untolerated taint or a cordon are left out as well.
    """

    plugin: str
    reason: str
    nodes: int
    """The number of eligible nodes to which the reason applies."""
    within: int
    """The number of eligible nodes; 0 if none is eligible, so that all nodes count."""
    nearest: str = ""
    """The closest of these nodes."""
    fact: str = ""
    """The figures on the closest node, in words."""
    fact_data: AnyFact | None = None
    """The figures as data."""
    conflict: str = ""
    """The demand of the pod that excludes another of its demands."""
    plain: str = ""
    """The cause in a sentence of its own: what is needed, and what is there."""

    @property
    def quotes_reason(self) -> bool:
        """True if the sentence has kube-scheduler's reason itself, for lack of figures or of a node to name."""
        return not (self.fact and self.nearest)

    @property
    def short_form(self) -> ShortCause:
        """The cause as it appears in a summary."""
        return ShortCause(
            self.reason,
            self.nodes,
            plugin=self.plugin,
            of_nodes=self.within,
            closest=self.nearest,
            fact=self.fact,
            conflict=self.conflict,
            plain=self.plain,
        )

    def build_scope(self, nodes: int) -> CauseScope:
        """Describe how many nodes the cause applies to, and name one: the closest, or an example if none is eligible.

        `nodes` is the number of nodes in the cluster. The texts are empty if the cause is not about nodes.

        >>> Cause("", "Insufficient cpu", 9, 9, "w4").build_scope(12).text
        ' (rules out all 9 candidate nodes; closest to fitting: w4)'
        """
        if not self.nearest:
            return CauseScope(node="", text="", share="")
        share = describe_node_share(self.nodes, self.within, nodes)
        rejects_only_eligible_node = self.nodes == 1 and self.within == 1
        if nodes == 1:  # a single node is named instead of counted
            text = f"rules out the only node, {self.nearest}"
        elif rejects_only_eligible_node:
            text = f"rules out {share}, {self.nearest}"
        elif self.fact_data is not None and self.fact_data.is_same_on_all_nodes:
            text = f"rules out {share}"
        else:
            named = f"; closest to fitting: {self.nearest}" if self.within else f", for example {self.nearest}"
            text = f"rules out {share}{named}"
        is_only_eligible_node = rejects_only_eligible_node and nodes > 1
        share_text = f" (rules out {share})" if share and not is_only_eligible_node else ""
        return CauseScope(
            self.nearest,
            text=f" ({text})",
            share=share_text,
            is_example=not self.within,
            is_only_node=nodes == 1,
            is_only_eligible_node=is_only_eligible_node,
            nodes=share,
            is_single=self.nodes == 1,
            is_partial=self.nodes < (self.within or nodes),
            no_node=describe_no_node(self.within, nodes),
        )


class Advice(Document, frozen=True):
    """A hint about the next thing to look at."""

    kind: str
    """The subject in one word."""
    text: str
    """The advice in a sentence."""
    node: str = ""
    """The node that the advice names."""
    claim: str = ""
    """The name of the PersistentVolumeClaim to look at, in the pod's namespace; empty if it is about no claim."""


class VictimReport(Document, frozen=True):
    """A pod that preemption would evict."""

    pod: str
    priority: int
    owner: str
    start_time: str | None
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that its eviction would violate."""


class CandidateReport(Document, frozen=True):
    """A node on which preemption would make room by evicting the victims."""

    victims: tuple[str, ...]
    pdb_violations: int
    details: tuple[VictimReport, ...] = ()
    ties: tuple[tuple[str, ...], ...] = ()
    """Groups of pods with equal priority and start time, each with a victim. kube-scheduler takes such pods in
    an arbitrary order, so it may evict others of them.
    """


class VolumesReport(Document, frozen=True):
    """The bindings and provisions that Reserve would make for the pod's unbound volumes on a node."""

    bindings: dict[str, str] = {}
    """Claim -> the PersistentVolume that would be bound to it."""
    provisions: tuple[str, ...] = ()
    """The claims for which a volume would be provisioned."""


class DeviceReport(Document, frozen=True):
    """A device that would be allocated for a request of a claim."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    consumed_capacity: dict[str, str] = {}
    """The capacity that would be used of a shared device."""


class NoLowerPriority(Document, frozen=True):
    """The finding that preemption cannot help because no pod to evict has a lower priority."""

    priority: int
    """The priority of the pending pod."""
    lowest: int
    """The lowest priority of a pod on these nodes."""
    highest: int
    """The highest priority of a pod on these nodes."""
    nodes: int
    """The number of nodes where preemption could help."""
    such_as: str
    """The first of these nodes."""

    @property
    def explanation(self) -> str:
        """The sentence that explains why preemption cannot help.

        >>> NoLowerPriority(0, 0, 0, 1, "w2").explanation
        'Preemption cannot help: every pod on w2 has the same priority as this pod (0)'
        >>> NoLowerPriority(0, 0, 1000, 3, "w2").explanation
        'Preemption cannot help: no pod on the 3 nodes considered has a lower priority than this pod (0)'
        >>> NoLowerPriority(0, 10, 1000, 1, "w2").explanation
        'Preemption cannot help: every pod on w2 has a higher priority (10 or more) than this pod (0)'
        """
        nodes_text = self.such_as if self.nodes == 1 else f"the {self.nodes:,} nodes considered"
        this_pod = f"this pod ({self.priority:,})"
        if self.lowest > self.priority:
            comparison = f"every pod on {nodes_text} has a higher priority ({self.lowest:,} or more) than {this_pod}"
        elif self.highest > self.priority:
            comparison = f"no pod on {nodes_text} has a lower priority than {this_pod}"
        else:
            comparison = f"every pod on {nodes_text} has the same priority as {this_pod}"
        return f"Preemption cannot help: {comparison}"


class PreemptionReport(Document, frozen=True):
    """The effect of preemption for the pod."""

    asked: bool
    """True if the scheduler runs preemption here. If not, this is what it would find."""
    eligible: bool
    """True if the pod may preempt others."""
    why: str = ""
    """The reason why the pod may not preempt others, or why preemption does not help."""
    candidates: dict[str, CandidateReport] = {}
    """Node -> the victims there."""
    tied: tuple[str, ...] = ()
    """The nodes that all of the scheduler's criteria leave equal."""
    chosen: str | None = None
    """The first of the tied nodes by name."""
    decided_by: str = ""
    """The criterion that decides."""
    unhelpful: dict[str, int] = {}
    """Reason -> the number of nodes where preemption does not help."""
    limit: int = 0
    """The number of candidates after which the scheduler stops searching, from a random node on. Here every node is
    tried.
    """
    nominated: str = ""
    """The node for which the pod is nominated while preemption is under way."""
    terminating: tuple[str, ...] = ()
    """The pods that terminate to make room there."""
    overdue: str = ""
    """For how long the first of these pods should have been gone when the cluster was read; empty if unknown."""
    rivals: tuple[str, ...] = ()
    """The other waiting pods that take that room first, so that waiting for the terminating pods does not help."""
    plugin: str = "DefaultPreemption"
    """The plugin that decides whom to preempt."""
    no_lower_priority: NoLowerPriority | None = None
    """Set if there is no candidate because of the priorities alone."""
    victims_without_node: tuple[str, ...] | None = None
    """The pods that get no other node once the chosen victims are evicted, recreated and scheduled, or that no
    controller recreates. None if this was not replayed.
    """
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because the victims on the chosen node are evicted."""
    failed_jobs_on_tied_nodes: dict[str, tuple[FailedJob, ...]] = {}
    """Node other than the chosen one -> the Jobs that fail if the scheduler picks this node, which is equally good."""
    violated_budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that the evictions violate once the chosen victims are evicted, recreated and scheduled.
    Empty if this was not replayed.
    """

    @property
    def chosen_by_scheduler(self) -> str:
        """The chosen node if the scheduler preempts pods here, otherwise empty."""
        return (self.chosen or "") if self.asked else ""

    @property
    def chosen_victims(self) -> tuple[str, ...]:
        """The victims on the node that the scheduler chooses. There are none if it preempts no pods here."""
        return self.candidates[self.chosen_by_scheduler].victims if self.chosen_by_scheduler else ()

    @property
    def victims_on_tied_nodes(self) -> tuple[str, ...]:
        """The victims on the other nodes that the scheduler may choose by chance, or () if it preempts no pods here."""
        if not self.chosen_by_scheduler:
            return ()
        other_candidates = (
            self.candidates[node] for node in self.tied if node != self.chosen and node in self.candidates
        )
        return tuple(dict.fromkeys(victim for candidate in other_candidates for victim in candidate.victims))

    @property
    def lack_of_lower_priority(self) -> str:
        """A sentence that no pod has a lower priority, or an empty string if that is not the obstacle."""
        return self.no_lower_priority.explanation if self.no_lower_priority is not None else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the harm that preemption does, empty unless the scheduler would preempt pods.

        They name the victims and say what becomes of them, and name the pods that are evicted in turn and get no other
        node, the Jobs that fail, the PodDisruptionBudgets that are violated, and nodes that are equally good choices.
        """
        if not self.chosen_victims:
            return ()
        candidate = self.candidates[self.chosen_by_scheduler]
        alternatives = ", or others of the same priority and start time" if candidate.ties else ""
        evicts = f"evicts {first_few(candidate.victims)}"
        if len(self.tied) > 1:
            evicts = f"for example, {evicts} on {self.chosen}"
        lines = [f"{evicts}{self._fate_clause}{alternatives}"]
        lines += [*self.later_evictions, *(job.describe() for job in self.failed_jobs), *self.budget_violations]
        if len(self.tied) > 1:
            lines.append(f"picks one of {len(self.tied):,} equally good nodes at random: {first_few(self.tied)}")
        lines += self.failures_on_tied_nodes
        return tuple(lines)

    @property
    def later_evictions(self) -> tuple[str, ...]:
        """A tuple of one sentence about the pods that recreated victims evict for good; empty if there are none."""
        later_victims = [pod for pod in self.victims_without_node or () if pod not in self.chosen_victims]
        if not later_victims or not self.chosen_victims:
            return ()
        predicate = agreeing(len(later_victims), "is evicted in turn and gets", "are evicted in turn and get")
        return (f"{join_first_few(later_victims)} {predicate} no other node",)

    @property
    def budget_violations(self) -> tuple[str, ...]:
        """A tuple of one sentence on the PDBs that the scheduler would violate, or () if there are none."""
        if not self.chosen_by_scheduler:
            return ()
        details = self.candidates[self.chosen_by_scheduler].details
        budgets = dict.fromkeys([*(budget for victim in details for budget in victim.budgets), *self.violated_budgets])
        return (f"violates PodDisruptionBudget {first_few(tuple(budgets))}",) if budgets else ()

    @property
    def failures_on_tied_nodes(self) -> tuple[str, ...]:
        """A tuple of one sentence on the Jobs that fail if the scheduler picks another of the equally good nodes.

        The tuple is empty if the scheduler would not choose these victims, or if no Job fails in that case.
        """
        if not self.chosen_by_scheduler or not self.failed_jobs_on_tied_nodes:
            return ()
        nodes = tuple(self.failed_jobs_on_tied_nodes)
        jobs = {job.job: job for failed_jobs in self.failed_jobs_on_tied_nodes.values() for job in failed_jobs}
        picked = first_few(nodes) if len(nodes) == 1 else f"one of {first_few(nodes)}"
        return (f"if it picks {picked}, {describe_failing_jobs(tuple(jobs.values()))}",)

    @property
    def _fate_clause(self) -> str:
        """A clause that says how many of the chosen victims get no other node, or "" if this was not replayed."""
        if self.victims_without_node is None:
            return ""
        homeless = sum(pod in self.victims_without_node for pod in self.chosen_victims)
        return f", {_describe_fate_of_evicted_pods(len(self.chosen_victims), homeless)}"

    @property
    def preemption_clause(self) -> str:
        """A clause such as ", would preempt 1 pod on n1", or an empty string if nothing is preempted.

        It is `preemption_text` after a comma.
        """
        return f", {self.preemption_text}" if self.preemption_text else ""

    @property
    def preemption_text(self) -> str:
        """A text such as "would preempt 1 pod on n1", or an empty string if nothing is preempted.

        It says how many of the pods get no other node, if this was replayed, and which Jobs fail.
        """
        return self._build_preemption_text(
            f"one of {len(self.tied):,} nodes" if len(self.tied) > 1 else str(self.chosen)
        )

    @property
    def preemption_text_with_names(self) -> str:
        """The `preemption_text` with the names of the pods, such as "would preempt 1 pod on n1 (shop/low)"."""
        names = first_few(self.chosen_victims, 2)
        if len(self.tied) > 1:
            return self._build_preemption_text(f"one of {len(self.tied):,} nodes (such as {names} on {self.chosen})")
        return self._build_preemption_text(f"{self.chosen} ({names})")

    def _build_preemption_text(self, nodes_text: str) -> str:
        """Build the text on the preempted pods, their fate and the Jobs that fail, or return "" if none is preempted.

        `nodes_text` describes the node of the pods, or the equally good nodes.
        """
        if not self.chosen_victims:
            return ""
        victims = counted(len(self.chosen_victims), "pod")
        return f"would preempt {victims} on {nodes_text}{self._fate_clause}{self._failing_jobs_clause}"

    @property
    def _failing_jobs_clause(self) -> str:
        """A clause on the Jobs that fail because of the preemption, or "" if none fails.

        Jobs that fail only with some of the equally good nodes are named with the node.
        """
        if self.failed_jobs:
            failing_jobs = describe_failing_jobs(self.failed_jobs)
            is_node_certain = len(self.tied) <= 1
            return (
                f", so that {failing_jobs}" if is_node_certain else f", and if it picks {self.chosen}, {failing_jobs}"
            )
        if self.failures_on_tied_nodes:
            return f", and {', '.join(self.failures_on_tied_nodes)}"
        return ""


def describe_rivals(rivals: Sequence[str]) -> str:
    """Return a clause about the waiting pods that take the room before another pod can.

    >>> describe_rivals(["a/b"])
    'a/b takes the room first'
    """
    return f"{join_first_few(rivals)} {agreeing(len(rivals), 'takes', 'take')} the room first"


def describe_causes(causes: Sequence[Cause]) -> str:
    """Describe all causes in one line, starting with contradictory demands of the pod."""
    conflicts = (cause.conflict for cause in causes if cause.conflict)
    return "; ".join([*conflicts, *(cause.plain or cause.reason for cause in causes)])


UNSCHEDULABLE = "Unschedulable"
PASSED = ("Success", "Skip")
"""The codes of PreFilter plugins that do not reject the pod."""
FINE = ("Schedulable", "Bound", "Finished")
"""The verdicts on pods that have a node or would get one."""
NODE_HEADER = ("pod", "verdict", "node", "zone", "pool", "score", "plugin", "reason", "fact")
_NO_NODE_CELLS = ("",) * 4
"""The cells node, zone, pool and score of a row that is not about a node."""
WORKLOAD_NAME = re.compile(r"\b[A-Z]\w+ [a-z0-9.-]+/[a-z0-9.-]+")
"""A kind with namespace and name, such as "Deployment shop/web"."""


class ClaimWithoutScheduler(Document, frozen=True):
    """A WaitForFirstConsumer claim that nobody binds, because its pod's node is set by spec.nodeName."""

    claim: str
    storage_class: str


class ReplicaCount(Document, frozen=True):
    """The number of pods of a workload that get a node once its manifest is applied, and the pods that they evict."""

    workload: str
    placed: int
    total: int
    victims: tuple[str, ...] = ()
    """The running pods of other workloads that are evicted for those that get a node."""
    victims_without_node: tuple[str, ...] = ()
    """The victims that get no other node, or that no controller recreates."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because the victims are evicted."""
    rollout: str = ""
    """The state of the rollout that replaces the workload's old pods, such as `stuck: …`; empty if it is not stuck."""

    @property
    def are_all_placed(self) -> bool:
        """True if all pods of the workload get a node."""
        return self.placed == self.total

    @property
    def figures(self) -> dict[str, int]:
        """The numbers of pods for a summary, under the names that the summary of a drain uses."""
        return {
            "placed": self.placed,
            "unplaced": self.total - self.placed,
            "evicted": len(self.victims),
            "unplacedEvicted": len(self.victims_without_node),
        }

    @property
    def placement_sentence(self) -> str:
        """The sentence about how many pods of the workload get a node, and which pods they evict, if any.

        If a rollout is stuck, the sentence says how far it gets.
        """
        placement = self._describe_placement()
        if not self.victims:
            return placement
        conjunction = "but" if self.are_all_placed else "and"
        return f"{placement}, {conjunction} this evicts {self._describe_victims()}"

    def _describe_placement(self) -> str:
        """Describe how many pods of the workload get a node, or how far its stuck rollout gets."""
        if self.are_all_placed and self.total == 1:
            return f"the pod of {self.workload} gets a node"
        if self.are_all_placed:
            return f"all {self.total:,} pods of {self.workload} get a node"
        if self.rollout:
            return f"the rollout of {self.workload} gets {self.rollout}"
        verb = agreeing(self.placed, "gets", "get")
        return f"only {self.placed:,} of the {self.total:,} pods of {self.workload} {verb} a node"

    def _describe_victims(self) -> str:
        """Describe which running pods are evicted, and which of them get no other node."""
        evicted, homeless = len(self.victims), len(self.victims_without_node)
        names = first_few(self.victims)
        victims = names if evicted == 1 else f"{evicted:,} running pods ({names})"
        text = f"{victims}, {_describe_fate_of_evicted_pods(evicted, homeless)}"
        if 0 < homeless < evicted:
            text = f"{text} ({first_few(self.victims_without_node)})"
        return f"{text}, so that {describe_failing_jobs(self.failed_jobs)}" if self.failed_jobs else text


def _describe_fate_of_evicted_pods(evicted: int, homeless: int) -> str:
    """Describe in a relative clause how many of the evicted pods get no other node.

    >>> _describe_fate_of_evicted_pods(1, 0), _describe_fate_of_evicted_pods(2, 2)
    ('which gets another node', 'none of which gets another node')
    >>> _describe_fate_of_evicted_pods(3, 1)
    '1 of which gets no other node'
    """
    if not homeless:
        return agreeing(evicted, "which gets another node", "all of which get another node")
    if homeless == evicted:
        return agreeing(evicted, "which gets no other node", "none of which gets another node")
    return f"{homeless:,} of which {agreeing(homeless, 'gets', 'get')} no other node"


class _VerdictPart(Report, frozen=True):
    """The part of an explanation that gives the answer about the pod."""

    pod: str
    verdict: str
    """Schedulable, Unschedulable, Gated, NotResponsible, Bound, Finished, Error, or NotCreated.

    NotResponsible: the pod belongs to another scheduler, or is being deleted. Finished: it has ended. NotCreated: it
    would be scheduled (see `once_created`), but its workload cannot create it.
    """
    headline: str
    """The answer in one line."""
    as_if: str = ""
    """The difference between the explained pod and the stored one, such as `cpu=500m`; usually empty."""
    stands_for: str = ""
    """The workload that the question is about, if the pod only stands for it; empty otherwise."""
    workload: str = ""
    """The workload of which this is a new pod, if the question is about its manifest; empty otherwise."""
    replicas: ReplicaCount | None = None
    """The number of the workload's pods that get a node, if only some do, or if they evict running pods.

    If some get no node, the explained pod is one of them.
    """
    not_created: NotCreated | None = None
    """The pods that the workload could not create."""
    once_created: OnceCreated | None = None
    """The answer of scheduling if the pod were created; set with the verdict NotCreated."""
    fewer_pods: tuple[str, ...] = ()
    """The reasons why the workload has no more pods."""
    message: str | None = None
    """The message of kube-scheduler's event. For a gated pod, the message once the gates are removed."""
    advice: tuple[Advice, ...] = ()
    """Advice on the next steps."""


class _DoubtsPart(_VerdictPart, frozen=True):
    """The part of an explanation about what the answer leaves out or could not take into account."""

    not_replayed: tuple[str, ...] = ()
    """The things that are not replayed and could change the answer."""
    upstream_faults: tuple[str, ...] = ()
    """Bugs of kube-scheduler that decide the answer, and the answer without them."""
    ignored: tuple[str, ...] = ()
    """Input that the replayed version drops from new objects, ignores or rejects."""
    extended: tuple[str, ...] = ()
    """The data that extenders received."""
    unknown: tuple[UnknownKind, ...] = ()
    """The kinds of objects that the answer depends on and that were not read."""
    undecided: bool = False
    """True if what was not read could change the verdict."""
    scheduler_name: str = ""
    kube_version: str = ""


class _FilterPart(_DoubtsPart, frozen=True):
    """The part of an explanation with the answers of the plugins up to Filter, as in the conformance contract."""

    node_order: tuple[str, ...] = ()
    """All nodes, in the order in which kube-scheduler searches them."""
    queue: dict[str, StatusReport] = {}
    """PreEnqueue plugin -> its answer."""
    pre_filter: dict[str, PreFilterReport] = {}
    """PreFilter plugin -> its answer."""
    filter: dict[str, dict[str, StatusReport]] = {}
    """Node -> Filter plugin that rejects it -> the plugin's answer."""
    first_fail: dict[str, FirstFailReport] = {}
    """Node -> the first Filter plugin that rejects it, whose reasons kube-scheduler reports."""
    feasible: tuple[str, ...] = ()
    """The nodes that pass all filters."""


class _ScorePart(_FilterPart, frozen=True):
    """The part of an explanation with the scores of the feasible nodes."""

    score: dict[str, dict[str, int]] = {}
    """Plugin -> node -> the score before normalization."""
    normalized: dict[str, dict[str, int]] = {}
    """Plugin -> node -> the score after normalization, 0 to 100."""
    weighted: dict[str, dict[str, int]] = {}
    """Plugin -> node -> the normalized score times the plugin's weight."""
    weights: dict[str, int] = {}
    """Plugin -> its weight in the profile."""
    total: dict[str, int] = {}
    """Node -> the sum of its weighted scores, with those of extenders."""
    best: tuple[str, ...] = ()
    """The nodes with the highest total."""


class _RejectionPart(_ScorePart, frozen=True):
    """The part of an explanation about the nodes that are rejected, by reason and by node."""

    causes: tuple[Cause, ...] = ()
    """The causes that keep an unschedulable pod off the nodes within its reach."""
    eliminations: tuple[Elimination, ...] = ()
    """The rejected nodes by the reason that kube-scheduler reports."""
    nodes: tuple[NodeReport, ...] = ()
    """All nodes: the feasible ones by score, then the others, closest to fitting first."""
    groups: tuple[NodeGroup, ...] = ()
    """The rejected nodes by all their reasons."""


class _PlacementPart(_RejectionPart, frozen=True):
    """The part of an explanation with the steps after Score: Reserve, PostFilter and Permit."""

    volumes: dict[str, VolumesReport] = {}
    """Feasible node -> the volumes that would be bound or provisioned there."""
    allocations: dict[str, dict[str, tuple[DeviceReport, ...]]] = {}
    """Feasible node -> ResourceClaim -> the devices that would be allocated there."""
    preemption: PreemptionReport | None = None
    """The result of preemption, before extenders are called."""
    post_filter: PostFilterReport | None = None
    """The answer of the PostFilter plugins, after extenders had their say."""
    permit: dict[str, FirstFailReport] = {}
    """Best node -> why the pod is not bound there at once. The plugin is empty if the pod only has to wait."""
    unschedulable_plugins: tuple[str, ...] = ()
    """The plugins that rejected nodes in the search; extenders count as one plugin, `Extender`."""


class _ExtenderPart(_PlacementPart, frozen=True):
    """The part of an explanation about the configuration's extenders, by their URLs."""

    extender_order: tuple[str, ...] = ()
    """The extenders, in the order in which they are called."""
    calls: tuple[ExtenderCallReport, ...] = ()
    """The calls that were made."""
    diagnosis: dict[str, FirstFailReport] = {}
    """Node -> its status in kube-scheduler's diagnosis. The plugin is empty for the words of an extender."""
    binder: str = ""
    """The extender that would bind the pod instead of the scheduler. It is never called to do so."""
    extender_errors: tuple[ExtenderErrorReport, ...] = ()
    """The calls without a usable answer."""
    extender_refusals: dict[str, dict[str, str]] = {}
    """Extender -> node that it rejects -> its message."""
    extender_scores: dict[str, dict[str, int]] = {}
    """Extender -> node -> the points that it adds to the node's total."""


class Explanation(_ExtenderPart, frozen=True):
    """The complete answer to why a pod is Pending.

    The fields are inherited from the parts above, each of which has one subject. In JSON, all fields are side by side.
    A field that the conformance contract names has the contract's form. The other fields are for people.
    """

    pod_group: PodGroupReport | None = None
    """The group of a pod that is placed with others. Answers about nodes are about the pod by itself."""
    new_node: NewNode | None = None
    """The node that the cluster's autoscaler would launch for the unschedulable pod, or why it launches none."""
    searched: SearchedNodes | None = None
    """The search for nodes, if only a part of them was searched; `feasible` then lists nodes of that part."""
    remedies: tuple[Remedy, ...] = ()
    """The best changes that let an unschedulable pod schedule, each verified by replay. Only on request."""
    impossible: tuple[str, ...] = ()
    """Reasons why some kinds of changes cannot help. Only on request."""
    claims_without_scheduler: tuple[ClaimWithoutScheduler, ...] = ()
    """The claims that wait for the scheduler, which the pod's spec.nodeName bypasses."""
    missing_class: str = ""
    """The StorageClass that a claim of the unschedulable pod names and that does not exist, unless a cause names it."""
    kubelet_rejection: str = ""
    """The reason why the kubelet of the new pod's spec.nodeName would reject it; empty if it would not."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """Objects that wait for another controller before any pod of the workload is created."""
    rivals: tuple[str, ...] = ()
    """The other waiting pods that take the room first, if the pod fits by itself but then gets no node, or only
    a node that preemption makes room on."""
    node_after_rivals: str = ""
    """The node that the pod gets although the rivals take the room first; empty if it gets none."""
    victims_after_rivals: tuple[str, ...] = ()
    """The pods that the pod preempts to get `node_after_rivals`."""
    budgets_violated_after_rivals: tuple[str, ...] = ()
    """The PodDisruptionBudgets that preempting `victims_after_rivals` violates."""
    failed_jobs_after_rivals: tuple[FailedJob, ...] = ()
    """The Jobs that fail because `victims_after_rivals` are preempted."""
    node_after_other_preemptions: str = ""
    """The node that an unschedulable pod gets without a fix, once other waiting pods have preempted pods; empty if it
    gets none."""
    kind: str = "Explanation"

    @property
    def is_fine(self) -> bool:
        """True if the pod has a node or would get one, and nothing there keeps it from running."""
        return self.verdict in FINE and not self.claims_without_scheduler and not self.kubelet_rejection

    @property
    def rivals_clause(self) -> str:
        """A clause about the rivals, and about the node that the pod gets nevertheless."""
        rivals = describe_rivals(self.rivals)
        return f"{rivals}, so the pod {self.outcome_after_rivals}" if self.node_after_rivals else rivals

    @property
    def outcome_after_other_preemptions(self) -> str:
        """A sentence about the node that the pod gets without a fix, or "" if it gets none."""
        node = self.node_after_other_preemptions
        return f"it will get {node} without a fix once other waiting pods have preempted pods" if node else ""

    @property
    def outcome_after_rivals(self) -> str:
        """The predicate of a sentence about the pod: which node it gets after its rivals, and which pods it preempts.

        It also names the PodDisruptionBudgets that the preemption violates, and the Jobs that fail.
        """
        if not self.victims_after_rivals:
            return f"will get {self.node_after_rivals}"
        harms = []
        if self.budgets_violated_after_rivals:
            harms.append(f"violates PodDisruptionBudget {first_few(self.budgets_violated_after_rivals)}")
        if self.failed_jobs_after_rivals:
            harms.append(describe_failing_jobs(self.failed_jobs_after_rivals))
        harms_text = f" ({'; '.join(harms)})" if harms else ""
        victims = join_first_few(self.victims_after_rivals)
        return f"will get {self.node_after_rivals} by preempting {victims}{harms_text}"

    @property
    def leaves_victims_without_node(self) -> bool:
        """True if the workload's pods evict running pods that get no other node."""
        return self.replicas is not None and bool(self.replicas.victims_without_node)

    @property
    def group_failure(self) -> str:
        """A text that says why the pod's group is not placed, or "" if there is no group or it is not to blame."""
        if self.pod_group is None:
            return ""
        is_rejected_early = any(answer.code not in PASSED for answer in self.pre_filter.values())
        return describe_group_failure(self.pod_group, self.verdict, is_rejected_early=is_rejected_early)

    @property
    def headline_lists_causes(self) -> bool:
        """True if the headline is just the list of causes, so a page may show the causes one by one instead.

        A headline about the pod's group, preemption under way or a missing StorageClass is not.
        """
        if self.verdict != UNSCHEDULABLE or not self.causes or self.missing_class or self.group_failure:
            return False
        return self.preemption is None or not self.preemption.terminating

    @property
    def headline_with_preemption(self) -> str:
        """The headline after the pods that the scheduler would preempt.

        An example is `would preempt 1 pod on n1 (shop/low); needs …`. Without preemption, it is the headline alone.
        """
        text = self.preemption.preemption_text_with_names if self.preemption is not None else ""
        return f"{text}; {self.headline}" if text else self.headline

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the pod, its verdict with the doubts about it, and the reason in `headline`.

        A hypothetical change of the pod (`as_if`) and a sentence about all replicas come first, if there are any. If
        the workload could not create the pod, the workload is named instead of the pod. If another object awaits
        admission, that object is named.
        """
        creation_failure = self.not_created
        if creation_failure is not None and not creation_failure.past:
            return (creation_failure.workload, "Not created:", creation_failure.headline)
        if has_unadmitted(self.waiting_elsewhere):
            first = self.waiting_elsewhere[0]
            return (first.resource, first.headline)
        preemption_clause = self.preemption.preemption_clause if self.preemption is not None else ""
        verdict = f"{self.verdict}{preemption_clause}{describe_doubt(self.unknown)}"
        answer = (self.pod, f"{verdict}:", self.headline) if self.headline else (self.pod, verdict)
        if self.replicas is not None:
            answer = (f"{self.replicas.placement_sentence}:", *answer)
        return (f"as if {self.as_if}:", *answer) if self.as_if else answer

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the verdict, causes, nodes, preemption, warnings, fixes, advice and figures to the summary.

        The nodes are the closest ones and the best ones. If there are no causes, the reasons why nodes are rejected
        take their place.
        """
        preemption = self.preemption
        by_score = sorted(self.total, key=lambda node: (node not in self.best, -self.total[node], node))
        causes = tuple(cause.short_form for cause in self.causes)
        return replace(
            summary,
            subject=self.pod,
            verdict=self.verdict,
            as_if=self.as_if,
            stands_for=self.stands_for,
            replicas=self.replicas.placement_sentence if self.replicas is not None else "",
            message=self.message or "",
            causes=causes or tuple(elimination.short_form for elimination in self.eliminations),
            closest=tuple(group.short_form for group in self.groups),
            best={node: self.total[node] for node in by_score[:3]},
            nominated=preemption.chosen_by_scheduler if preemption is not None else "",
            nominated_choices=len(preemption.tied) if preemption is not None and len(preemption.tied) > 1 else 0,
            preemption=preemption.lack_of_lower_priority if preemption is not None else "",
            victims=preemption.chosen_victims if preemption is not None else (),
            warnings=(
                *([self.replicas.placement_sentence] if self.replicas is not None else ()),
                *(preemption.warnings if preemption is not None else ()),
                *([f"fits by itself, but {self.rivals_clause}"] if self.rivals else ()),
                *([self.outcome_after_other_preemptions] if self.node_after_other_preemptions else ()),
                *([f"new node: {self.new_node.answer}"] if self.new_node is not None else ()),
            ),
            fixes=(
                *(fix.to_short_fix() for fix in self._creation_fixes),
                *(
                    remedy.to_short_fix()
                    for remedy in (*list_fixes(self.waiting_elsewhere), *sort_verified_fixes_first(self.remedies))
                ),
            ),
            advice=tuple(advice.text for advice in self.advice),
            figures={
                "feasibleNodes": len(self.feasible),
                "nodes": len(self.nodes),
                **(self.replicas.figures if self.replicas is not None else {}),
            },
        )

    @property
    def gets_new_node(self) -> bool:
        """True if an autoscaler would launch a node for the pod, so waiting is enough."""
        return self.new_node is not None and self.new_node.gets_node

    @property
    def _creation_fixes(self) -> tuple[CreationFix, ...]:
        """The changes with which the workload can create its pods now, or () if it does not fail to create them."""
        failure = self.not_created
        return () if failure is None or failure.past else failure.fixes

    def build_csv_table(self) -> CsvTable:
        """Return a row for each node and reason, or one row if no node was evaluated."""
        return CsvTable(NODE_HEADER, self.iter_csv_rows())

    def iter_csv_rows(self) -> Iterator[Sequence[object]]:
        """Yield a row for a current failure to create pods, then a row per node and reason for rejection.

        A feasible node has one row. If there are no nodes, one row is about the pod.
        """
        failure = self.not_created
        if failure is not None and not failure.past:
            yield failure.workload, NOT_CREATED, *_NO_NODE_CELLS, "", failure.headline, ""
        for node in self.nodes:
            total = "" if node.total is None else node.total
            node_cells = (self.pod, self.verdict, node.name, node.zone, node.pool, total)
            for refusal in node.refusals:
                yield *node_cells, refusal.plugin, refusal.reason, refusal.fact
            if not node.refusals:
                yield *node_cells, "", "", ""
        if not self.nodes:
            yield self.pod, self.verdict, *_NO_NODE_CELLS, "", self.message or self.headline, ""

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the pod."""
        return (self.pod,)

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return the problem that should fail a CI gate, as a list of at most one.

        The problem is that the pod, or another pod of its workload, could not be created, gets no node, or evicts
        running pods. If the pod gets no node, the problem includes its best fix. The list is empty if all these pods
        have a node or would get one without evicting others.
        """
        creation_failure = self.not_created
        if creation_failure is not None and not creation_failure.past:  # after past failures, pods were created
            return [creation_failure.gate_problem]
        if self.replicas is not None:
            rule = "evicted" if self.replicas.are_all_placed else "not-scheduled"
            return [GateProblem(rule, self.replicas.workload, self.replicas.placement_sentence)]
        if self.is_fine:
            return []
        # A pod that stands for a workload is reported under the workload's name
        workload = WORKLOAD_NAME.search(self.stands_for)
        subject = workload[0] if workload else f"Pod {self.pod}"
        fix = sort_verified_fixes_first(self.remedies)[0].summary if self.remedies else ""
        return [GateProblem("not-scheduled", subject, self.headline, fix)]


class Explanations(Report, frozen=True):
    """The explanations of several pods, each by itself, in the order of the question."""

    explanations: tuple[Explanation, ...]
    not_replayed: tuple[str, ...] = ()
    """The things that are not replayed and could change an answer."""
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    """The kinds of objects that an answer depends on and that were not read."""
    undecided: bool = False
    """True if the answer that all pods are fine depends on what was not read."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    kind: str = "Explanations"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many of the pods have a node or would get one, and the doubts about this number.

        If the question is about manifests of workloads, all pods of a workload count. The counts of evicted pods and of
        objects that wait for another controller follow.
        """
        fine = sum(explanation.is_fine for explanation in self.explanations)
        number = len(self.explanations)
        workload_count = sum(bool(explanation.workload) for explanation in self.explanations)
        if workload_count:
            noun = "workload" if workload_count == number else "pod or workload"
            plural = "workloads" if workload_count == number else "pods and workloads"
            subject = f"{fine:,} of {counted(number, noun, plural)}"
            sentence = f"{agreeing(fine, 'gets', 'get')} a node for every pod"
        else:
            subject = f"{fine:,} of {counted(number, 'pod')}"
            sentence = f"{agreeing(fine, 'has', 'have')} a node or would get one"
        new_nodes = sum(explanation.gets_new_node for explanation in self.explanations)
        if new_nodes:
            sentence += " now"
        if number > 1:
            sentence += ", each by itself"
        if new_nodes:
            sentence += f"; {new_nodes:,} would get a new node"
        besides = f"; {describe_state_counts(self.waiting_elsewhere)}" if self.waiting_elsewhere else ""
        return (subject, sentence + self._eviction_clause + besides + describe_doubt(self.unknown))

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    @property
    def _eviction_clause(self) -> str:
        """A clause about the running pods that workloads evict, or an empty string if they evict none."""
        replicas = [explanation.replicas for explanation in self.explanations if explanation.replicas is not None]
        evicted = {pod for count in replicas for pod in count.victims}
        homeless = {pod for count in replicas for pod in count.victims_without_node}
        if not evicted:
            return ""
        pods = counted(len(evicted), "running pod")
        verb = agreeing(len(evicted), "is", "are")
        return f"; {pods} {verb} evicted, {_describe_fate_of_evicted_pods(len(evicted), len(homeless))}"

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the headline of each pod's explanation, and the fixes for pods without a node, to the summary."""
        pods = []
        fixes = []
        for explained in self.explanations:
            counts = f"{explained.replicas.placement_sentence}: " if explained.replicas else ""
            pods.append(ShortPods(1, explained.pod, explained.stands_for, f"{counts}{explained.headline}"))
            if not explained.is_fine:
                own_fixes = explained.extend_summary(summary).fixes
                fixes += [replace(fix, summary=f"for {explained.pod}: {fix.summary}") for fix in own_fixes]
        return replace(
            summary,
            subject=counted(len(pods), "pod"),
            pods=tuple(pods),
            fixes=tuple(fixes),
            figures={"pods": len(pods)},
        )

    def build_csv_table(self) -> CsvTable:
        """Return the rows of all explanations."""
        return CsvTable(NODE_HEADER, (row for explanation in self.explanations for row in explanation.iter_csv_rows()))

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the explained pods."""
        return tuple(explanation.pod for explanation in self.explanations)

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return the problems that should fail a CI gate, at most one for each explained pod."""
        return [problem for explanation in self.explanations for problem in explanation.find_ci_gate_problems()]
