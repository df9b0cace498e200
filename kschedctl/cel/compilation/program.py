"""The planner, which turns a checked expression into Python functions that evaluate it and count its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kschedctl.cel.compilation import costs
from kschedctl.cel.compilation.checker import CheckedExpression, Resolution
from kschedctl.cel.compilation.steps import (
    COST,
    TEXTS,
    Computation,
    DeferredAccumulator,
    Frame,
    Loop,
    Run,
    build_argument_guard,
    build_binary_call,
    build_binding,
    build_constant,
    build_dispatcher,
    build_field_test,
    build_logical_operation,
    build_loop,
    build_membership_test,
    build_optional_choice,
    charge_call,
    is_present,
    precompute_constant,
    select_value,
    unwrap_entry,
)
from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError, CompileError
from kschedctl.cel.library import regular_expressions
from kschedctl.cel.library.conversions import CONVERSIONS
from kschedctl.cel.library.messages import MESSAGES
from kschedctl.cel.syntax import UNUSED, Call, Fold, Ident, ListOf, Literal, MapOf, Message, Select, SyntaxNode
from kschedctl.cel.values import CHARACTERS_PER_UNIT, MISSING, Map, Value, are_equal, spend_work


@dataclass
class Planner:
    """The planner of one expression."""

    checked: CheckedExpression
    slots: list[dict[str, int]]
    """The slots of variables by scope, the innermost scope last."""
    size: int
    planned: dict[SyntaxNode, Computation] = field(default_factory=dict)
    unsupported_patterns: list[str] = field(default_factory=list)
    """The patterns that cannot be run here. For a computed pattern it is the name of the function."""

    def plan(self, node: SyntaxNode) -> Computation:
        """Plan a node once. Raises CompileError for a constant that cannot be computed."""
        if node not in self.planned:
            self.planned[node] = self._plan_node(node)
        return self.planned[node]

    def allocate_slot(self) -> int:
        """Reserve a slot for a variable."""
        self.size += 1
        return self.size - 1

    def _plan_node(self, node: SyntaxNode) -> Computation:
        """Plan the evaluation of a node that was not planned yet."""
        named = self.checked.named_types.get(node)
        if named is not None and not isinstance(node, Message):
            return build_constant(named)
        return _PLANS[type(node)](self, node)

    def _plan_literal(self, node: Literal) -> Computation:
        """Plan a constant."""
        return build_constant(node.value)

    def _plan_comprehension(self, node: Fold) -> Computation:
        """Plan a comprehension: a loop, or a binding if its loop variable is unused."""
        range_run = self.plan(node.range).run
        initial = self.plan(node.initial).run
        accumulator = self.allocate_slot()
        variables = tuple(self.allocate_slot() for _ in node.names)

        # The accumulator is visible in the rest of the comprehension, the variables only in condition and step
        self.slots.append({node.accumulator: accumulator})
        self.slots.append(dict(zip(node.names, variables, strict=True)))
        condition = self.plan(node.condition).run
        step = self.plan(node.step).run
        self.slots.pop()
        result = self.plan(node.result).run
        self.slots.pop()

        is_binding = node.names == (UNUSED,)  # cel.bind expands to a loop over an empty list
        if is_binding:
            return Computation(build_binding(accumulator, initial, result))
        loop = Loop(
            range_run,
            initial,
            condition=condition,
            step=step,
            result=result,
            accumulator=accumulator,
            variables=variables,
        )
        return Computation(build_loop(loop))

    def _plan_variable(self, node: Ident) -> Computation:
        """Return a computation that reads a variable from its slot in the frame.

        An accumulator that was not computed yet is computed first. An error in the slot is raised.
        """
        name = node.name.lstrip(".")
        slot = next(scope[name] for scope in reversed(self.slots) if name in scope)

        def run(frame: Frame) -> Value:
            """Return the variable's value from its slot in the frame. Raises CelError if the slot holds an error."""
            frame[COST] += 1
            value = frame[slot]
            if type(value) is DeferredAccumulator:
                return value.compute(frame, slot)  # also replaces the accumulator in the slot by its value
            if isinstance(value, CelError):
                raise value.with_traceback(None)
            return value

        return Computation(run, attribute=True)

    # -- selections ----------------------------------------------------------------------------------------------

    def _plan_operand(self, node: SyntaxNode) -> tuple[Run, int]:
        """Return the computation of a selection's operand, and the cost of the selection itself."""
        step = self.plan(node)
        cost = 1 if step.attribute else 2
        return step.run, cost

    def _plan_selection(self, node: Select) -> Computation:
        """Plan `a.b`, or a test whether the field is present for `has(a.b)`."""
        operand, cost = self._plan_operand(node.operand)
        name = node.field
        if node.tests_presence:
            return Computation(build_field_test(operand, name))
        key = (str, name)

        def run(frame: Frame) -> Value:
            """Evaluate the operand and return its field. Raises CelError if the field is missing."""
            value = operand(frame)
            frame[COST] += cost
            if type(value) is Map:  # the usual case, without the calls of select_value
                selected = value.entries.get(key, MISSING)
                if selected is not MISSING:
                    return selected
            return select_value(value, name)

        return Computation(run, attribute=True)

    def _plan_index(self, node: Call) -> Computation:
        """Plan `a[i]`, `a[?i]` or `a.?b`."""
        operand_node, index_node = node.args
        operand, cost = self._plan_operand(operand_node)
        index = self.plan(index_node).run
        optional = node.function != "_[_]"

        def run(frame: Frame) -> Value:
            """Evaluate the operand and the index, and return the element, as an optional value for ``?``."""
            value = operand(frame)
            index_value = index(frame)
            frame[COST] += cost
            return select_value(value, index_value, optional=optional)

        return Computation(run, attribute=True)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _plan_call(self, node: Call) -> Computation:
        """Plan a call to an operator or function.

        Conversions of constants, and constant containers, are computed in advance. Raises CompileError if a conversion
        of a constant fails, or if a literal pattern is invalid.
        """
        special = _SPECIAL.get(node.function)
        if special is not None and node.target is None:
            return special(self, node)

        # Plan the arguments, of which the receiver comes first.
        resolution = self.checked.calls[node]
        args = [resolution.target, *node.args] if resolution.target else [*node.args]
        steps = [self.plan(arg) for arg in args]
        self._check_pattern(resolution.function, args)

        # Plan functions that do not always evaluate all arguments.
        if resolution.function in ("or", "orValue"):
            optional, alternative = steps
            keeps_optional = resolution.function == "or"
            return Computation(build_optional_choice(optional.run, alternative.run, keeps_optional=keeps_optional))
        if resolution.function == "@in":
            item, container = steps
            if container.constant:
                container_value = container.run([0])  # a constant reads no variables, so the frame has only the cost
                return build_membership_test(item.run, container_value)

        # Plan any other function.
        step = Computation(self._plan_function(resolution, args, steps))
        if resolution.function in CONVERSIONS and steps[0].constant:
            return precompute_constant(step)
        return step

    def _plan_function(self, resolution: Resolution, args: list[SyntaxNode], steps: list[Computation]) -> Run:
        """Build the step that evaluates the arguments, calls the matching overload and adds up its cost.

        A long result also counts as work, unless the call has two arguments and a cost of 1.
        """
        types = [self.checked.types[arg] for arg in args]
        overloads = [(build_argument_guard(overload.parameters, types), overload) for overload in resolution.overloads]
        cost = costs.COSTS.get(resolution.function)
        function = build_dispatcher(overloads)
        # A fast path for operators. Two-argument functions that build long results have a cost function.
        if len(steps) == 2 and cost is None:
            return build_binary_call(function, steps[0].run, steps[1].run)
        runs = [step.run for step in steps]

        def run(frame: Frame) -> Value:
            """Evaluate the arguments, charge for the call, and call the function."""
            values = [run_argument(frame) for run_argument in runs]
            if cost is not None:
                charge_call(frame, cost, values)
            else:
                frame[COST] += 1
            result = function(*values)
            # Building a long result is work as well, which a limit of its own bounds
            if type(result) in TEXTS:
                spend_work(len(result) // CHARACTERS_PER_UNIT)
            elif type(result) is list:
                spend_work(len(result))
            return result

        return run

    def _check_pattern(self, function: str, args: list[SyntaxNode]) -> None:
        """Check the regular expression in a call, and record it if it cannot be run without google-re2.

        A computed pattern is recorded by the name of the function. Calls of functions that take no pattern are ignored.
        Raises CompileError if a literal pattern is invalid.
        """
        if function not in regular_expressions.PATTERN_FUNCTIONS:
            return
        _, pattern_node, *_ = args  # the first argument is the text
        if not isinstance(pattern_node, Literal):  # a computed pattern
            if not regular_expressions.has_re2():
                self.unsupported_patterns.append(function)
            return
        pattern = pattern_node.value
        if not regular_expressions.is_supported(pattern):
            self.unsupported_patterns.append(pattern)
        try:
            regular_expressions.validate_pattern(pattern)
        except CelError as error:
            raise CompileError(f"program instantiation failed: {error}") from None

    # -- literals --------------------------------------------------------------------------------------------------

    def _plan_list(self, node: ListOf) -> Computation:
        """Plan a list literal. Missing optional elements are left out."""
        steps = [self.plan(element) for element in node.elements]
        runs = [step.run for step in steps]
        optional = node.optional

        def run(frame: Frame) -> Value:
            """Evaluate all elements, and return the list of the present ones."""
            frame[COST] += costs.LIST
            if not optional:
                return [run_element(frame) for run_element in runs]
            values = []
            for i, run_element in enumerate(runs):
                value = run_element(frame)
                if i not in optional:
                    values.append(value)
                elif is_present(value):
                    values.append(unwrap_entry(value))
            return values

        step = Computation(run)
        return precompute_constant(step) if all(step.constant for step in steps) else step

    def _plan_map(self, node: MapOf) -> Computation:
        """Plan a map literal. Entries with missing optional values are left out."""
        steps = [(self.plan(key), self.plan(value), optional) for key, value, optional in node.entries]

        def run(frame: Frame) -> Value:
            """Evaluate all keys and values, and return the map of the entries that are present."""
            frame[COST] += costs.MAP
            result = Map()
            for key_step, value_step, optional in steps:
                key = key_step.run(frame)
                value = value_step.run(frame)
                if not optional:
                    result.put(key, value)
                elif is_present(value):
                    result.put(key, value.value)
            return result

        step = Computation(run)
        return precompute_constant(step) if all(key.constant and value.constant for key, value, _ in steps) else step

    def _plan_message(self, node: Message) -> Computation:
        """Plan a message literal. Missing optional fields are left out."""
        steps = [(name, self.plan(value).run, optional) for name, value, optional, _ in node.fields]
        message = MESSAGES.get(node.name.lstrip("."))

        def run(frame: Frame) -> Value:
            """Evaluate the fields, and build the message. Raises CelError if its type is unknown."""
            frame[COST] += costs.MESSAGE
            fields = {}
            for name, run_value, optional in steps:
                value = run_value(frame)
                if not optional:
                    fields[name] = value
                elif is_present(value):
                    fields[name] = value.value
            if message is None:
                raise CelError(f"unknown type: {node.name}")
            return message.build(fields)

        return Computation(run)

    # -- operators that may skip arguments -------------------------------------------------------------------------

    def _plan_logical_operator(self, node: Call) -> Computation:
        """Plan ``&&`` or ``||``."""
        return Computation(
            build_logical_operation([self.plan(arg).run for arg in node.args], decisive=node.function == "_||_")
        )

    def _plan_conditional(self, node: Call) -> Computation:
        """Plan `a ? b : c`, which evaluates one branch only."""
        condition, then, otherwise = (self.plan(arg).run for arg in node.args)

        def run(frame: Frame) -> Value:
            """Evaluate the condition, and then the branch that it selects. Raises CelError if it is not a boolean."""
            chosen = condition(frame)
            if type(chosen) is not bool:
                raise CelError(NO_SUCH_OVERLOAD)
            return then(frame) if chosen else otherwise(frame)

        return Computation(run, attribute=True)

    def _plan_equality(self, node: Call) -> Computation:
        """Plan ``==`` or ``!=``. For incomparable values, ``!=`` is true and ``==`` raises CelError."""
        left, right = (self.plan(arg).run for arg in node.args)
        negative = node.function == "_!=_"
        cost = costs.compute_shorter_cost if negative else costs.compute_equality_cost

        def run(frame: Frame) -> Value:
            """Evaluate both operands and compare them."""
            values = left(frame), right(frame)
            charge_call(frame, cost, values)
            try:
                return are_equal(*values) is not negative
            except CelError:
                if negative:
                    return True
                raise

        return Computation(run)

    def _plan_loop_condition(self, node: Call) -> Computation:
        """Plan a loop condition, which counts as true unless it evaluates to false."""
        operand = self.plan(node.args[0]).run

        def run(frame: Frame) -> Value:
            """Evaluate the condition. Return True if that fails or if the value is not a boolean."""
            frame[COST] += 1
            try:
                value = operand(frame)
            except CelError:
                return True
            return value if type(value) is bool else True

        return Computation(run)


_PLANS: Mapping[type[SyntaxNode], Callable[..., Computation]] = {
    Literal: Planner._plan_literal,
    Ident: Planner._plan_variable,
    Select: Planner._plan_selection,
    Call: Planner._plan_call,
    ListOf: Planner._plan_list,
    MapOf: Planner._plan_map,
    Message: Planner._plan_message,
    Fold: Planner._plan_comprehension,
}
_SPECIAL: Mapping[str, Callable[[Planner, Call], Computation]] = {
    "_||_": Planner._plan_logical_operator,
    "_&&_": Planner._plan_logical_operator,
    "_?_:_": Planner._plan_conditional,
    "_==_": Planner._plan_equality,
    "_!=_": Planner._plan_equality,
    "@not_strictly_false": Planner._plan_loop_condition,
    "_[_]": Planner._plan_index,
    "_[?_]": Planner._plan_index,
    "_?._": Planner._plan_index,
}
