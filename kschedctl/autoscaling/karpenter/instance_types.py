"""Instance types and offerings of a cloud, read from the format of kwok's instance_types.json.

Upstream: kwok/cloudprovider/helpers.go, pkg/cloudprovider/types.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Resources, SelectorRequirement, Struct
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.autoscaling.karpenter.amounts import PODS, ZERO, subtract_quantities, sum_quantities
from kschedctl.autoscaling.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    CPU,
    FAMILY,
    INSTANCE_TYPE,
    INSTANCE_TYPE_PREFIXES,
    MEMORY,
    OS,
    RESERVATION_ID,
    SIZE,
    WELL_KNOWN,
    ZONE,
)
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.errors import InputError

DEFAULT_OVERHEAD: Resources = {"cpu": "100m", "memory": "10Mi"}
DEFAULT_PODS = parse_quantity("110")
_HUGE_PAGES = "hugepages-"
_SIZED = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")


class OfferingDocument(Struct, frozen=True, rename="pascal"):
    """An offering of an instance type, as it appears in the file."""

    price: float = 0.0
    available: bool = True
    reservation_capacity: int = 0
    requirements: tuple[SelectorRequirement, ...] = ()


class InstanceTypeDocument(Struct, frozen=True):
    """An instance type, as it appears in the file."""

    name: str
    architecture: str = ""
    operating_systems: tuple[str, ...] = ()
    resources: Resources = {}
    offerings: tuple[OfferingDocument, ...] = ()
    requirements: tuple[SelectorRequirement, ...] = ()
    overhead: Resources | None = None
    """Resources that are not allocatable; None for the default."""


@dataclass(frozen=True, eq=False)
class Offering:
    """A zone and capacity type in which an instance type is offered, with its price."""

    requirements: Requirements
    price: float
    available: bool
    reservation_capacity: int = 0
    overlaid: bool = False
    """True if a NodeOverlay set its price."""

    @property
    def zone(self) -> str:
        """The zone, or "" for an offering without zones."""
        return self._choose_listed_value(ZONE)

    @property
    def capacity_type(self) -> str:
        """The capacity type, such as spot, or "" if it is unknown."""
        return self._choose_listed_value(CAPACITY_TYPE)

    @property
    def reservation(self) -> str:
        """The id of the capacity reservation, or "" if the offering is not reserved capacity."""
        return self._choose_listed_value(RESERVATION_ID)

    def _choose_listed_value(self, key: str) -> str:
        """Choose one of the values that the offering lists for a label, or return "" if it lists none."""
        requirement = self.requirements.get_requirement(key)
        return "" if requirement.complement else requirement.choose_value()


@dataclass(frozen=True, eq=False)
class InstanceType:
    """A machine type with its labels, offerings and resources."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Quantities
    overhead: Quantities
    overlaid: bool = False
    """True if a NodeOverlay added resources."""

    @property
    def allocatable(self) -> Quantities:
        """The capacity minus the overhead. Huge pages are also subtracted from the memory, which stays at least 0."""
        amounts = subtract_quantities(self.capacity, self.overhead)
        for name, amount in self.capacity.items():
            if name.startswith(_HUGE_PAGES):
                amounts["memory"] = max(amounts.get("memory", ZERO).sub(amount), ZERO)
        return amounts

    def with_capacity(self, added: Mapping[str, Quantity]) -> InstanceType:
        """Return the instance type with resources that NodeOverlays add, marked as overlaid."""
        return replace(self, capacity={**self.capacity, **added}, overlaid=True)


@dataclass(frozen=True)
class InstanceTypeCatalog:
    """All instance types of a cloud, with the labels that they make well known."""

    types: tuple[InstanceType, ...]
    well_known: frozenset[str]
    """Labels that pods may require although no pool defines them."""


