"""The report of ``simulate``: apiVersion kschedctl.dev/v1, kind Simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.reports.columns import Column, CsvTable, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.new_node import NodeGrowth
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.placements import (
    ROLLOUT_COMPLETE,
    EvictedPod,
    EvictionChain,
    EvictionFate,
    FailedJob,
    Headroom,
    PodCount,
    RetriedPods,
    UnplacedPods,
    Variation,
    describe_evictions,
    describe_missing_namespaces,
    describe_objects_without_pods,
    describe_violated_budgets,
    list_displaced_pods,
    select_displaced_pods,
)
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.reports.waiting_elsewhere import (
    WaitingElsewhere,
    describe_state_counts,
    find_unadmitted_objects,
    has_unadmitted,
)
from kschedctl.scheduler.queueing.scheduling_queue import TIMEOUT
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few, join_words


class UnevenSpread(Document, frozen=True):
    """A DoNotSchedule spread constraint that a workload's pods exceed at the end of a rollout."""

    key: str
    """The topology key."""
    pods: dict[str, int]
    """The number of counted pods in each domain."""
    skew: int
    max_skew: int
    counts_old_pods: bool
    """True if it is a Deployment's constraint without matchLabelKeys, which also counts the pods of the old version."""

    def describe(self, workload: str) -> str:
        """Return the sentence that the workload ends up unevenly spread, with the cause if it is known."""
        domains, numbers = join_words(list(self.pods)), join_words([f"{number:,}" for number in self.pods.values()])
        text = (
            f"{workload} ends up unevenly spread over {self.key}: {numbers} pods in {domains} (skew {self.skew:,}, "
            f"maxSkew {self.max_skew:,})"
        )
        if self.counts_old_pods:
            text += (
                ", because the constraint also counted the old pods while new ones were placed; matchLabelKeys: "
                "[pod-template-hash] in the constraint prevents this"
            )
        return text


class WorkloadPlacement(Document, frozen=True):
    """A workload at the end of the simulation."""

    workload: Annotated[str, Column(keep=True)]
    desired: int
    created: int
    """The number of new pods."""
    running: Annotated[int, Column("scheduled")]
    """The number of pods with a node."""
    pending: Annotated[int, Column(show_above=0, tone=Tone.BAD)]
    """The number of pods without a node."""
    removed: Annotated[int, Column("old pods removed", show_above=0)] = 0
    """The number of pods of the old version that were removed."""
    nodes: Annotated[dict[str, int], Column(show_count=True)] = msgspec.field(default_factory=dict)
    """The number of the workload's pods on each node."""
    domains: Annotated[dict[str, dict[str, int]], Column("where", narrow=True)] = msgspec.field(default_factory=dict)
    """The number of the workload's pods by topology key and value."""
    rollout: Annotated[str, Column(narrow=True)] = ""
    """The progress of the rollout, empty if there is none."""
    surge: int = 0
    """The maximum number of additional pods during the rollout."""
    unavailable: int = 0
    """The maximum number of missing pods during the rollout."""
    uneven_spreads: tuple[UnevenSpread, ...] = ()
    """The DoNotSchedule spread constraints that the pods exceed once all old pods are removed."""
    may_be_unchanged: bool = False
    """True if the pods have the manifest's template already, as far as it matters for scheduling, so that applying the
    manifest may replace none of them.
    """

    @property
    def is_rollout_stuck(self) -> bool:
        """True if there is a rollout that does not get to its end."""
        return self.rollout not in ("", ROLLOUT_COMPLETE)


