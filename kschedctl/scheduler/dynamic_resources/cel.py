"""CEL device selectors: compiled once an expression, with upstream's type checks, bounds and words for errors.

Upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36). The language itself is Google's own C++
implementation, whose checker and regular expressions are those of cel-go; expressions that nest deeper than 32 levels
or loop more than 10,000 times are refused, which upstream does by cost.

An expression is checked in one environment, where quantities and versions have types of their own, and runs in another
one, where they are bytes (see cel_functions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kschedctl.api.objects import Device, DeviceAttribute
from kschedctl.scheduler.dynamic_resources import cel_functions
from kschedctl.scheduler.dynamic_resources.cel_functions import IMPLEMENTATIONS, SIGNATURES
from kschedctl.scheduler.dynamic_resources.cel_values import COST_LIMIT, NO_SUCH_OVERLOAD, load_library

MAX_EXPRESSION = 10 * 1024
"""Characters of an expression that the API server accepts (resource/v1 CELSelectorExpressionMaxLength)."""
FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")

_EXTENSIONS = "extensions: [{name: bindings}, {name: optional}, {name: sets}, {name: two-var-comprehensions}]"
_SIGNATURE = re.compile(r"(?:(\w+(?:<\w+>)?)\.)?([\w.]+)\((.*)\) (\S+)")
_OPAQUE = {"Quantity": "kubernetes.Quantity", "Semver": "kubernetes.Semver", "IP": "net.IP", "CIDR": "net.CIDR"}
_TYPES = frozenset(["string", "bool", "int", "double", "dyn", "list<string>", "list<dyn>", *_OPAQUE])
_LOOKUP = re.compile(r"\bdevice\s*\.\s*(attributes|capacity)(?=\s*[\[.])(?!\s*\.\s*\w+\s*\()")
_DOMAIN = re.compile(r"\bdevice\s*\.\s*(?:attributes|capacity)\s*\.\s*(\w+)(?!\s*\()")
_LENIENT = {"attributes": "anyAttributes", "capacity": "anyCapacity"}
_FIELD = re.compile(r"(?<![\w.])device\s*\.\s*([A-Za-z_]\w*)")
_LITERAL = re.compile(r"""r?("{3}|'{3}|"|')(?:\\.|(?!\1).)*\1""", re.DOTALL)
_UNDECLARED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+)((?:\.\w+)*)\.\w+' \(in container ''\)\n"
    r"( \| .*\n \| )\.*\^"
)
_ERRORS = (
    (re.compile(r"Key not found in map : \"?(.*?)\"?$"), r"no such key: \1"),
    (re.compile(r"No matching overloads found.*"), NO_SUCH_OVERLOAD),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"Iteration budget exceeded"), COST_LIMIT),
)


class CompileError(ValueError):
    """An expression that no device can be matched with; ``str()`` has the place and the fault, in cel-go's form."""


class EvaluationError(ValueError):
    """An expression that fails for one device, in cel-go's words."""


@dataclass(frozen=True)
class Input:
    """A device as selectors see it: attributes and capacities by domain and name."""

    driver: str
    multiple: bool
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, bytes]]

    @classmethod
    def of(cls, device: Device, driver: str, lists: bool) -> Input:
        """``lists``: attributes may hold several values. Raises EvaluationError for one that is of no known type."""
        attributes: dict[str, dict[str, Any]] = {}
        for name, attribute in device.attributes.items():
            domain, identifier = _qualified(name, driver)
            attributes.setdefault(domain, {})[identifier] = _attribute(name, attribute, lists)
        capacity: dict[str, dict[str, bytes]] = {}
        for name, found in device.capacity.items():
            domain, identifier = _qualified(name, driver)
            capacity.setdefault(domain, {})[identifier] = cel_functions.quantity(str(found.value))
        return cls(driver, bool(device.allow_multiple_allocations), attributes, capacity)


