"""Nodes that come for pods that wait: what an autoscaler does in one loop, whoever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kschedctl.api.objects import Node, Pod
from kschedctl.cluster import Cluster


class NewNodes(NamedTuple):
    """``nodes``: pool -> its new ones; ``daemons``: the pods that come with them.

    ``refused``: pod -> why no node comes for it, in the autoscaler's words.
    """

    nodes: Mapping[str, tuple[Node, ...]]
    daemons: tuple[Pod, ...]
    refused: Mapping[str, str]


class Autoscaler(Protocol):
    """Makes nodes, and remembers which it made."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Where what it goes by is from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is not certain of that."""

    def grow(self, cluster: Cluster) -> NewNodes:
        """The nodes that come in the next loop for the pods of a cluster that wait. Raises InputError."""
