"""The questions the browser asks about one state of a cluster, independent of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cli import pods as found_pods
from kschedctl.cli.next_commands import build_command
from kschedctl.cli.options import Scope, Source
from kschedctl.cluster import Cluster
from kschedctl.commands.browse.contents import node_contents, workload_pods
from kschedctl.commands.browse.report import NodeContents, WorkloadPods
from kschedctl.commands.explain.cycle_report import drop_unwritten_message
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.commands.explain.pending_pods import group_pending_pods
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.errors import UsageError
from kschedctl.fixes.supposing import apply_suppositions
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import is_pending, iter_workloads
from kschedctl.scheduler.scheduler import Scheduler

MAX_HITS = 50
"""Maximum number of nodes, and of workloads, listed for a search."""
Checkpoint = Callable[[], object]
"""A function called repeatedly during long computations; an exception it raises ends them."""


class SearchHits(NamedTuple):
    """What matches a search text."""

    pods: frozenset[str]
    """Keys of the pending pods."""
    nodes: tuple[str, ...]
    workloads: tuple[Owner, ...]
    more_nodes: int = 0
    """Number of matching nodes that are not listed."""
    more_workloads: int = 0
    """Number of matching workloads that are not listed."""


@dataclass
class BrowseSession:
    """Questions about one state of a cluster, to be asked by one thread at a time because plugins reuse what they
    compute.
    """

    cluster: Cluster
    source: Source
    scope: Scope
    now: str = ""

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.cluster)

    @cached_property
    def pending_pods(self) -> Sequence[Pod]:
        """The pending pods of the scope."""
        return found_pods.find_pending(self.cluster, self.scope)

    @cached_property
    def pods_by_cause(self) -> PendingPods:
        """The pending pods grouped by cause."""
        return group_pending_pods(
            self.scheduler, self.pending_pods, found_pods.describe_pods_of_scope(self.scope), self.now
        )

    @cached_property
    def causes(self) -> Mapping[str, str]:
        """The cause of each pending pod, by key."""
        return {pod: group.cause or group.verdict for group in self.pods_by_cause.groups for pod in group.pods}

    def build_target(self, key: str, assumptions: str = "") -> TargetPod:
        """Return a pod under assumptions. Raises UsageError if they are invalid or the pod is gone, and InputError."""
        pod = self.cluster.pod(*key.split("/", 1))
        if pod is None:
            raise UsageError(f"{key} is gone")
        return apply_suppositions(TargetPod(self.scheduler, self.scheduler.view.stored(pod)), assumptions)

    def explain(self, target: TargetPod) -> Explanation:
        return drop_unwritten_message(explain_target(target))

    def find_remedies(self, target: TargetPod, between: Checkpoint = lambda: None) -> Remedies:
        """Search the fixes of a pod, which takes up to seconds."""

        def progress(replays: int) -> None:
            between()

        return find_pod_remedies(target, progress=progress)

    def build_node_contents(self, name: str, between: Checkpoint = lambda: None) -> NodeContents | None:
        """Build the report of a node, None if it no longer exists."""
        return node_contents(self.scheduler, name, self.pending_pods, between)

    def build_workload_pods(self, owner: Owner) -> WorkloadPods:
        """Build the report of a workload's pods."""
        return workload_pods(self.scheduler, owner, self.causes)

    def find_owner_of(self, key: str) -> Owner | None:
        """Return the workload of a pod, None if the pod is gone."""
        pod = self.cluster.pod(*key.split("/", 1))
        return None if pod is None else find_owner(pod)

    def describe_fate(self, key: str) -> str:
        """Describe what became of a pod that was pending (``has a node now: w1``), "" if it still is."""
        pod = self.cluster.pod(*key.split("/", 1))
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return "is gone"
        if pod.spec.node_name:
            return f"has a node now: {pod.spec.node_name}"
        return "" if is_pending(pod) else "has ended"

    @cached_property
    def workloads(self) -> Sequence[Owner]:
        """All workloads, sorted."""
        return sorted(set(iter_workloads(self.cluster)))

    def search(self, text: str) -> SearchHits:
        """Search pending pods by name or cause, and nodes and workloads by name."""
        wanted = text.lower()
        pods = {pod for pod, cause in self.causes.items() if wanted in pod.lower() or wanted in cause.lower()}
        nodes = [node.metadata.name for node in self.cluster.nodes if wanted in node.metadata.name.lower()]
        owners = [owner for owner in self.workloads if wanted in str(owner).lower()]
        more = max(len(nodes) - MAX_HITS, 0), max(len(owners) - MAX_HITS, 0)
        return SearchHits(frozenset(pods), tuple(nodes[:MAX_HITS]), tuple(owners[:MAX_HITS]), *more)

    def build_question_command(self, command: str, key: str, assumptions: str = "") -> str:
        """Build the command line that answers the same question, "" if the cluster came from standard input."""
        as_if = [part for word in assumptions.split() for part in ("--as-if", word)]
        return "".join(build_command(self.source, command, key, as_if, self.scope.arguments()))