@dataclass(frozen=True)
class Selector:
    """A compiled expression."""

    expression: str
    program: Any
    domains: tuple[str, ...]

    def matches(self, device: Input) -> bool:
        """Whether the device is selected. Raises EvaluationError."""
        known = dict.fromkeys(self.domains)
        for _ in range(len(_LITERAL.findall(self.expression)) + 2):
            try:
                result = self.program.eval(data=_variables(device, known))
            except RuntimeError as error:
                raise EvaluationError(_translate(error)) from None
            if str(result.type()) != "ERROR":
                return _boolean(result)
            fault = _translate(result.value())
            missing = fault.removeprefix("no such key: ")
            if missing == fault or missing in known:
                break
            known[missing] = None  # perhaps a domain: looking up an unknown one gives an empty map
        raise EvaluationError(fault)


@lru_cache(maxsize=1024)
def compile_selector(expression: str, lists: bool = False) -> Selector:
    """Compile an expression; ``lists``: attributes may hold several values. Raises CompileError."""
    if len(expression) > MAX_EXPRESSION:
        raise CompileError(f"compilation failed: {len(expression)} characters, at most {MAX_EXPRESSION} are allowed")
    checker, runner = _environments(lists)
    _check_fields(expression)
    try:
        checked = checker.compile(expression)
        output = checked.return_type()
        if str(output) not in ("BOOL", "ERROR", "any") and not (lists and str(output) == "DYN"):
            raise CompileError(f"must evaluate to bool or the unknown type, not {_type_name(output)}")
        program = runner.deserialize(checker.compile(_lenient(expression)).serialize())
    except RuntimeError as error:
        raise CompileError(f"compilation failed: {_UNDECLARED.sub(_root, _stripped(error))}") from None
    named = (
        match[1] for match in re.finditer(r"\bdevice\s*\.\s*(?:attributes|capacity)\s*\.\s*(\w+)(?!\s*\()", expression)
    )
    return Selector(expression, program, tuple(named))


@cache
def _environments(lists: bool) -> tuple[Any, Any]:
    """The environment that checks expressions, and the one that runs them."""
    cel = load_library()

    kinds = {name: cel.Type.AbstractType(opaque) for name, opaque in _OPAQUE.items()}
    any_type = cel.Type("google.protobuf.Any")

    def type_of(name: str) -> Any:
        return kinds[name] if name in kinds else cel.Type(name)

    value = cel.Type.DYN if lists else any_type
    checked, running = _overloads(cel, type_of, any_type)
    checker = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=_variable_types(cel, value, kinds["Quantity"]),
        functions=checked,
    )
    runner = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=_variable_types(cel, cel.Type.DYN, cel.Type.DYN),
        functions=running,
    )
    return checker, runner


def _variable_types(cel: Any, attribute: Any, quantity: Any) -> dict[str, Any]:
    text, by_domain = cel.Type.STRING, cel.Type.Map
    attributes, capacity = (by_domain(text, by_domain(text, kind)) for kind in (attribute, quantity))
    return {
        "device": by_domain(text, cel.Type.DYN),
        "device.driver": text,
        "device.allowMultipleAllocations": cel.Type.BOOL,
        "device.attributes": attributes,
        "device.capacity": capacity,
        "device.anyAttributes": attributes,
        "device.anyCapacity": capacity,
    }


def _overloads(cel: Any, type_of: Any, any_type: Any) -> tuple[list[Any], list[Any]]:
    """The functions as the checker knows them, by type, and as they run: one a name and number of arguments."""
    checked: dict[str, list[Any]] = {}
    running: dict[str, dict[tuple[bool, int], Any]] = {}
    for line in SIGNATURES.strip().splitlines():
        receiver, name, arguments, result = _parts(line)
        parameters = [*([receiver] if receiver else []), *filter(None, arguments.split(","))]
        member, identifier = bool(receiver), re.sub(r"\W", "_", line)
        types = [type_of(parameter) for parameter in parameters]
        checked.setdefault(name, []).append(cel.Overload(identifier, type_of(result), types, member))
        running.setdefault(name, {})[member, len(parameters)] = cel.Overload(
            identifier, cel.Type.DYN, [any_type] * len(parameters), member, _guarded(name)
        )
    return (
        [cel.FunctionDecl(name, overloads) for name, overloads in checked.items()],
        [cel.FunctionDecl(name, list(overloads.values())) for name, overloads in running.items()],
    )