def read_instance_types(documents: Sequence[JsonObject]) -> InstanceTypeCatalog:
    """Parse the instance types of a cloud and collect the labels that they make well known.

    Raises InputError if the format is wrong or two types have the same name.
    """
    types: dict[str, InstanceType] = {}
    for index, document in enumerate(documents):
        where = f"instanceTypes[{index}]"
        try:
            instance_type = _build_instance_type(convert_builtins(document, InstanceTypeDocument))
        except msgspec.ValidationError as error:
            raise InputError(str(error), where=where) from None
        except QuantityError as error:
            raise InputError(error.what, where=where, hint=error.hint) from None
        if instance_type.name in types:
            raise InputError(f'two instance types have the name "{instance_type.name}"', where=where)
        types[instance_type.name] = instance_type

    type_labels: set[str] = set()
    for instance_type in types.values():
        type_labels.update(key for key in instance_type.requirements if key.startswith(INSTANCE_TYPE_PREFIXES))
        for offering in instance_type.offerings:
            type_labels.update(offering.requirements)
    return InstanceTypeCatalog(tuple(types.values()), WELL_KNOWN | type_labels)


def _build_instance_type(document: InstanceTypeDocument) -> InstanceType:
    """Build an instance type from its document, with kwok's defaults for pods and overhead.

    Raises QuantityError if a quantity is malformed.
    """
    capacity = {PODS: DEFAULT_PODS, **parse_quantities(document.resources)}
    overhead = parse_quantities(DEFAULT_OVERHEAD if document.overhead is None else document.overhead)
    offerings = tuple(_build_offering(offering) for offering in document.offerings)
    return InstanceType(
        document.name,
        _build_type_requirements(document, capacity),
        offerings,
        capacity=capacity,
        overhead=sum_quantities(overhead),
    )


def _build_offering(document: OfferingDocument) -> Offering:
    """Build an offering from its document."""
    requirements = _build_document_requirements(document.requirements)
    return Offering(requirements, document.price, document.available, document.reservation_capacity)


def _build_document_requirements(expressions: Iterable[SelectorRequirement]) -> Requirements:
    """Build requirements from the label expressions of a document."""
    return Requirements.from_list(
        LabelRequirement.from_operator(expression.key, expression.operator, expression.values or ())
        for expression in expressions
    )


def _build_type_requirements(document: InstanceTypeDocument, capacity: Mapping[str, Quantity]) -> Requirements:
    """Build the requirements that describe a type: its name, platform, size, resources, zones and capacity types.

    The requirements that the type's document lists are included.
    """
    cpu = str(capacity["cpu"]) if "cpu" in capacity else ""
    memory = str(capacity["memory"]) if "memory" in capacity else ""
    labels = {
        INSTANCE_TYPE: (document.name,),
        ARCH: (document.architecture,),
        OS: document.operating_systems,
        ZONE: _collect_offered_values(document, ZONE),
        CAPACITY_TYPE: _collect_offered_values(document, CAPACITY_TYPE),
        SIZE: (_parse_type_size(document.name, cpu),),
        FAMILY: (_parse_type_family(document.name),),
        CPU: (cpu,),
        MEMORY: (memory,),
    }
    requirements = Requirements.from_list(
        LabelRequirement.from_operator(key, IN, values) for key, values in labels.items()
    )
    requirements.add(_build_document_requirements(document.requirements).values())
    return requirements


def _collect_offered_values(document: InstanceTypeDocument, key: str) -> list[str]:
    """Return the values of a label in all offerings of the type, with repetitions."""
    values: list[str] = []
    for offering in document.offerings:
        for expression in offering.requirements:
            if expression.key == key:
                values += expression.values or ()
    return values


def _parse_type_size(name: str, cpu: str) -> str:
    """Return the size in the type's name, such as "large" in "m5.large", or ``cpu`` if the name has no size."""
    match = _SIZED.fullmatch(name)
    return match[1] if match else cpu


def _parse_type_family(name: str) -> str:
    """Return the family in the type's name, such as "m5" in "m5.large", or the first letter if it has no family."""
    family, *size = re.split("[.-]", name, maxsplit=1)
    return family if size else name[:1]
