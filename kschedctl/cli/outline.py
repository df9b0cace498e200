"""Commands in outline: with all their options, and without anything that answers them.

To load a command is to load the scheduler, which takes longer than anybody waits for Tab. What its options are called,
take and say stands in the modules of this package and a few others; the rest is imported hollow.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SPELT = (
    "kschedctl.cli",
    "kschedctl.errors",
    "kschedctl.lint.framework.rule",
    "kschedctl.commands.audit.judging",
    "kschedctl.commands.audit.latency.options",
    "kschedctl.commands.audit.packing.emptying",
    "kschedctl.commands.audit.packing.section",
    "kschedctl.commands.audit.races.question",
    "kschedctl.commands.audit.sections",
    "kschedctl.commands.audit.times",
    "kschedctl.commands.browse.contents",
    "kschedctl.commands.explain.supposed_options",
    "kschedctl.commands.lint.filters",
    "kschedctl.commands.lint.settings",
    "kschedctl.fixes.supposing",
)
"""The modules that options' choices and helps are made of."""
_COMMAND = re.compile(r"kschedctl\.commands\.(?P<name>\w+)(?P<module>\.command)?")
"""The folder of a command, or the module with the command's options.

The folder itself is imported hollow, since its __init__ is the library function that answers the command.
"""


class _HollowType(type):
    """A name of a hollow module can be annotated with, derived from and called; nothing comes of it."""

    def __getattr__(cls, name: str) -> object:
        return _of_hollow(name)

    def __call__(cls, *arguments: object, **named: object) -> object:
        return cls

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __getitem__ = __or__

    def __iter__(cls) -> Iterator[object]:
        return iter(())


class Hollow(metaclass=_HollowType):
    """What every name of a hollow module stands for."""

    def __init_subclass__(cls, **named: object) -> None:
        """As structs say whether they are frozen."""


def _of_hollow(name: str) -> type[Hollow]:
    if name.startswith("__"):
        raise AttributeError(name)
    return Hollow


class _HollowModules(MetaPathFinder, Loader):
    """Imports hollow what is ours and spells no option, and other packages that nobody has imported yet."""

    def __init__(self, imported: Container[str]) -> None:
        self._imported = imported

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if command := _COMMAND.fullmatch(fullname):
            if command["module"]:
                return None
            spec = ModuleSpec(fullname, self, is_package=True)
            spec.submodule_search_locations = [f"{folder}/{command['name']}" for folder in path or ()]
            return spec
        if package != "kschedctl":
            real = package in sys.stdlib_module_names or package in self._imported
        else:
            real = any(f"{name}.".startswith(f"{fullname}.") or fullname.startswith(f"{name}.") for name in SPELT)
        return None if real else ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = _of_hollow  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def outlined() -> Iterator[None]:
    """Within the block modules are imported hollow where no option is spelt in them; after it none of that is left."""
    before = dict(sys.modules)
    hollow = _HollowModules(before)
    sys.meta_path.insert(0, hollow)
    try:
        yield
    finally:
        sys.meta_path.remove(hollow)
        for name in [name for name in sys.modules if name not in before]:
            if name.startswith("kschedctl.") or sys.modules[name].__loader__ is hollow:
                module, (parent, _, child) = sys.modules.pop(name), name.rpartition(".")
                if vars(before.get(parent, module)).get(child) is module:
                    delattr(before[parent], child)
