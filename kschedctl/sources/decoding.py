"""Decoding of documents into structs, and checks of names and quantities, with errors that name the file and field.

Upstream: ValidatePathSegmentName in staging/src/k8s.io/apimachinery/pkg/api/validation/path (v1.36). Impossible
quantities are those that the snapshot cannot count (kschedctl/snapshot/pod_info.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, locate_mismatch
from kschedctl.api.json_values import JsonObject, drop_nulls, field_at
from kschedctl.api.objects import (
    CoschedulingPodGroup,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PodMeta,
    PodSpec,
    Resources,
    RuntimeClass,
    VolcanoPodGroup,
)
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import convert_to_amounts
from kschedctl.sources.documents.place import Place

T = TypeVar("T")
_MAX_SHOWN_LENGTH = 253
"""The number of characters of an invalid name that messages show."""
_encode = msgspec.msgpack.Encoder().encode


def decode_document(document: JsonObject, struct: type[T], place: Place) -> T:
    """Decode a document into the struct. Null fields count as absent.

    Raises InputError if a field has the wrong type, a text contains half of a surrogate pair, or an integer exceeds 64
    bits.
    """
    document = drop_nulls(document)
    try:
        obj = convert_builtins(document, struct)
        _encode(obj)  # fails if a text cannot be encoded as UTF-8
    except msgspec.ValidationError as error:
        raise _build_type_error(document, error, place) from None
    except UnicodeEncodeError:
        raise place.error("contains half of a surrogate pair, which is not valid text") from None
    except OverflowError:
        _validate_integers(document, place)  # raises the error for the integer that is too large
        raise
    _validate_integers(document, place)
    return obj


def _validate_integers(document: JsonObject, place: Place) -> None:
    """Raise InputError if an integer in the document has more than 64 bits."""
    path = _find_large_integer_path(document)
    if path is not None:
        raise place.error("number out of range", path.lstrip("."))


def _build_type_error(document: JsonObject, error: msgspec.ValidationError, place: Place) -> InputError:
    """Build the InputError for msgspec's error about a field, with the field's path.

    Numbers of more than 64 bits get the message "number out of range".
    """
    mismatch = locate_mismatch(document, error)
    message = mismatch.message[:1].lower() + mismatch.message[1:].replace("`", "").replace(" | null", "")
    is_out_of_range = message.startswith(("expected int <=", "expected int >="))
    is_large = message == "expected int, got float" and _is_large_integer(field_at(document, *mismatch.path))
    if is_out_of_range or is_large:
        message = "number out of range"
    return place.error(message, mismatch.text.lstrip("."))


def _is_large_integer(value: object) -> bool:
    """Return whether the value is a number of more than 64 bits, which YAML turns into a float."""
    return isinstance(value, int | float) and not -(2**63) <= value < 2**63


def _find_large_integer_path(value: object) -> str | None:
    """Return the path of the first integer of more than 64 bits, such as ``.spec.replicas``, or None.

    The path of a value that is itself such an integer is "".
    """
    if isinstance(value, int):
        return "" if _is_large_integer(value) else None
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(inner, str) and (path := _find_large_integer_path(inner)) is not None:
                return f".{key}{path}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if (path := _find_large_integer_path(inner)) is not None:
                return f"[{index}]{path}"
    return None


ResourcesByPath = Iterator[tuple[str, Resources]]
"""Pairs of the path of a field and the quantities in it."""


def validate_quantities(resources_by_path: ResourcesByPath, get_place: Callable[[], Place]) -> None:
    """Raise InputError for the first quantity that is invalid or too large."""
    for path, resources in resources_by_path:
        for name, text in resources.items():
            try:
                _validate_quantity(name, text)
            except QuantityError as error:
                step = f".{name}" if name.isidentifier() else f"[{name}]"
                raise get_place().error(error.what, path + step, hint=error.hint) from None


@lru_cache(maxsize=65536, typed=True)
def _validate_quantity(name: str, text: str | int | float) -> None:
    """Raise QuantityError if the quantity of a resource is invalid or too large. Valid quantities are cached."""
    convert_to_amounts(parse_quantities({name: text}))


def iter_pod_resources(spec: PodSpec) -> ResourcesByPath:
    """Yield the path and the quantities of each mapping with requests, limits or overhead of a pod."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}].resources.requests", container.resources.requests
            yield f"spec.{field}[{index}].resources.limits", container.resources.limits
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests
        yield "spec.resources.limits", spec.resources.limits
    yield "spec.overhead", spec.overhead


def _iter_node_resources(node: Node) -> ResourcesByPath:
    """Yield the path and the quantities of a node's allocatable resources and of its capacity."""
    yield "status.allocatable", node.status.allocatable
    yield "status.capacity", node.status.capacity


def _iter_claim_resources(claim: PersistentVolumeClaim) -> ResourcesByPath:
    """Yield the path and the quantities of the requests of a PersistentVolumeClaim."""
    yield "spec.resources.requests", claim.spec.resources.requests


def _iter_volume_resources(volume: PersistentVolume) -> ResourcesByPath:
    """Yield the path and the quantities of the capacity of a PersistentVolume."""
    yield "spec.capacity", volume.spec.capacity


def _iter_overhead_resources(runtime_class: RuntimeClass) -> ResourcesByPath:
    """Yield the path and the quantities of the overhead of a RuntimeClass."""
    if runtime_class.overhead is not None:
        yield "overhead.podFixed", runtime_class.overhead.pod_fixed


def _iter_min_resources(group: CoschedulingPodGroup | VolcanoPodGroup) -> ResourcesByPath:
    """Yield the path and the quantities of the minimum resources of a pod group."""
    yield "spec.minResources", group.spec.min_resources or {}


RESOURCE_FIELDS: dict[str, Callable[[Any], ResourcesByPath]] = {
    "Pod": lambda pod: iter_pod_resources(pod.spec),
    "Node": _iter_node_resources,
    "PersistentVolumeClaim": _iter_claim_resources,
    "PersistentVolume": _iter_volume_resources,
    "RuntimeClass": _iter_overhead_resources,
    "CoschedulingPodGroup": _iter_min_resources,
    "VolcanoPodGroup": _iter_min_resources,
}
"""Functions that yield the quantities of an object, by kind."""


def validate_names(meta: ObjectMeta | PodMeta, get_place: Callable[[], Place], *, may_be_generated: bool) -> None:
    """Raise InputError if an object has no name, or if its name or namespace contains a slash.

    If ``may_be_generated`` is true, an object with a generateName needs no name.
    """
    if not meta.name and not (may_be_generated and meta.generate_name):
        raise get_place().error("required", "metadata.name")
    for field, name in (("name", meta.name), ("namespace", meta.namespace)):
        if "/" in name:
            raise get_place().error(f'"{name[:_MAX_SHOWN_LENGTH]}" may not contain "/"', f"metadata.{field}")


def validate_stored_names(names: Iterable[str]) -> None:
    """Raise ValueError if a name or namespace in a snapshot contains a slash."""
    invalid_name = next((name for name in names if "/" in name), "")
    if invalid_name:
        raise ValueError(f'the name "{invalid_name[:_MAX_SHOWN_LENGTH]}" contains "/"')
