"""Discovery of the rules and messages that differ between versions of kube-scheduler."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from kschedctl.api.kube_version import ByVersion


def find_version_changes(*names: str) -> tuple[ByVersion[object], ...]:
    """Return the ByVersion objects in these modules and packages, each once, with their submodules by name."""
    found: dict[int, ByVersion[object]] = {}
    for module in (module for name in names for module in _import_with_submodules(name)):
        found.update((id(value), value) for value in vars(module).values() if isinstance(value, ByVersion))
    return tuple(found.values())


def _import_with_submodules(name: str) -> list[ModuleType]:
    module = import_module(name)
    submodules = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}.")
    return [module, *(import_module(submodule) for submodule in sorted(info.name for info in submodules))]