def _parts(line: str) -> tuple[str, str, str, str]:
    """``Quantity.add(int) Quantity`` -> receiver, name, arguments, result; no receiver where the dot is in the name."""
    match = _SIGNATURE.fullmatch(line)
    assert match is not None, line
    receiver, name, arguments, result = match.groups(default="")
    return (
        (receiver, name, arguments, result)
        if receiver in _TYPES
        else ("", f"{receiver}.{name}".lstrip("."), arguments, result)
    )


def _guarded(name: str) -> Any:
    """An implementation whose faults, those of wrongly typed arguments too, become errors of the expression."""
    function = IMPLEMENTATIONS[name]

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (TypeError, AttributeError):
            raise ValueError(NO_SUCH_OVERLOAD) from None

    return call


def _variables(device: Input, known: Mapping[str, None]) -> dict[str, Any]:
    lenient: dict[str, Mapping[str, Any]] = {domain: {} for domain in (*known, device.driver)}
    attributes, capacity = lenient | dict(device.attributes), lenient | dict(device.capacity)
    whole = {
        "driver": device.driver,
        "allowMultipleAllocations": device.multiple,
        "attributes": attributes,
        "capacity": capacity,
    }
    return {
        "device": whole,
        "device.driver": device.driver,
        "device.allowMultipleAllocations": device.multiple,
        "device.attributes": device.attributes,
        "device.capacity": device.capacity,
        "device.anyAttributes": attributes,
        "device.anyCapacity": capacity,
    }


def _lenient(expression: str) -> str:
    """The expression with its lookups of domains on maps in which unknown domains can be put."""
    return _LOOKUP.sub(lambda match: f"device.{_LENIENT[match[1]]}", expression)


def _check_fields(expression: str) -> None:
    """What the checker of upstream says of a field that devices do not have. Raises CompileError."""
    blank = _LITERAL.sub(lambda match: " " * len(match[0]), expression)
    for match in _FIELD.finditer(blank):
        if match[1] not in FIELDS:
            line = expression.count("\n", 0, match.start()) + 1
            column = match.start(1) - 1 - (expression.rfind("\n", 0, match.start()) + 1)
            source = expression.splitlines()[line - 1]
            raise CompileError(
                f"compilation failed: ERROR: <input>:{line}:{column + 1}: undefined field '{match[1]}'\n"
                f" | {source}\n | {'.' * column}^"
            )


def _root(undeclared: re.Match[str]) -> str:
    """An undeclared ``a.b.c`` as cel-go reports it: by its first name, at that name's place."""
    line, column, root, middle, source = undeclared.groups()
    at = int(column) - len(root) - len(middle)
    return f"ERROR: <input>:{line}:{at}: undeclared reference to '{root}' (in container '')\n{source}{'.' * (at - 1)}^"


def _boolean(result: Any) -> bool:
    value = result.value()
    if isinstance(value, bool):
        return value
    name = _type_name(result.type())
    raise EvaluationError(
        f"CEL result of type {name} could not be converted to bool: type conversion error from '{name}' to 'bool'"
    )


def _type_name(kind: Any) -> str:
    name = str(kind)
    return name if "." in name else name.lower().replace("<", "(").replace(">", ")")


def _translate(error: Any) -> str:
    text = _stripped(error)
    for pattern, words in _ERRORS:
        if pattern.search(text):
            return pattern.sub(words, text)
    return text


def _stripped(error: Any) -> str:
    """The message without the status code before and after it."""
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", str(error))


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: DeviceAttribute, lists: bool) -> Any:
    try:
        return _value(attribute, lists)
    except ValueError as error:
        raise EvaluationError(f"attribute {name}: {error}") from None


def _value(attribute: DeviceAttribute, lists: bool) -> Any:
    if lists:
        for values in (attribute.ints, attribute.bools, attribute.strings):
            if values is not None:
                return list(values)
        if attribute.versions is not None:
            return [_version(text) for text in attribute.versions]
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    if attribute.version is None:
        raise ValueError("unsupported attribute value")
    return _version(attribute.version)


def _version(text: str) -> bytes:
    try:
        return cel_functions.version(text)
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from None
