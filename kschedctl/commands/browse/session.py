"""What the browser shows, without any terminal: questions about one cluster."""

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
from kschedctl.commands.remedies.pod_fixes import remedies_of
from kschedctl.commands.remedies.report import Remedies
from kschedctl.errors import UsageError
from kschedctl.fixes.supposing import apply_suppositions
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import is_pending, iter_workloads
from kschedctl.scheduler.scheduler import Scheduler

FOUND = 50
"""So many nodes, and so many workloads, are listed for a search."""
Between = Callable[[], object]
"""Called again and again while something takes long; what it raises ends it."""


class SearchHits(NamedTuple):
    """Names that have the text in them; ``pods`` are keys of pending ones. ``more``: what is not listed."""

    pods: frozenset[str]
    nodes: tuple[str, ...]
    workloads: tuple[Owner, ...]
    more_nodes: int = 0
    more_workloads: int = 0


@dataclass
class BrowseSession:
    """About one state of a cluster; to be asked by one thread at a time: what plugins compute is kept for the next."""

    cluster: Cluster
    source: Source
    scope: Scope
    now: str = ""

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.cluster)

    @cached_property
    def waiting(self) -> Sequence[Pod]:
        """The pending pods of the scope."""
        return found_pods.find_pending(self.cluster, self.scope)

    @cached_property
    def pending(self) -> PendingPods:
        """Pending pods, by cause."""
        return group_pending_pods(self.scheduler, self.waiting, found_pods.describe_pods_of_scope(self.scope), self.now)

    @cached_property
    def causes(self) -> Mapping[str, str]:
        """The causes of pending pods, by their keys."""
        return {pod: group.cause or group.verdict for group in self.pending.groups for pod in group.pods}

    def asked(self, key: str, words: str = "") -> TargetPod:
        """The pod of that key as the words have it. Raises UsageError, also when it is gone, and InputError."""
        pod = self.cluster.pod(*key.split("/", 1))
        if pod is None:
            raise UsageError(f"{key} is gone")
        return apply_suppositions(TargetPod(self.scheduler, self.scheduler.view.stored(pod)), words)

    def explain(self, asked: TargetPod) -> Explanation:
        return drop_unwritten_message(explain_target(asked))

    def remedies(self, asked: TargetPod, between: Between = lambda: None) -> Remedies:
        """The search takes up to seconds."""

        def progress(replays: int) -> None:
            between()

        return remedies_of(asked, progress=progress)

    def node(self, name: str, between: Between = lambda: None) -> NodeContents | None:
        """None when there is no such node any more."""
        return node_contents(self.scheduler, name, self.waiting, between)

    def workload(self, owner: Owner) -> WorkloadPods:
        return workload_pods(self.scheduler, owner, self.causes)

    def owner(self, key: str) -> Owner | None:
        """The workload of a pod."""
        pod = self.cluster.pod(*key.split("/", 1))
        return None if pod is None else find_owner(pod)

    def fate(self, key: str) -> str:
        """What became of a pod that was pending: ``has a node now: w1``; empty while it waits."""
        pod = self.cluster.pod(*key.split("/", 1))
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return "is gone"
        if pod.spec.node_name:
            return f"has a node now: {pod.spec.node_name}"
        return "" if is_pending(pod) else "has ended"

    @cached_property
    def owners(self) -> Sequence[Owner]:
        """All workloads."""
        return sorted(set(iter_workloads(self.cluster)))

    def search(self, text: str) -> SearchHits:
        """Pending pods by name or cause, nodes and workloads by name."""
        wanted = text.lower()
        pods = {pod for pod, cause in self.causes.items() if wanted in pod.lower() or wanted in cause.lower()}
        nodes = [node.metadata.name for node in self.cluster.nodes if wanted in node.metadata.name.lower()]
        owners = [owner for owner in self.owners if wanted in str(owner).lower()]
        more = max(len(nodes) - FOUND, 0), max(len(owners) - FOUND, 0)
        return SearchHits(frozenset(pods), tuple(nodes[:FOUND]), tuple(owners[:FOUND]), *more)

    def command(self, command: str, key: str, words: str = "") -> str:
        """What asks the same on the command line; empty where the cluster came from standard input."""
        as_if = [part for word in words.split() for part in ("--as-if", word)]
        return "".join(build_command(self.source, command, key, as_if, self.scope.arguments()))
