"""What a cordoned node means to a pod: no more, as a rule, than that the pod cannot go there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.snapshot.pod_info import PodInfo


@runtime_checkable
class CordonRefusingPlugin(Plugin, Protocol):
    def refuses_cordoned(self, info: PodInfo) -> bool:
        """Whether its Filter keeps the pod off every cordoned node."""


@runtime_checkable
class CordonCountingPlugin(Plugin, Protocol):
    def counts_by_cordons(self, info: PodInfo) -> bool:
        """Whether what it says of other nodes changes as a node is cordoned."""


def only_refused(filters: Sequence[Plugin], scorers: Sequence[Plugin], info: PodInfo) -> bool:
    """Whether a cordon means no more to a pod than that it cannot go there, for Filter and Score plugins in-tree."""
    refused = any(offers(plugin, CordonRefusingPlugin) and plugin.refuses_cordoned(info) for plugin in filters)
    return refused and not any(
        offers(plugin, CordonCountingPlugin) and plugin.counts_by_cordons(info) for plugin in (*filters, *scorers)
    )
