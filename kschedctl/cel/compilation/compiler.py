"""Compilation of an expression's text to a program, with the validation that goes beyond types.

The validation rejects mixed literals, invalid constants, and formats that do not fit their arguments.

Upstream: github.com/google/cel-go/cel/{env,program,validator}.go and ext/formatting.go (v0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from kschedctl.cel.compilation.checker import CheckedExpression, Checker, Structs, get_functions
from kschedctl.cel.compilation.program import Planner
from kschedctl.cel.compilation.steps import COST, FIRST, Run
from kschedctl.cel.errors import AbortedError, CelError, CompileError, allow_deep_recursion, build_compile_error
from kschedctl.cel.library import regular_expressions, times
from kschedctl.cel.library.conversions import to_timestamp
from kschedctl.cel.library.texts import ACCEPTED_KINDS, Clause, describe_unfit_value, iter_clauses
from kschedctl.cel.parser import parse_source
from kschedctl.cel.syntax import Call, ListOf, Literal, MapOf, SyntaxNode, get_children
from kschedctl.cel.types import Type, unwrap_optional
from kschedctl.cel.values import Value, get_work, reset_work

MAX_LENGTH = 100_000
"""The maximum number of code points of an expression."""
_SHALLOW_HEIGHT = 20
"""The maximum height of expressions that need no deep recursion."""
_FEW_NODES = 200
"""The maximum number of nodes of expressions that need no deep recursion. Macros add nodes but no height."""

_UNEXPECTED_ERRORS = (TypeError, AttributeError, OverflowError, UnicodeError)
"""Exceptions that unforeseen values may raise. Upstream also turns panics into errors of the expression."""


@dataclass(slots=True)
class Program:
    """A compiled expression."""

    output: Type
    """The type of the result."""
    variables: tuple[str, ...]
    """The variables in the order of the values that ``evaluate`` takes."""
    run: Run
    """The function that evaluates the expression in a frame."""
    size: int
    """The number of slots of a frame."""
    deep: bool
    """True if the evaluation may need more nested calls than Python allows by default."""
    unsupported_patterns: tuple[str, ...] = ()
    """Regular expressions that need google-re2."""
    cost: int = 0
    """The cost of the last evaluation."""
    work: int = 0
    """The work of the last evaluation that upstream's cost ignores."""

    def evaluate(self, *values: Value) -> Value:
        """Evaluate the expression with the values of its variables, and record the cost and the work.

        Raises CelError if the evaluation fails, and AbortedError if it costs too much or values nest too deep.
        """
        reset_work()
        # A frame holds the cost, the variables, and the slots of comprehensions
        frame = [0, *values, *[None] * (self.size - FIRST - len(values))]
        try:
            with allow_deep_recursion() if self.deep else nullcontext():
                return self.run(frame)
        except RecursionError:
            raise AbortedError("internal error: the values nest too deep") from None
        except _UNEXPECTED_ERRORS as error:
            raise CelError(f"internal error: {error}") from None
        finally:
            self.cost = frame[COST]
            self.work = get_work()


