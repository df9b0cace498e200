"""Plugins whose answers change in more ways than a rejection when a node is cordoned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.snapshot.pod_info import PodInfo


@runtime_checkable
class CordonRejectingPlugin(Plugin, Protocol):
    """A plugin that rejects cordoned nodes."""

    def rejects_cordoned(self, info: PodInfo) -> bool:
        """Return whether Filter rejects every cordoned node for the pod."""


@runtime_checkable
class CordonDependentPlugin(Plugin, Protocol):
    """A plugin whose answers about other nodes may change when a node is cordoned."""

    def depends_on_cordons(self, info: PodInfo) -> bool:
        """Return whether cordoning a node changes the answers about other nodes."""


def has_only_local_cordon_effect(filters: Sequence[Plugin], scorers: Sequence[Plugin], info: PodInfo) -> bool:
    """Return whether cordoning a node only keeps the pod off that node. In-tree plugins only."""
    rejects = any(offers(plugin, CordonRejectingPlugin) and plugin.rejects_cordoned(info) for plugin in filters)
    return rejects and not any(
        offers(plugin, CordonDependentPlugin) and plugin.depends_on_cordons(info) for plugin in (*filters, *scorers)
    )
