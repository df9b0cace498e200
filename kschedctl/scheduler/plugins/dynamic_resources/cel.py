"""CEL device selectors: compilation, evaluation and upstream's error messages.

Upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kschedctl.api.objects import Device, DeviceAttribute
from kschedctl.cel.compilation import compiler
from kschedctl.cel.errors import AbortedError, CelError, CompileError
from kschedctl.cel.library.quantities_and_versions import parse_cel_quantity, parse_version
from kschedctl.cel.types import ANY, BOOL, DYN, STRING, Type, map_of, parse_type
from kschedctl.cel.values import DefaultMap, Map, Value, get_type_name
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import CostAllowance

_DEVICE = "kubernetes.DRADevice"


class EvaluationError(ValueError):
    """The error of an expression that failed for a device. ``str()`` is the wording of cel-go."""


@dataclass(frozen=True)
class DeviceInput:
    """A device as CEL selectors see it. The value is a map, although the type checker treats it as an object."""

    device: Map

    @classmethod
    def from_device(cls, device: Device, driver: str, *, lists: bool) -> DeviceInput:
        """Build the input that selectors get for a device: driver, attributes, capacities and allowMultipleAllocations.

        Attributes and capacities are grouped by domain. ``lists`` allows attributes with several values. Raises
        EvaluationError for an attribute of an unsupported type.
        """
        attributes: dict[str, Map] = {}
        for name, attribute in device.attributes.items():
            domain, identifier = _split_name(name, driver)
            attributes.setdefault(domain, Map()).put(identifier, _convert_attribute(name, attribute, lists=lists))
        capacity: dict[str, Map] = {}
        for name, device_capacity in device.capacity.items():
            domain, identifier = _split_name(name, driver)
            capacity.setdefault(domain, Map()).put(identifier, parse_cel_quantity(str(device_capacity.value)))
        fields = {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": DefaultMap(attributes.items()),
            "capacity": DefaultMap(capacity.items()),
        }
        return cls(Map(fields.items()))


@dataclass(frozen=True)
class CompiledSelector:
    """A compiled CEL selector."""

    program: compiler.Program

    def matches(self, device: DeviceInput, allowance: CostAllowance | None = None) -> bool:
        """Return whether the selector matches the device, and subtract the cost of the evaluation from `allowance`.

        If `allowance` is None, the cost is not limited. Raises EvaluationError if the evaluation fails or if the
        allowance was already used up.
        """
        if allowance is not None and allowance.remaining < 0:
            raise EvaluationError("given up: the device selectors cost too much for all devices together")
        try:
            return _require_bool(self.program.evaluate(device.device))
        except (CelError, AbortedError) as error:
            raise EvaluationError(str(error)) from None
        finally:
            if allowance is not None:
                allowance.spend(self.program.cost + self.program.work)


@lru_cache(maxsize=1024)
def compile_selector(expression: str, lists: bool = False) -> CompiledSelector:
    """Compile the CEL expression of a device selector. ``lists`` allows attributes with several values.

    Raises CompileError for an invalid expression, and for an expression whose result cannot be a bool.
    """
    variables = {"device": parse_type(_DEVICE)}
    program = compiler.compile_expression(expression, variables, {_DEVICE: _build_field_types(lists)})
    allowed_outputs = (BOOL, ANY, DYN) if lists else (BOOL, ANY)
    if program.output not in allowed_outputs:
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.output}")
    return CompiledSelector(program)


def _build_field_types(lists: bool) -> Mapping[str, Type]:
    """Return the CEL types of the fields of the variable ``device``.

    If ``lists`` is True, an attribute's type is dyn instead of any, because it can have several values.
    """
    attribute_type = DYN if lists else ANY
    return {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, attribute_type)),
        "capacity": map_of(STRING, map_of(STRING, parse_type("kubernetes.Quantity"))),
    }


def _require_bool(value: Value) -> bool:
    """Return the result of a selector, which must be a bool.

    Raises EvaluationError, with upstream's wording, for a result of another type.
    """
    if isinstance(value, bool):
        return value
    name = get_type_name(value)
    reason = _CONVERSIONS.get(name, f"type conversion error from '{name}' to 'bool'")
    raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {reason}")


_CONVERSIONS = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
}
"""Upstream's error for a result that is not a bool, by its type."""


def _split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a name into domain and identifier. The default domain is the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _convert_attribute(name: str, attribute: DeviceAttribute, *, lists: bool) -> object:
    """Return the CEL value of the attribute called `name`. ``lists`` allows attributes with several values.

    Raises EvaluationError naming the attribute for an invalid version or an unsupported type.
    """
    try:
        return _convert_attribute_value(attribute, lists=lists)
    except ValueError as error:
        raise EvaluationError(f"attribute {name}: {error}") from None


def _convert_attribute_value(attribute: DeviceAttribute, *, lists: bool) -> object:
    """Return the CEL value of an attribute. It is a list if ``lists`` is True and the attribute has a list of values.

    Raises ValueError for an invalid version and for an attribute without a value of a supported type.
    """
    if lists:
        for values in (attribute.ints, attribute.bools, attribute.strings):
            if values is not None:
                return list(values)
        if attribute.versions is not None:
            return [_parse_version(text) for text in attribute.versions]
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    if attribute.version is None:
        raise ValueError("unsupported attribute value")
    return _parse_version(attribute.version)


def _parse_version(text: str) -> object:
    """Parse a semantic version into a CEL value. Raises ValueError if it is invalid."""
    try:
        return parse_version(text)
    except CelError as error:
        raise ValueError(f"parse semantic version: {error}") from None
