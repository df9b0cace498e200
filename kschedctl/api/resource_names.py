"""Names of resources, the kinds of resources that they stand for, and amounts as people read them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
STORAGE = "storage"
"""The resource that PersistentVolumeClaims request."""
HUGE_PAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
NATIVE_DOMAIN = "kubernetes.io/"
QUOTA_PREFIX = "requests."
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_PREFIX_LENGTH = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_qualified_name(name: str) -> bool:
    """Return whether a label key or resource name has the form ``[DNS-1123 subdomain/]name``.

    The name part has at most 63 characters.
    """
    prefix, slash, name_part = name.rpartition("/")
    if "/" in prefix:
        return False
    if slash and (len(prefix) > _MAX_PREFIX_LENGTH or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name_part) is not None


def is_native(name: str) -> bool:
    """Return whether the name has no domain or a domain under kubernetes.io."""
    return "/" not in name or NATIVE_DOMAIN in name


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Return whether the resource has a valid name with a domain outside Kubernetes, such as ``nvidia.com/gpu``."""
    return not is_native(name) and not name.startswith(QUOTA_PREFIX) and is_qualified_name(QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Return whether the scheduler counts the resource in addition to cpu, memory, ephemeral storage and pods."""
    return is_extended(name) or name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX)) or NATIVE_DOMAIN in name


def is_in_bytes(name: str) -> bool:
    """Return whether amounts of the resource are numbers of bytes."""
    return name in (MEMORY, EPHEMERAL_STORAGE, STORAGE) or name.startswith(HUGE_PAGES_PREFIX)


def is_counted(name: str) -> bool:
    """Return whether NodeResourcesFit considers the resource. Other names, such as ``gpu``, are silently ignored."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def is_pod_level(name: str) -> bool:
    """Return whether the resource may be requested for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def is_dra_extended(name: str) -> bool:
    """Return whether a DeviceClass may provide the resource, by its field or by its name."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def format_amount(name: str, amount: int) -> str:
    """Format an amount: whole CPUs or millicores, and bytes in the largest unit without a fraction.

    Bytes that are not a multiple of 1Ki are rounded to tenths of Mi, or are a plain number below 1Mi. Amounts of other
    resources are plain numbers.

    >>> format_amount("cpu", 1500), format_amount("memory", 3 << 29), format_amount("nvidia.com/gpu", 2)
    ('1500m', '1536Mi', '2')
    """
    if name == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if not is_in_bytes(name):
        return str(amount)
    for shift, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount and amount % (1 << shift) == 0:
            return f"{amount >> shift}{unit}"
    return f"{amount / (1 << 20):.1f}Mi" if amount >= 1 << 20 else str(amount)


class ComparableAmounts(NamedTuple):
    """Amounts of one resource, written as numbers with a common unit."""

    numbers: tuple[str, ...]
    unit: str

    @property
    def unit_suffix(self) -> str:
        """The short unit to append to a number that does not come first, such as " GiB"; empty unless it is of bytes.

        >>> format_amounts_for_sentence("memory", 1 << 30).unit_suffix
        ' GiB'
        >>> format_amounts_for_sentence("cpu", 1000).unit_suffix
        ''
        """
        byte_unit, separator, _ = self.unit.partition(" of ")
        return f" {byte_unit}" if separator else ""


def format_amounts_for_sentence(name: str, request: int, *compared: int) -> ComparableAmounts:
    """Format amounts in the unit that suits ``request``.

    CPUs and bytes have up to three digits, or more if different amounts would look equal. Amounts of other resources
    are whole numbers.

    >>> format_amounts_for_sentence("cpu", 6000, 2260, 7910), format_amounts_for_sentence("cpu", 1000, 0)
    (ComparableAmounts(numbers=('6', '2.26', '7.91'), unit='CPUs'), ComparableAmounts(numbers=('1', '0'), unit='CPU'))
    >>> format_amounts_for_sentence("memory", 16 << 30, (16 << 30) - (8 << 20))
    ComparableAmounts(numbers=('16', '15.99'), unit='GiB of memory')
    >>> format_amounts_for_sentence("nvidia.com/gpu", 4, 2)
    ComparableAmounts(numbers=('4', '2'), unit='nvidia.com/gpu')
    """
    amounts = (request, *compared)
    if name == CPU:
        return ComparableAmounts(_format_amounts_distinguishably(amounts, 1000), "CPU" if request == 1000 else "CPUs")
    if is_in_bytes(name):
        units = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))
        shift, unit = next((pair for pair in units if request >= 1 << pair[0]), (0, "bytes"))
        return ComparableAmounts(_format_amounts_distinguishably(amounts, 1 << shift), f"{unit} of {name}")
    return ComparableAmounts(tuple(f"{amount:,}" for amount in amounts), name)


def describe_amount(name: str, amount: int) -> str:
    """Describe an amount in a sentence.

    >>> describe_amount("cpu", 1500), describe_amount("memory", 1 << 30), describe_amount("nvidia.com/gpu", 2)
    ('1.5 CPUs', '1 GiB of memory', '2 nvidia.com/gpu')
    """
    (number,), unit = format_amounts_for_sentence(name, amount)
    return f"{number} {unit}"


def _format_amounts_distinguishably(amounts: tuple[int, ...], scale: int) -> tuple[str, ...]:
    """Divide the amounts by ``scale``, and round them to as few digits as distinguish them, but at least three."""

    def round_all(digits: int) -> tuple[str, ...]:
        """Return the divided amounts, rounded to this number of digits."""
        return tuple(round_to_digits(amount / scale, digits) for amount in amounts)

    for digits in range(3, _MOST_DIGITS):
        numbers = round_all(digits)
        if len(set(numbers)) == len(set(amounts)):
            return numbers
    return round_all(_MOST_DIGITS)


_MOST_DIGITS = 18
"""More digits than a float has."""


def round_to_digits(value: float, digits: int) -> str:
    """Round a value to a number of significant digits, but keep all digits before the decimal point."""
    whole_digits = len(str(int(value))) if value >= 1 else 0
    text = f"{value:,.{max(digits - whole_digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
