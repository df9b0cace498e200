"""The lint rule engine and its rules. ``kschedctl.lint(…)`` calls the library function of the same name.

Read `rule` first, which defines what a rule is, then `context`, which gives rules the linted objects (`objects`).
`analysis` has what several rules share. `rules` has the rules, `catalogue` lists them, `engine` runs them, and
`reporting` turns their problems into findings, without those that `suppression` removes. `configuration_rules` checks a
KubeSchedulerConfiguration, and `effective_configuration` fills in its defaults.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _CallablePackage(ModuleType):
    """A package that can be called like the function that has its name.

    Importing the package hides the function ``kschedctl.lint``, since Python makes a subpackage an attribute.
    """

    def __call__(self, *arguments: object, **options: object) -> object:
        """Call the library function."""
        return import_module("kschedctl.commands.lint").lint(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
