"""Check that the fixes of every plugin are found by the plugin's name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kschedctl.fixes import ways
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.third_party_plugins import SCHEDULER_PLUGINS


def test_every_plugin_with_remedies_names_their_module() -> None:
    """Compare the modules that plugins name in `fixes` with the plugins for which the modules declare remedies."""
    names = [module.name for module in iter_modules(ways.__path__)]
    declared = {
        plugin.name: name
        for name in names
        for plugin in getattr(import_module(f"{ways.__name__}.{name}"), "REMEDIES", {})
    }
    plugins = [each.plugin for each in (*IN_TREE.values(), *SCHEDULER_PLUGINS.values()) if each.plugin]
    assert declared == {plugin.name: plugin.fixes for plugin in plugins if plugin.fixes}
