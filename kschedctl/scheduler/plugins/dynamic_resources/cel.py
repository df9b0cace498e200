"""CEL device selectors: what they see of a device, compiled once an expression, with upstream's words for errors.

Upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kschedctl.api.objects import Device, DeviceAttribute
from kschedctl.cel.compilation import compiler
from kschedctl.cel.errors import AbortedError, CelError, CompileError
from kschedctl.cel.library.quantities import parse_quantity
from kschedctl.cel.library.versions import to_version
from kschedctl.cel.types import ANY, BOOL, DYN, STRING, Type, map_of, parse_type
from kschedctl.cel.values import DefaultMap, Map, Value, type_name
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import Allowance

_DEVICE = "kubernetes.DRADevice"


class EvaluationError(ValueError):
    """An expression that fails for one device, in cel-go's words."""


@dataclass(frozen=True)
class Input:
    """A device as selectors see it, a map though the checker takes it for an object."""

    device: Map

    @classmethod
    def of(cls, device: Device, driver: str, lists: bool) -> Input:
        """``lists``: attributes may hold several values. Raises EvaluationError for one that is of no known type."""
        attributes: dict[str, Map] = {}
        for name, attribute in device.attributes.items():
            domain, identifier = _qualified(name, driver)
            attributes.setdefault(domain, Map()).put(identifier, _attribute(name, attribute, lists))
        capacity: dict[str, Map] = {}
        for name, device_capacity in device.capacity.items():
            domain, identifier = _qualified(name, driver)
            capacity.setdefault(domain, Map()).put(identifier, parse_quantity(str(device_capacity.value)))
        fields = {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": DefaultMap(attributes.items()),
            "capacity": DefaultMap(capacity.items()),
        }
        return cls(Map(fields.items()))


@dataclass(frozen=True)
class CompiledSelector:
    """A compiled expression."""

    program: compiler.Program

    def matches(self, device: Input, allowance: Allowance | None = None) -> bool:
        """Whether the device is selected. Raises EvaluationError, also when the allowance is used up."""
        if allowance is not None and allowance.left < 0:
            raise EvaluationError("given up: the selectors of devices cost too much for all devices together")
        try:
            return _boolean(self.program.evaluate(device.device))
        except (CelError, AbortedError) as error:
            raise EvaluationError(str(error)) from None
        finally:
            if allowance is not None:
                allowance.take(self.program.cost + self.program.work)


@lru_cache(maxsize=1024)
def compile_selector(expression: str, lists: bool = False) -> CompiledSelector:
    """Compile an expression; ``lists``: attributes may hold several values. Raises CompileError."""
    program = compiler.compile_expression(expression, {"device": parse_type(_DEVICE)}, {_DEVICE: _fields(lists)})
    if program.output not in (BOOL, ANY) and not (lists and program.output == DYN):
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.output}")
    return CompiledSelector(program)


def _fields(lists: bool) -> Mapping[str, Type]:
    value = DYN if lists else ANY
    return {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, value)),
        "capacity": map_of(STRING, map_of(STRING, parse_type("kubernetes.Quantity"))),
    }


def _boolean(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    name = type_name(value)
    why = _CONVERSIONS.get(name, f"type conversion error from '{name}' to 'bool'")
    raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {why}")


_CONVERSIONS = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
}
"""How upstream says that a value of a type is no bool."""


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: DeviceAttribute, lists: bool) -> object:
    try:
        return _value(attribute, lists)
    except ValueError as error:
        raise EvaluationError(f"attribute {name}: {error}") from None


def _value(attribute: DeviceAttribute, lists: bool) -> object:
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


def _version(text: str) -> object:
    try:
        return to_version(text)
    except CelError as error:
        raise ValueError(f"parse semantic version: {error}") from None
