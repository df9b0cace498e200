"""The text of an expression becomes a program that can be evaluated.

Upstream: github.com/google/cel-go/cel/{env,program}.go (v0.26).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from kschedctl.cel.compilation.checker import Checker, Structs
from kschedctl.cel.compilation.declarations import functions
from kschedctl.cel.compilation.program import Planner
from kschedctl.cel.compilation.steps import COST, FIRST, Run
from kschedctl.cel.compilation.validation import validate
from kschedctl.cel.errors import AbortedError, CelError, CompileError, at_place, deep_recursion
from kschedctl.cel.meter import begin, spent
from kschedctl.cel.parsing.parser import parse
from kschedctl.cel.types import Type
from kschedctl.cel.values import Value

MAX_LENGTH = 100_000
"""Code points of an expression that the parser takes."""
_SHALLOW = 20
"""The height of expressions that need no room for deep recursion."""


_FAULTS = (TypeError, AttributeError, OverflowError, UnicodeError)
"""What values that nobody thought of may raise; upstream too turns its panics into errors of the expression."""


@dataclass(slots=True)
class Program:
    """``output`` is the type of the result; ``variables`` are in the order in which ``evaluate`` takes values.

    ``not_run``: regular expressions that cannot be run without google-re2. ``cost`` is what the last evaluation cost,
    and ``work`` what else was counted.
    """

    output: Type
    variables: tuple[str, ...]
    run: Run
    size: int
    deep: bool
    not_run: tuple[str, ...] = ()
    cost: int = 0
    work: int = 0

    def evaluate(self, *values: Value) -> Value:
        """The result. Raises CelError, or AbortedError for what costs too much."""
        begin()
        frame = [0, *values, *[None] * (self.size - FIRST - len(values))]
        try:
            with deep_recursion() if self.deep else nullcontext():
                return self.run(frame)
        except RecursionError:
            raise AbortedError("internal error: the values nest too deep") from None
        except _FAULTS as error:
            raise CelError(f"internal error: {error}") from None
        finally:
            self.cost, self.work = frame[COST], spent()


def compile(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    """A program. Raises CompileError."""
    begin()
    with deep_recursion():
        try:
            return _compiled(source, variables, structs)
        except RecursionError:
            raise CompileError("compilation failed: the expression nests too deep") from None
        except _FAULTS as error:
            raise CompileError(f"program instantiation failed: internal error: {error}") from None


def _compiled(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    if len(source) > MAX_LENGTH:
        what = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise CompileError(f"compilation failed: {what}")
    root = parse(source)
    checked = Checker(variables, structs, functions()).check(root)
    faults = checked.faults or validate(checked)
    if faults:
        raise at_place(source, faults)
    slots = {name: FIRST + i for i, name in enumerate(variables)}
    planner = Planner(checked, [slots], FIRST + len(slots))
    step = planner.plan(root)
    deep = root.height > _SHALLOW or len(planner.planned) > 200
    return Program(checked.types[root], tuple(variables), step.run, planner.size, deep, tuple(planner.not_run))
