"""What the browser shows, without any terminal: questions about one cluster, answered as pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, owner_of
from kschedctl.cli import pods as found_pods
from kschedctl.cli.options import Scope, Source
from kschedctl.cli.try_next import again
from kschedctl.cluster import Cluster
from kschedctl.render.page import Page, Style
from kschedctl.render.pages.browsing.contents import node_page, workload_page
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.pending import PendingPods
from kschedctl.reports.remedies import Remedies
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.browsing.contents import node_contents, workload_pods
from kschedctl.studies.browsing.supposing import supposed
from kschedctl.studies.controllers.stand_in import StandIn
from kschedctl.studies.controllers.workload_pods import workloads
from kschedctl.studies.explain import as_events, explain_stand_in
from kschedctl.studies.pending import pending_pods
from kschedctl.studies.remedies.remedies import remedies_of

FOUND = 50
"""So many nodes, and so many workloads, are listed for a search."""


class SearchHits(NamedTuple):
    """Names that have the text in them; ``pods`` are keys of pending ones."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    workloads: tuple[Owner, ...]


class UnwantedError(Exception):
    """Something else was asked meanwhile."""


@dataclass
class BrowseSession:
    """Answers are made by one thread at a time: what plugins compute is kept for the next."""

    cluster: Cluster
    source: Source
    scope: Scope
    now: str = ""

    def __post_init__(self) -> None:
        self.lock = RLock()

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.cluster)

    @cached_property
    def waiting(self) -> Sequence[Pod]:
        """The pending pods of the scope."""
        return found_pods.pending(self.cluster, self.scope)

    @cached_property
    def pending(self) -> PendingPods:
        """They, by cause."""
        with self.lock:
            return pending_pods(self.scheduler, self.waiting, found_pods.describe(self.scope), self.now)

    def asked(self, key: str, words: str = "") -> StandIn | None:
        """The pod of that key as the words have it; None when it is gone. Raises UsageError, InputError."""
        found = self.cluster.pod(*key.split("/", 1))
        if found is None:
            return None
        with self.lock:
            return supposed(StandIn(self.scheduler, self.scheduler.view.stored(found)), words)

    def explain(self, asked: StandIn) -> Explanation:
        with self.lock:
            return as_events(explain_stand_in(asked))

    def remedies(self, asked: StandIn, is_wanted: Callable[[], bool]) -> Remedies | None:
        """None as soon as they are not wanted any more: the search takes up to seconds."""

        def go_on(_: int) -> None:
            if not is_wanted():
                raise UnwantedError

        with self.lock:
            try:
                go_on(0)
                return remedies_of(asked, progress=go_on)
            except UnwantedError:
                return None

    def node(self, name: str, style: Style) -> Page:
        with self.lock:
            return node_page(node_contents(self.scheduler, name, self.waiting), style)

    def workload(self, owner: Owner, style: Style) -> Page:
        with self.lock:
            return workload_page(workload_pods(self.scheduler, owner), style)

    def owner(self, key: str) -> Owner | None:
        """The workload of a pod."""
        found = self.cluster.pod(*key.split("/", 1))
        return None if found is None else owner_of(found)

    def search(self, text: str) -> SearchHits:
        """Pending pods by name or cause, nodes and workloads by name."""
        wanted = text.lower()
        pods = [
            pod
            for group in self.pending.groups
            for pod in group.pods
            if wanted in pod.lower() or wanted in group.cause.lower()
        ]
        nodes = [node.metadata.name for node in self.cluster.nodes if wanted in node.metadata.name.lower()]
        owners = sorted({owner for owner in workloads(self.cluster) if wanted in str(owner).lower()})
        return SearchHits(tuple(pods), tuple(nodes[:FOUND]), tuple(owners[:FOUND]))

    def command(self, key: str) -> str:
        """What asks the same on the command line; empty where the cluster came from standard input."""
        return "".join(again(self.source, "explain", key, self.scope.arguments()))
