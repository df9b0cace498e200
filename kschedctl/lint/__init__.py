"""Rules about manifests and clusters. The package is called, too: ``kschedctl.lint(…)`` is the library's function."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _CalledPackage(ModuleType):
    """Python makes a subpackage an attribute of its package: under that name the function has to be found."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return import_module("kschedctl.commands.lint").lint(*arguments, **options)


sys.modules[__name__].__class__ = _CalledPackage
