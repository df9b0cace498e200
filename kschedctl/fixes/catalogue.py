"""Find the fixes to propose against each plugin's rejections, from the `REMEDIES` tables of the modules in `ways`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

from kschedctl.fixes import ways
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.tried_node import NO_REMEDIES, PluginRemedies, TriedNode
from kschedctl.fixes.ways import new_nodes, scheduling

_MODULES = (import_module(f"{ways.__name__}.{module.name}") for module in iter_modules(ways.__path__))
REMEDIES: Mapping[str, PluginRemedies] = {
    plugin.name: remedies for module in _MODULES for plugin, remedies in getattr(module, "REMEDIES", {}).items()
}
"""Plugin name -> its remedies, collected from the `REMEDIES` of all modules in `ways`, where plugin classes are
keys.
"""


def get_plugin_remedies(plugin: str) -> PluginRemedies:
    """Return the remedies known for a plugin, or `NO_REMEDIES` if there are none."""
    return REMEDIES.get(plugin, NO_REMEDIES)


def propose_fixes_at_node(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes for the first rejection of the tried node.

    Later rejections can only be seen after the first is cleared. If the pod is to preempt others, any of its rejections
    may go away with the victims, so fixes for all of them are yielded.
    """
    refusals = tried.refusals()
    for refusal in refusals if tried.trial.raises_priority else refusals[:1]:
        for way in get_plugin_remedies(refusal.plugin).ways:
            yield from way(tried, refusal)


def propose_fixes_anywhere(tried: TriedNode) -> Iterator[Fix]:
    """Yield the fixes that can be proposed without looking at a particular node."""
    yield from propose_fixes_at_node(tried)
    yield from scheduling.use_other_schedulers(tried)
    if tried.trial.cycle is not None:
        yield from scheduling.raise_priority(tried)
        yield from new_nodes.one_more(tried)