class SimulationReport(Report, frozen=True):
    """The result of applying manifests in a simulation."""

    seed: int
    sampling: bool
    placed: int
    unplaced: int
    workloads: tuple[WorkloadPlacement, ...] = ()
    pending: tuple[UnplacedPods, ...] = ()
    retried: tuple[RetriedPods, ...] = ()
    evicted: tuple[EvictedPod, ...] = ()
    explained: tuple[ExplainedPods, ...] = ()
    """Full explanations of unplaced pods, if requested."""
    headroom: tuple[Headroom, ...] = ()
    zones: tuple[PodCount, ...] = ()
    """The number of pods in each zone, before and after."""
    nodes_changed: tuple[PodCount, ...] = ()
    """The number of pods on each node on which it changed."""
    placements: dict[str, str] = msgspec.field(default_factory=dict)
    """The node of each placed pod, in the order of placement."""
    tied: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of equally good nodes of each pod, if more than one."""
    waiting: dict[str, str] = msgspec.field(default_factory=dict)
    """The reason why Permit lets a pod wait on its node before it is bound, by pod."""
    assumed: tuple[str, ...] = ()
    """Assumptions, and notes on the manifests."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    """True if the user stopped the run, so that the report is incomplete."""
    variation: Variation | None = None
    search_start: SearchStart | None = None
    not_created: tuple[NotCreated, ...] = ()
    """The workloads whose pods are denied by admission."""
    growth: NodeGrowth | None = None
    """The nodes that an autoscaler adds for pending pods, if requested."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The workloads that wait for other components, so that kube-scheduler sees no pods of them."""
    admitted: dict[str, str] = msgspec.field(default_factory=dict)
    """The flavors in which Kueue admits the workloads of the manifests that name a queue, by workload."""
    chain: EvictionChain | None = None
    """The outcomes of the evicted pods; None if there are none or the run was interrupted."""
    violated_budgets: dict[str, int] = msgspec.field(default_factory=dict)
    """The PodDisruptionBudgets that preemption violates, each with the number of disruptions that it allows."""
    outages: tuple[str, ...] = ()
    """The workloads of which preemption evicts pods, and of which no pod has a node in the end."""
    exceeded_storage: tuple[str, ...] = ()
    """Sentences about storage of which the placed pods need more in total than its driver published."""
    volumes_on_several_nodes: tuple[str, ...] = ()
    """Sentences about volumes that are attached to one node at a time but that the placed pods use on several."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because preemption evicts their pods."""
    left_out: int = 0
    """The number of pods that already wait in the cluster and take no part."""
    left_out_fitting: int | None = None
    """The number of the pods left out that would get a node without evictions if they were scheduled before the new
    pods, once old pods are removed. It is None if it is not known.
    """
    left_out_preempting: int | None = None
    """The number of the other pods left out that would get a node because they or other pods left out preempt pods. It
    is None if it is not known.
    """
    stuck_rollouts: tuple[str, ...] = ()
    """The workloads whose rollouts get stuck although their new pods fit once all old pods are removed. They are known
    only if the rollout was not simulated.
    """
    waiting_placed: int = 0
    """The number of placed pods that were already waiting and belong to no workload of the manifests."""
    still_waiting: tuple[str, ...] = ()
    """The unplaced pods that were already waiting and belong to no workload of the manifests."""
    waiting_ended: tuple[str, ...] = ()
    """The pods that were already waiting and end because evictions made their Job fail. They count as neither placed
    nor unplaced.
    """
    evicted_for_waiting: tuple[str, ...] = ()
    """The pods that are evicted, also after new nodes came, for pods that were already waiting and not for new ones."""
    autoscaled: tuple[str, ...] = ()
    """Notes on workloads whose replicas a HorizontalPodAutoscaler changes at once."""
    missing_namespaces: dict[str, str] = msgspec.field(default_factory=dict)
    """The namespaces that are assumed to be created first, each with a similar existing name or an empty string."""
    without_pods: tuple[str, ...] = ()
    """The new objects of the manifests, if none of them creates pods or changes a workload's replicas."""
    kind: str = "Simulation"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the verdict, and a sentence: how many pods get a node, or why there are none to schedule."""
        if not self.placed + self.unplaced:
            return self._describe_no_pods()
        if self.growth:
            return self._describe_growth(self.growth)
        if self._replayed_stuck_rollouts and not self.variation:
            return self._describe_replayed_stuck_rollouts()
        waiting = self._describe_waiting_objects()
        sentence = self._append_conditions(self._describe_placed_pods())
        if waiting:
            sentence += f"; {waiting}"
        sentence += describe_doubt(self.unknown)
        if self.not_created:
            return ("Not created:", f"{self._describe_pods_not_created()}; {sentence}")
        if self.stuck_rollouts and not self.most_unplaced:
            sentence = f"{self._describe_stuck_rollouts()}; {sentence}"
        return (f"{self._choose_verdict(has_waiting_objects=bool(waiting))}:", sentence)

    def _choose_verdict(self, *, has_waiting_objects: bool) -> str:
        """Return the verdict of a simulation in which all pods are created."""
        if self.most_unplaced:
            unplaced = str(self.variation.new_pending) if self.variation else f"{len(self.new_pending_pods):,}"
            return f"{unplaced} {'pod' if unplaced == '1' else 'pods'} not scheduled"
        if self.stuck_rollouts:
            return f"{counted(len(self.stuck_rollouts), 'rollout')} stuck"
        if self.new_homeless_pods:
            return counted(self.new_homeless_pods, "running pod loses its node", "running pods lose their nodes")
        return "Scheduled" if has_waiting_objects or self.unplaced else "All scheduled"

    @property
    def _replayed_stuck_rollouts(self) -> tuple[WorkloadPlacement, ...]:
        """The workloads whose replayed rollouts do not get to their end."""
        return tuple(workload for workload in self.workloads if workload.is_rollout_stuck)

    def _describe_replayed_stuck_rollouts(self) -> tuple[str, str]:
        """Return a verdict and a sentence about rollouts that get stuck: which pods run, and which are not created.

        Pods that get no node are counted only if there are other workloads, because old pods keep running.
        """
        first, *others = self._replayed_stuck_rollouts
        if others:
            verdict = f"{1 + len(others):,} rollouts stuck:"
            progress = "; ".join(f"{workload.workload} {workload.rollout}" for workload in (first, *others))
        else:
            verdict, progress = f"Rollout of {first.workload}", first.rollout
        clauses = [progress + self._build_side_effects_text(names_stuck=False)]
        if self.not_created:
            clauses.append(f"not created: {self._describe_pods_not_created()}")
        if len(self.workloads) > 1 + len(others):
            total = self.placed + self.unplaced
            clauses.append(
                f"{self.placed:,} of {counted(total, 'new pod')} {agreeing(self.placed, 'gets', 'get')} a node"
            )
        sentence = self._append_conditions("; ".join(clauses))
        return (verdict, f"{sentence}{describe_doubt(self.unknown)}")

    def _describe_stuck_rollouts(self) -> str:
        """Return a clause that names the workloads whose rollouts get stuck before their old pods are removed."""
        cannot = agreeing(len(self.stuck_rollouts), "cannot replace its pods", "cannot replace their pods")
        return f"{join_first_few(self.stuck_rollouts)} {cannot} step by step (--rollout shows why)"

    @property
    def headline_names_unread(self) -> bool:
        """Return whether the headline names the unread kinds: not if there is nothing to schedule."""
        return bool(self.placed + self.unplaced or self.not_created or self._describe_waiting_objects())

    @property
    def replaces_at_once(self) -> bool:
        """True if the old pods of a workload are removed before its new pods are created."""
        return any(workload.removed and workload.created and not workload.rollout for workload in self.workloads)

    @property
    def new_pending_pods(self) -> tuple[str, ...]:
        """The pods without a node, apart from those that waited before the manifests were applied.

        Without manifests, all pods without a node count.
        """
        waited_before = self._waited_before
        return tuple(pod for group in self.pending for pod in group.pods if pod not in waited_before)

    @property
    def _waited_before(self) -> frozenset[str]:
        """The pods without a node that waited before the manifests were applied. Without manifests, there are none."""
        return frozenset(self.still_waiting if self.workloads else ())

    @property
    def _compares_new_and_waiting(self) -> bool:
        """True if the headline counts the pods of the manifests apart from the pods that were already waiting."""
        waiting = self.waiting_placed + len(self.still_waiting)
        return not self.variation and 0 < waiting < self.placed + self.unplaced

    def _describe_pods_not_created(self) -> str:
        """Describe the pods that could not be created, with their workload if other workloads get pods as well."""
        text = describe_not_created(self.not_created)
        is_one_of_several = len(self.not_created) == 1 and len(self.workloads) > 1
        return f"{self.not_created[0].workload}: {text}" if is_one_of_several else text

    def _describe_waiting_objects(self) -> str:
        """Describe how many objects wait for other controllers.

        Objects that Kueue admits in this simulation do not count.

        Return an empty string if none waits.
        """
        return describe_state_counts([entry for entry in self.waiting_elsewhere if entry.resource not in self.admitted])

    def _describe_no_pods(self) -> tuple[str, ...]:
        """Return the verdict, and a sentence that says why there are no pods to schedule."""
        doubt = describe_doubt(self.unknown)
        waiting = self._describe_waiting_objects()
        if self.not_created:
            return ("Not created:", f"{self._describe_pods_not_created()}{doubt}")
        if self.interrupted:
            return ("Nothing was known by then", "")
        if waiting:
            return ("No pod to schedule:", f"{waiting}{doubt}")
        if self.without_pods:
            return ("Nothing to schedule:", describe_objects_without_pods(self.without_pods))
        return ("Nothing to schedule", "")

    def _describe_placed_pods(self) -> str:
        """Return how many pods get a node, the side effects, and the flavors in which Kueue admits the pods.

        Pods that cannot be created count as pods without a node. If waiting pods take part, they are counted apart from
        the pods of the manifests.
        """
        total = self.placed + self.unplaced + sum(denied.missing or 0 for denied in self.not_created)
        # The counts over several runs do not say how many pods end in each
        ended = 0 if self.variation else len(self.waiting_ended)
        if self._compares_new_and_waiting:
            sentence = self._describe_new_and_waiting_pods(total)
        else:
            placed = f"{self.placed:,}"
            if self.variation and self.variation.placed.least < self.variation.placed.most:
                placed = str(self.variation.placed)
            get = "gets" if total == 1 or placed == "1" else "get"
            sentence = f"{placed} of {counted(total + ended, 'pod')} {get} a node"
            existing = self._count_pods_with_old_nodes()
            if existing and self.placed < total:
                have = agreeing(existing + self.placed, "has", "have")
                before = f"{existing:,} of them from before" if self.placed else "as before"
                sentence = f"{existing + self.placed:,} of {existing + total + ended:,} pods {have} a node, {before}"
            if self.variation and self.variation.pending.most and not self.variation.new_pending.most:
                sentence += ", and the others waited before"
            if ended:
                sentence += f", {counted(ended, 'ends with its failed Job', 'end with their failed Jobs')}"
            sentence += self._side_effects_text
        if self.admitted:
            sentence = f"admitted in {', '.join(dict.fromkeys(self.admitted.values()))}, {sentence}"
        return sentence

    def _count_pods_with_old_nodes(self) -> int:
        """Return how many pods of the workloads keep the node that they had, or 0 if several runs were made."""
        if self.variation:
            return 0
        new_placed_count = self.placed - self.waiting_placed
        return max(sum(workload.running for workload in self.workloads) - new_placed_count, 0)

    def _describe_new_and_waiting_pods(self, total: int) -> str:
        """Return how many of the `total` pods get a node, and the side effects.

        The pods of the manifests and those that waited before are counted apart.
        """
        still_waiting_count = len(self.still_waiting)
        waiting_count = self.waiting_placed + still_waiting_count
        new_placed_count, new_count = self.placed - self.waiting_placed, total - waiting_count
        some_new_pods = f"{new_placed_count:,} of {counted(new_count, 'pod')} of the manifests"
        if not still_waiting_count:
            waiting_pods = f"{self.waiting_placed:,} of {counted(waiting_count, 'waiting pod')}"
            return f"{some_new_pods} and {waiting_pods} get a node{self._side_effects_text}"

        all_new_pods = f"all {new_count:,} pods of the manifests" if new_count > 1 else "the pod of the manifests"
        new_pods = all_new_pods if new_placed_count == new_count else some_new_pods
        return (
            f"{new_pods} {agreeing(new_placed_count, 'gets', 'get')} a node{self._side_effects_text}; "
            f"{still_waiting_count:,} of {counted(waiting_count, 'waiting pod')} still "
            f"{agreeing(still_waiting_count, 'waits', 'wait')}"
        )

    @property
    def most_unplaced(self) -> int:
        """The number of pods without a node, apart from those that waited before the manifests were applied.

        If an autoscaler adds nodes, this is the number after all new nodes exist. If there are several runs, it is the
        number in the worst run.
        """
        if self.growth:
            waited_before = self._waited_before
            return sum(pod not in waited_before for never in self.growth.never for pod in never.pods)
        return self.variation.new_pending.most if self.variation else len(self.new_pending_pods)

    @property
    def good(self) -> bool:
        """True if all pods are created and get a node in every run, and no rollout gets stuck before that."""
        fails = self.not_created or self.most_unplaced or self.stuck_rollouts
        return not (fails or has_unadmitted(self.waiting_elsewhere))

    def _describe_growth(self, growth: NodeGrowth) -> tuple[str, ...]:
        """Return the verdict and a sentence: how many pods get a node now, and how many once new nodes have come."""
        get = counted(self.placed, "pod gets a node", "pods get a node")
        now = f"{get} now{self._side_effects_text}"
        later_text = f"{len(growth.placements):,} more with {growth.sentence}" if growth.nodes else growth.sentence
        evicted_later = list_displaced_pods(growth.preempted)
        if evicted_later:
            is_evicted = agreeing(len(evicted_later), "pod is evicted", "pods are evicted")
            later_text += f", and then {len(evicted_later):,} {is_evicted} ({first_few(evicted_later)})"
        verdict = "All scheduled:"
        still_waiting = growth.unplaced_count - self.most_unplaced
        if self.most_unplaced:
            verdict = f"{counted(self.most_unplaced, 'pod')} never scheduled:"
        elif still_waiting:
            verdict = "All pods of the manifests scheduled:"
        if still_waiting:
            now = f"including the pods that were pending before, {now}"
            later_text += f"; {counted(still_waiting, 'pending pod gets', 'pending pods get')} none"
        sentence = self._append_conditions(f"{now}, {later_text}")
        return (verdict, f"{sentence}{describe_doubt(self.unknown)}")

    def _append_conditions(self, sentence: str) -> str:
        """Append the conditions under which the sentence holds: missing namespaces and pods that were left out.

        A clause says that the missing namespaces have to be created. The pending pods that were left out of the
        simulation follow in a sentence of their own, which has no period at the end.
        """
        sentence += describe_missing_namespaces(self.missing_namespaces)
        if not self.left_out:
            return sentence
        pods_were = counted(self.left_out, "pending pod was", "pending pods were")
        return f"{sentence}. {pods_were} left out of the simulation{self._prospects_of_left_out_pods}"

    @property
    def _prospects_of_left_out_pods(self) -> str:
        """A clause on how many left-out pods may take the room first or preempt, or "" if no pod was placed."""
        if not self.placed:
            return ""
        fitting, preempting = self.left_out_fitting, self.left_out_preempting
        include = f"include {agreeing(self.left_out, 'it', 'them')} with --pending"
        is_only_pod_fitting = self.left_out == 1 and fitting == 1
        if fitting is None or is_only_pod_fitting:
            return f" and may take the room first ({include})"

        preempt_text = ""
        if preempting:
            subject = "it" if self.left_out == 1 else f"{preempting:,} of them"
            preempt_text = f"{subject} {agreeing(preempting, 'gets a node', 'get a node')} by preemption"
        if not fitting:
            fit_text = agreeing(self.left_out, "it fits on no node", "none of them fits")
            exception = f" now, but {preempt_text}" if preempt_text else ""
            return f": {fit_text}{exception} ({include})"
        fit = agreeing(fitting, "fits", "fit")
        addition = f", and {preempt_text}" if preempt_text else ""
        return f", but {fitting:,} of them {fit} and may take the room first{addition} ({include})"

    @property
    def evicted_pods(self) -> int:
        """The number of evicted pods. A pod that is evicted several times counts once.

        Pods that were being deleted anyway do not count.
        """
        return len(list_displaced_pods(self.evicted))

    @property
    def homeless_pods(self) -> int:
        """The number of evicted pods that get no other node."""
        return self.chain.pending + self.chain.lost if self.chain else 0

    @property
    def new_evicted_pods(self) -> int:
        """The number of evicted pods, apart from those that are evicted only for pods that were already waiting."""
        return len(frozenset(list_displaced_pods(self.evicted)).difference(self.evicted_for_waiting))

    @property
    def all_evictions(self) -> tuple[EvictedPod, ...]:
        """The evictions before and after new nodes came."""
        return (*self.evicted, *(self.growth.preempted if self.growth else ()))

    def list_pods_evicted_for_new_pods(self) -> list[str]:
        """Return the evicted pods, also after new nodes came, apart from those evicted only for waiting pods."""
        return [pod for pod in list_displaced_pods(self.all_evictions) if pod not in self.evicted_for_waiting]

    @property
    def new_homeless_pods(self) -> int:
        """The number of pods that get no other node, apart from those evicted only for pods that already waited."""
        fate_by_pod = {eviction.pod: eviction.fate for eviction in self.evicted}
        homeless_fates = (EvictionFate.PENDING, EvictionFate.LOST)
        return self.homeless_pods - sum(fate_by_pod.get(pod) in homeless_fates for pod in self.evicted_for_waiting)

    @property
    def _side_effects_text(self) -> str:
        """A clause such as ", 2 pods evicted, 1 rollout stuck", or an empty string without side effects."""
        return self._build_side_effects_text(names_stuck=True)

    def _build_side_effects_text(self, *, names_stuck: bool) -> str:
        """Build the clause about side effects. `names_stuck` says whether it counts the stuck rollouts."""
        text = self._describe_evictions()
        if self.chain and self.chain.deleted:
            deleted = counted(self.chain.deleted, "pod")
            text += f", {deleted} preempted that {agreeing(self.chain.deleted, 'was', 'were')} being deleted anyway"
        if self.violated_budgets:
            budgets = counted(len(self.violated_budgets), "PodDisruptionBudget")
            text += f", {budgets} violated"
        if self.outages:
            text += f", {counted(len(self.outages), 'workload')} left without a running pod"
        removed = sum(workload.removed for workload in self.workloads if workload.created and not workload.rollout)
        if removed:
            text += f" after {counted(removed, 'old pod is', 'old pods are')} removed"
        stuck_count = sum(workload.is_rollout_stuck for workload in self.workloads)
        if stuck_count and names_stuck:
            text += f", {counted(stuck_count, 'rollout')} stuck"
        delayed = self._count_delayed_pods() if any(workload.rollout for workload in self.workloads) else 0
        if delayed:
            text += f", up to {counted(delayed, 'pod')} placed only after five minutes"
        if self.unchanged_workloads:
            text += f", {counted(len(self.unchanged_workloads), 'rollout')} that may replace no pod"
        return text

    def _describe_evictions(self) -> str:
        """Describe, in a clause, how many pods are evicted, how many of them for waiting pods, and how many for good.

        Return "" if no pod is evicted.
        """
        text = ""
        if self.evicted_pods:
            text += f", {counted(self.evicted_pods, 'pod')} evicted"
        for_waiting = self.evicted_pods - self.new_evicted_pods
        if for_waiting:
            all_for_waiting = for_waiting == self.evicted_pods
            text += " for waiting pods" if all_for_waiting else f" ({for_waiting:,} of them for waiting pods)"
        homeless = self.homeless_pods
        if homeless:
            all_homeless = agreeing(homeless, "which gets no other node", "none of which gets another node")
            some_homeless = f"{homeless:,} of them without another node"
            text += f", {all_homeless if homeless == self.evicted_pods else some_homeless}"
        return text

    def _count_delayed_pods(self) -> int:
        """Return how many pods with a node may have waited for the retry that comes after five minutes."""
        return sum(min(len(group.pods), group.after.get(TIMEOUT, 0)) for group in self.retried if not group.queue)

    @property
    def unchanged_workloads(self) -> tuple[str, ...]:
        """The workloads whose rollouts may replace no pod, since their templates may be unchanged."""
        return tuple(workload.workload for workload in self.workloads if workload.may_be_unchanged)

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the verdict, the victims, warnings, figures, and the pods that are not created, placed or admitted."""
        return replace(
            summary,
            verdict=self._summary_verdict,
            pods=(
                *(not_created.short_form for not_created in self.not_created),
                *(pods.short_form for pods in self.pending),
                *(entry.short_form for entry in self.waiting_elsewhere),
            ),
            victims=list_displaced_pods(self.all_evictions),
            warnings=(
                *self.iter_harm_warnings(),
                *describe_evictions(self.all_evictions),
                *self._describe_unchanged_workloads(),
                *self.autoscaled,
                *([self.describe_permit_waits()] if self.waiting else ()),
                *(f"note: {note}" for note in self.assumed),
            ),
            figures={
                "placed": self.placed,
                "unplaced": self.unplaced,
                "evicted": len(list_displaced_pods(self.all_evictions)),
            },
        )

    def _describe_unchanged_workloads(self) -> tuple[str, ...]:
        """Return a sentence on the workloads whose rollouts may replace no pod, as a tuple that may be empty."""
        unchanged = self.unchanged_workloads
        if not unchanged:
            return ()
        have = agreeing(len(unchanged), "has its template", "have their templates")
        return (
            f"{first_few(unchanged)} {have} already, as far as it matters for scheduling: if nothing else changes, "
            "applying the manifests replaces no pod (leave out --rollout)",
        )

    def describe_permit_waits(self) -> str:
        """Return how many of the placed pods wait at Permit before they are bound, and why."""
        number = len(self.waiting)
        reasons = first_few(tuple(dict.fromkeys(self.waiting.values())))
        return f"{number:,} of the pods with a node {agreeing(number, 'waits', 'wait')} at Permit: {reasons}"

    def iter_harm_warnings(self) -> Iterator[str]:
        """Yield warnings about the harm that the changes cause.

        They are about violated PodDisruptionBudgets, workloads without a running pod, Jobs that fail, insufficient
        storage, volumes that pods on several nodes cannot share, and pods that end up unevenly spread.
        """
        yield from describe_violated_budgets(self.violated_budgets, self.evicted)
        if self.outages:
            yield f"leaves {join_first_few(self.outages)} without a running pod"
        yield from (job.describe() for job in self.failed_jobs)
        yield from self.exceeded_storage
        yield from self.volumes_on_several_nodes
        for workload in self.workloads:
            yield from (spread.describe(workload.workload) for spread in workload.uneven_spreads)

    @property
    def _summary_verdict(self) -> str:
        """The verdict of the summary.

        It names the worst outcome: pods are not created, new pods get no node, running pods lose their nodes, waiting
        pods still wait, or other objects wait elsewhere.
        """
        if self.not_created:
            return "Not all created"
        if self.new_pending_pods:
            return "Not all scheduled"
        if self.stuck_rollouts:
            return "Rollout stuck"
        if self.new_homeless_pods and not self.growth:
            return "Scheduled, but running pods lose their nodes"
        if self.unplaced:
            return "Scheduled, waiting pods still wait"
        return "Scheduled, others wait elsewhere" if self.waiting_elsewhere else "All scheduled"

    def build_csv_table(self) -> CsvTable:
        """Return a row for each pod that was placed, stays pending or is evicted."""
        placed = [(pod, "Scheduled", node, self.tied.get(pod, 1), "") for pod, node in self.placements.items()]
        waiting = [(pod, group.verdict, "", "", group.message) for group in self.pending for pod in group.pods]
        evicted = [
            (pod.pod, "Deleted" if pod.was_terminating else "Evicted", pod.node, "", f"for {pod.by}")
            for pod in self.all_evictions
        ]
        return CsvTable(("pod", "verdict", "node", "tied", "message"), [*placed, *waiting, *evicted])

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the pods without a node."""
        return tuple(pod for group in self.pending for pod in group.pods)

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "all pods are created and get a node"

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for each workload or pod that is not created, not admitted, not placed, or evicted."""
        waited_before = self._waited_before
        return [
            *(workload.gate_problem for workload in self.not_created),
            *(group.gate_problem for group in self.pending if not waited_before.issuperset(group.pods)),
            *(
                GateProblem("not-scheduled", workload, "its rollout gets stuck before old pods are removed")
                for workload in self.stuck_rollouts
            ),
            *(entry.gate_problem for entry in find_unadmitted_objects(self.waiting_elsewhere)),
            *(
                GateProblem("uneven-spread", workload.workload, spread.describe("it"))
                for workload in self.workloads
                for spread in workload.uneven_spreads
            ),
            *(
                eviction.gate_problem
                for eviction in select_displaced_pods(self.all_evictions)
                if eviction.pod not in self.evicted_for_waiting
            ),
        ]
