"""One step of a scenario as an edit of the cluster; what follows from it is left to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.reports import scenario as parts
from kschedctl.studies.edits import node_edits
from kschedctl.studies.edits.cluster_edits import returns, with_pods

Files = Callable[[str], Iterable[JsonObject]]
"""Reads the documents of a file that a scenario names."""


@dataclass
class Edit:
    """A cluster with a step taken: ``pods`` that changed, None for those that are gone, and what to know of it.

    ``displaced``: how many pods lost their node by it.
    """

    cluster: Cluster
    pods: dict[tuple[str, str], Pod | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    displaced: int = 0

    @property
    def result(self) -> Cluster:
        return with_pods(self.cluster, self.pods)

    def change(self, pod: Pod, into: Pod | None) -> None:
        self.pods[pod.metadata.namespace, pod.metadata.name] = into

    def displace(self, pods: Iterable[Pod]) -> None:
        """These pods lose their node; those that nobody makes anew are gone."""
        for pod in pods:
            self.displaced += 1
            self.change(pod, made_again(pod) if returns(pod) else None)


def chosen_nodes(cluster: Cluster, part: parts.SomeNodes) -> list[str]:
    """The nodes that a step is about. Raises UsageError."""
    return node_edits.find_nodes(cluster, part.nodes, part.selector)
