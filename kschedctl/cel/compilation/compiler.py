"""Compilation of an expression's text to a program.

Upstream: github.com/google/cel-go/cel/{env,program}.go (v0.26).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from kschedctl.cel.compilation.checker import Checker, Structs
from kschedctl.cel.compilation.declarations import all_functions
from kschedctl.cel.compilation.program import Planner
from kschedctl.cel.compilation.steps import COST, FIRST, Run
from kschedctl.cel.compilation.validation import validate_expression
from kschedctl.cel.errors import AbortedError, CelError, CompileError, build_compile_error, deep_recursion
from kschedctl.cel.meter import get_work, reset_work
from kschedctl.cel.parsing.parser import parse
from kschedctl.cel.types import Type
from kschedctl.cel.values import Value

MAX_LENGTH = 100_000
"""The number of code points that the parser accepts."""
_SHALLOW_HEIGHT = 20
"""The height of expressions that need no deep recursion."""


_UNEXPECTED_ERRORS = (TypeError, AttributeError, OverflowError, UnicodeError)
"""Exceptions that unforeseen values may raise. Upstream also turns panics into errors of the expression."""


@dataclass(slots=True)
class Program:
    """A compiled expression."""

    output: Type
    """The type of the result."""
    variables: tuple[str, ...]
    """The variables in the order in which ``evaluate`` takes their values."""
    run: Run
    size: int
    deep: bool
    unsupported_patterns: tuple[str, ...] = ()
    """Regular expressions that need google-re2."""
    cost: int = 0
    """The cost of the last evaluation."""
    work: int = 0
    """The work of the last evaluation that upstream's cost ignores."""

    def evaluate(self, *values: Value) -> Value:
        """Evaluate the expression. Raises CelError, or AbortedError if that costs too much."""
        reset_work()
        frame = [0, *values, *[None] * (self.size - FIRST - len(values))]
        try:
            with deep_recursion() if self.deep else nullcontext():
                return self.run(frame)
        except RecursionError:
            raise AbortedError("internal error: the values nest too deep") from None
        except _UNEXPECTED_ERRORS as error:
            raise CelError(f"internal error: {error}") from None
        finally:
            self.cost, self.work = frame[COST], get_work()


def compile_expression(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    """Compile an expression. Raises CompileError."""
    reset_work()
    with deep_recursion():
        try:
            return _compile(source, variables, structs)
        except RecursionError:
            raise CompileError("compilation failed: the expression nests too deep") from None
        except _UNEXPECTED_ERRORS as error:
            raise CompileError(f"program instantiation failed: internal error: {error}") from None


def _compile(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    """Parse, check, validate and plan an expression. Raises CompileError."""
    if len(source) > MAX_LENGTH:
        what = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise CompileError(f"compilation failed: {what}")
    root = parse(source)
    checked = Checker(variables, structs, all_functions()).check(root)
    faults = checked.errors or validate_expression(checked)
    if faults:
        raise build_compile_error(source, faults)
    slots = {name: FIRST + i for i, name in enumerate(variables)}
    planner = Planner(checked, [slots], FIRST + len(slots))
    step = planner.plan(root)
    deep = root.height > _SHALLOW_HEIGHT or len(planner.planned) > 200
    return Program(
        checked.types[root], tuple(variables), step.run, planner.size, deep, tuple(planner.unsupported_patterns)
    )
