"""Check that the fixes of every plugin are found by the plugin's name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kschedctl.fixes import ways
from kschedctl.fixes.proposals import MODULES


def test_every_plugin_with_remedies_is_listed_with_its_module() -> None:
    """Compare the list, which spares imports, with the plugins for which the modules declare remedies."""
    names = [module.name for module in iter_modules(ways.__path__)]
    declared = {
        plugin.name: name
        for name in names
        for plugin in getattr(import_module(f"{ways.__name__}.{name}"), "REMEDIES", {})
    }
    assert declared == MODULES
