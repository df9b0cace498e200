"""Which changes might help against what: as the modules of ways say, each for the plugins that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

from kschedctl.fixes import ways
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trials import PREEMPTS
from kschedctl.fixes.trial.tried_node import NO_REMEDIES, PluginRemedies, TriedNode
from kschedctl.fixes.ways import new_nodes, scheduling

_MODULES = (import_module(f"{ways.__name__}.{module.name}") for module in iter_modules(ways.__path__))
REMEDIES: Mapping[str, PluginRemedies] = {
    plugin.name: remedies for module in _MODULES for plugin, remedies in getattr(module, "REMEDIES", {}).items()
}
"""Plugin -> what each module in ``ways`` has as its REMEDIES, by the plugin's class."""


def remedies_of(plugin: str) -> PluginRemedies:
    """What is known of a plugin, which may be one that nothing is known of."""
    return REMEDIES.get(plugin, NO_REMEDIES)


def against(tried: TriedNode) -> Iterator[Fix]:
    """What could be done about the first thing that stands against the node: the rest comes after it.

    About all of it where the pod is to evict others, which may be the ones that stand there first.
    """
    refusals = tried.refusals()
    evicts = any(change.kind == PREEMPTS for change in tried.trial.changes)
    for refusal in refusals if evicts else refusals[:1]:
        for way in remedies_of(refusal.plugin).ways:
            yield from way(tried, refusal)


def everywhere(tried: TriedNode) -> Iterator[Fix]:
    """What could be done without a look at a node."""
    yield from against(tried)
    yield from scheduling.served(tried)
    if tried.trial.cycle is not None:
        yield from scheduling.more_important(tried)
        yield from new_nodes.one_more(tried)
