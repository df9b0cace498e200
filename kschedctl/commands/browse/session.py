"""Answers to the browser's questions about one state of a cluster, and commands to copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cli import references as found_pods
from kschedctl.cli.options import Scope, Source
from kschedctl.cluster import Cluster
from kschedctl.commands.browse.contents import build_node_report, build_workload_pods_report
from kschedctl.commands.browse.report import NodeContents, WorkloadPods
from kschedctl.commands.explain.cycle_report import drop_unwritten_message
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.commands.explain.pending_pods import report_pending_pods
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.explain.waiting import ReplayedCluster, add_rivals_for_room, drop_retry_advice
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.errors import UsageError
from kschedctl.fixes.supposing import apply_suppositions
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import iter_workloads
from kschedctl.replay.pending_pods import is_pending
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.remedy import Remedy, chain_commands
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.printable import printable

MAX_HITS = 50
"""The maximum number of nodes and of workloads that a search lists."""
Checkpoint = Callable[[], object]
"""A function that long computations call repeatedly. They end if it raises an exception."""


class SearchHits(NamedTuple):
    """The pods, nodes and workloads that match a search."""

    pods: frozenset[str]
    """The keys of the matching pending pods."""
    nodes: tuple[str, ...]
    workloads: tuple[Owner, ...]
    more_nodes: int = 0
    """The number of further matching nodes."""
    more_workloads: int = 0
    """The number of further matching workloads."""


@dataclass
class BrowseSession:
    """One state of a cluster, about which questions can be asked.

    Only one thread may ask at a time, because plugins cache intermediate results.
    """

    cluster: Cluster
    source: Source
    scope: Scope
    now: str = ""

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler of the cluster."""
        return Scheduler(self.cluster)

    @cached_property
    def pending_pods(self) -> Sequence[Pod]:
        """The pending pods in the scope."""
        return found_pods.find_pending_in_scope(self.cluster, self.scope)

    @cached_property
    def pods_by_cause(self) -> PendingPods:
        """The pending pods, grouped by cause, and what is not created or waits before kube-scheduler sees a pod."""
        namespace = found_pods.get_scope_namespace(self.scope)
        return report_pending_pods(self.scheduler, namespace, self.scope.selector, self.now)

    @cached_property
    def missing_workloads(self) -> Mapping[str, NotCreated]:
        """The workloads that lack pods now because the API server denies them, by name."""
        return {failure.workload: failure for failure in self.pods_by_cause.not_created if not failure.past}

    @cached_property
    def held_back(self) -> Mapping[str, WaitingElsewhere]:
        """The objects whose pods kube-scheduler does not see yet, by name."""
        return {entry.resource: entry for entry in self.pods_by_cause.waiting_elsewhere}

    @cached_property
    def causes(self) -> Mapping[str, str]:
        """Key of a pending pod -> its cause."""
        return {pod: group.cause or group.verdict for group in self.pods_by_cause.groups for pod in group.pods}

    def build_target(self, key: str, assumptions: str = "") -> TargetPod:
        """Build the target for the pod with `key` (namespace/name) under the given assumptions.

        Raises UsageError if the pod is gone or the assumptions are invalid, and InputError if an assumed value is
        invalid.
        """
        pod = self._find_pod(key)
        if pod is None:
            raise UsageError(f"{key} is gone")
        return apply_suppositions(TargetPod(self.scheduler, self.scheduler.view.build_stored_pod(pod)), assumptions)

    @cached_property
    def _replayed_cluster(self) -> ReplayedCluster:
        """The cluster with explanations of all pending pods, for advice on retries."""
        return ReplayedCluster(self.scheduler, self.now)

    def explain(self, target: TargetPod, assumptions: str = "") -> Explanation:
        """Explain the target pod. Under assumptions, advice on retries of the unchanged pod is left out."""
        report = drop_unwritten_message(explain_target(target))
        return drop_retry_advice(report) if assumptions else add_rivals_for_room(report, self._replayed_cluster)

    def find_remedies(self, target: TargetPod, checkpoint: Checkpoint = lambda: None) -> Remedies:
        """Search for remedies for the target pod, which may take seconds.

        `checkpoint` is called for each set of changes that is tried.
        """

        def on_tried(replays: int) -> None:
            """Call `checkpoint` without the number of replays."""
            checkpoint()

        return find_pod_remedies(target, advance=on_tried)

    def build_node_contents(self, name: str, checkpoint: Checkpoint = lambda: None) -> NodeContents | None:
        """Build the report on a node, or return None if the node no longer exists."""
        return build_node_report(self.scheduler, name, self.pending_pods, checkpoint)

    def build_workload_pods(self, owner: Owner) -> WorkloadPods:
        """Build the report on a workload's pods."""
        return build_workload_pods_report(self.scheduler, owner, self.causes)

    def find_workload(self, key: str) -> Owner | None:
        """Find the workload that owns the pod, or return None if the pod is gone."""
        pod = self._find_pod(key)
        return None if pod is None else find_owner(pod)

    def _find_pod(self, key: str) -> Pod | None:
        """Find a pod by `namespace/name`, or return None if there is none."""
        namespace, name = key.split("/", 1)
        return self.cluster.pod(namespace, name)

    def describe_why_not_pending(self, key: str) -> str:
        """Describe why a pod is no longer pending, such as `has a node now: w1`.

        Return an empty string if the pod is still pending.
        """
        pod = self._find_pod(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return "is gone"
        if pod.spec.node_name:
            return f"has a node now: {pod.spec.node_name}"
        return "" if is_pending(pod) else "has ended"

    @cached_property
    def workloads(self) -> Sequence[Owner]:
        """All workloads in the cluster, sorted."""
        return sorted(set(iter_workloads(self.cluster)))

    def search(self, text: str) -> SearchHits:
        """Search for pending pods by name or cause, and for nodes and workloads by name, ignoring case.

        All matching pods are returned. At most MAX_HITS nodes and MAX_HITS workloads are returned, with the numbers of
        further nodes and workloads that match.
        """
        lowered = text.lower()
        pods = {pod for pod, cause in self.causes.items() if lowered in pod.lower() or lowered in cause.lower()}
        nodes = [node.metadata.name for node in self.cluster.nodes if lowered in node.metadata.name.lower()]
        workloads = [owner for owner in self.workloads if lowered in str(owner).lower()]
        return SearchHits(
            pods=frozenset(pods),
            nodes=tuple(nodes[:MAX_HITS]),
            workloads=tuple(workloads[:MAX_HITS]),
            more_nodes=max(len(nodes) - MAX_HITS, 0),
            more_workloads=max(len(workloads) - MAX_HITS, 0),
        )

    def build_question_command(self, command: str, key: str, assumptions: str = "") -> str:
        """Build the command line that asks the same question about the pod.

        Return an empty string if the cluster came from standard input.
        """
        as_if = [part for word in assumptions.split() for part in ("--as-if", word)]
        return "".join(self.source.build_command(command, key, as_if, self.scope.to_cli_options()))


def format_fix_commands(remedy: Remedy) -> str:
    """Format a fix's commands for pasting, with the fix's costs as comments above.

    Comments within the commands are dropped. Return an empty string if no command applies the fix.
    """
    lines = [line for command in remedy.commands for line in command.splitlines()]
    commands = [line for line in lines if not line.lstrip().startswith("#")]
    warnings = [f"# {' '.join(printable(cost.text).split())}" for cost in remedy.all_costs]
    return "\n".join([*warnings, *chain_commands(commands)]) if commands else ""