def compile_expression(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    """Compile an expression that can use the variables and the fields of structs. Raises CompileError if it is invalid.

    ``Program.evaluate`` takes the values of the variables in the order of ``variables``.
    """
    reset_work()
    with allow_deep_recursion():
        try:
            return _compile(source, variables, structs)
        except RecursionError:
            raise CompileError("compilation failed: the expression nests too deep") from None
        except _UNEXPECTED_ERRORS as error:
            raise CompileError(f"program instantiation failed: internal error: {error}") from None


def _compile(source: str, variables: Mapping[str, Type], structs: Structs) -> Program:
    """Parse, check, validate and plan an expression. Raises CompileError if it is invalid."""
    if len(source) > MAX_LENGTH:
        problem = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise CompileError(f"compilation failed: {problem}")
    root = parse_source(source)
    checked = Checker(variables, structs, get_functions()).check(root)
    errors = checked.errors or validate_expression(checked)
    if errors:
        raise build_compile_error(source, errors)

    # Plan the steps that evaluate the expression. The variables take the first slots after the cost in each frame.
    slots = {name: FIRST + i for i, name in enumerate(variables)}
    planner = Planner(checked, [slots], FIRST + len(slots))
    step = planner.plan(root)

    # If the expression is deep, `Program.evaluate` raises Python's recursion limit
    deep = root.height > _SHALLOW_HEIGHT or len(planner.planned) > _FEW_NODES
    return Program(
        checked.types[root],
        tuple(variables),
        run=step.run,
        size=planner.size,
        deep=deep,
        unsupported_patterns=tuple(planner.unsupported_patterns),
    )


OffsetErrors = list[tuple[int, str]]
"""Error messages with their offsets."""


def _validate_duration(value: Value) -> None:
    """Raise CelError for a constant that is not a duration."""
    if not isinstance(value, str):
        raise CelError("type conversion error")
    times.parse_duration(value)


def _validate_timestamp(value: Value) -> None:
    """Raise CelError for a constant that is not a timestamp."""
    if type(value) not in (str, int):
        raise CelError("type conversion error")
    to_timestamp(value)


def _validate_pattern(value: Value) -> None:
    """Raise CelError for a constant that is an invalid pattern. Constants of other types are accepted."""
    if isinstance(value, str):
        regular_expressions.validate_pattern(value)


_CONSTANT_CHECKS: Mapping[str, Callable[[Value], None]] = {
    "duration": _validate_duration,
    "timestamp": _validate_timestamp,
    "matches": _validate_pattern,
}
"""Function -> the check of its first argument if that is a literal."""


def validate_expression(checked: CheckedExpression) -> OffsetErrors:
    """Return the errors that type checking does not find: invalid constants, mixed types, and bad formats."""
    errors: OffsetErrors = []
    for node, formatted in _iter_nodes_with_format_context(checked.root):
        match node:
            case Call():
                errors += _validate_constant_argument(node, checked)
                errors += _validate_format(node, checked)
            case ListOf() if not formatted:
                errors += _validate_list(node, checked)
            case MapOf() if not formatted:
                errors += _validate_map(node, checked)
    return errors


def _iter_nodes_with_format_context(root: SyntaxNode) -> Iterator[tuple[SyntaxNode, bool]]:
    """Yield each syntax node once, together with a flag that says whether it is inside a call to ``format``.

    The flag matters because the arguments of ``format`` may mix types.
    """
    seen: set[SyntaxNode] = set()
    stack = [(root, False)]
    while stack:
        node, formatted = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node, formatted
        formatted = formatted or (isinstance(node, Call) and node.function == "format")
        stack += [(child, formatted) for child in get_children(node)]


def _validate_constant_argument(node: Call, checked: CheckedExpression) -> OffsetErrors:
    """Return the error for a literal duration, timestamp or pattern that is invalid, or []."""
    name = checked.calls[node].function if node in checked.calls else ""
    if name not in _CONSTANT_CHECKS or not node.args:
        return []
    argument = node.args[0]
    if not isinstance(argument, Literal):
        return []
    try:
        _CONSTANT_CHECKS[name](argument.value)
    except CelError:
        return [(argument.offset, f"invalid {name} argument")]
    return []


def _validate_list(node: ListOf, checked: CheckedExpression) -> OffsetErrors:
    """Return the error for the first element of a list literal whose type differs from the previous elements.

    Return [] if all types agree.
    """
    first: Type | None = None
    for i, element in enumerate(node.elements):
        cel_type = checked.types[element]
        if i in node.optional:
            cel_type, _ = unwrap_optional(cel_type)
        first = first or cel_type
        if cel_type != first:
            return [(element.offset, f"expected type '{first}' but found '{cel_type}'")]
    return []


def _validate_map(node: MapOf, checked: CheckedExpression) -> OffsetErrors:
    """Return the errors for keys and values of a map literal whose types differ from the first entry."""
    errors: OffsetErrors = []
    first: tuple[Type, Type] | None = None
    for key, value, optional in node.entries:
        value_type = checked.types[value]
        if optional:
            value_type, _ = unwrap_optional(value_type)
        types = checked.types[key], value_type
        first = first or types
        for part, first_type, actual_type in zip((key, value), first, types, strict=True):
            if first_type != actual_type:
                errors.append((part.offset, f"expected type '{first_type}' but found '{actual_type}'"))
    return errors


def _validate_format(node: Call, checked: CheckedExpression) -> OffsetErrors:
    """Return the errors in a format string and its arguments if both are literals.

    If they are not literals, nothing is checked.
    """
    target = node.target
    args = node.args
    if node.function != "format" or not isinstance(target, Literal) or not isinstance(target.value, str):
        return []
    if len(args) != 1 or not isinstance(args[0], ListOf):
        return []

    # Check the format string, then the type of each value, then the number of values.
    values = args[0].elements
    try:
        clauses = [clause for clause in iter_clauses(target.value, len(values)) if isinstance(clause, Clause)]
    except CelError as error:
        return [(node.offset, str(error))]
    for clause, value in zip(clauses, values, strict=False):
        unfit_value = _find_unformattable_value(value, clause.verb, checked)
        if unfit_value is not None:
            type_name = _get_runtime_type_name(checked.types[unfit_value])
            return [(unfit_value.offset, describe_unfit_value(clause.verb, type_name))]
    if len(values) > len(clauses):
        message = f"too many arguments supplied to string.format (expected {len(clauses)}, got {len(values)})"
        return [(node.offset, message)]
    return []


def _find_unformattable_value(value: SyntaxNode, verb: str, checked: CheckedExpression) -> SyntaxNode | None:
    """Find the first value, among the value and those nested in it, whose type the format verb does not accept.

    Return None if the verb accepts all of them.
    """
    cel_type = checked.types[value]
    kind = cel_type.parameters[0].kind if cel_type.kind == "wrapper" else cel_type.kind
    if kind != "dyn" and kind not in ACCEPTED_KINDS[verb].split():
        return value
    if verb == "s" and isinstance(value, ListOf | MapOf):
        for child in get_children(value):
            unfit_value = _find_unformattable_value(child, verb, checked)
            if unfit_value is not None:
                return unfit_value
    return None


def _get_runtime_type_name(cel_type: Type) -> str:
    """Return the name of a type as ``type(x)`` gives it during evaluation."""
    if cel_type.kind == "any":
        return "google.protobuf.Any"
    if cel_type.kind == "null":
        return "null_type"
    return cel_type.name or cel_type.kind
