"""CEL expressions that choose devices: the texts in them that are pseudonyms elsewhere become the same pseudonyms.

What an expression computes with (a prefix, a regular expression, a concatenation) cannot be replaced: the attributes
that such an expression mentions keep their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kschedctl.api.objects import DeviceAttribute, DeviceSelector
from kschedctl.cluster import Cluster
from kschedctl.scheduler.volumes.csi_migration import PLUGINS

IN_TREE = "kubernetes.io/"
KNOWN_DRIVERS = frozenset(plugin.driver for plugin in PLUGINS)
"""CSI drivers that stand for in-tree plugins: everybody has them, and the scheduler knows their names."""

_LITERAL = re.compile(
    r"""(\b(?:quantity|isQuantity|semver|isSemver)\(\s*)?(?<!\w)(r?)("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
)
_COMPUTES = re.compile(
    r"\.(?:startsWith|endsWith|contains|matches|lowerAscii|upperAscii|trim|split|substring|replace|indexOf|charAt"
    r"|lastIndexOf|join|find|findAll|format|size|reverse)\s*\(|\bsize\s*\(|\+|\bstring\s*\("
    r"""|[<>]=?\s*["']|["']\s*[<>]"""
)
_COMPUTES_DRIVER = re.compile(r"\bdevice\.driver\s*[.+<>]|[+<>(]=?\s*device\.driver")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Expressions:
    """``drivers``: those of devices, none when an expression computes with their names, as then they stay.

    ``computed``: the attributes, less their domains, that keep their values; ``values``: those of the others.
    """

    drivers: frozenset[str]
    computed: frozenset[str]
    values: frozenset[str]

    @classmethod
    def of(cls, cluster: Cluster) -> Expressions:
        texts = [text for selector in _selectors(cluster) if selector.cel and (text := selector.cel.expression)]
        drivers = frozenset(_drivers(cluster)) if not any(map(_COMPUTES_DRIVER.search, texts)) else frozenset[str]()
        computing = " ".join(text for text in texts if _COMPUTES.search(text))
        computed = frozenset(_WORD.findall(computing))
        attributes = [pair for s in cluster.resource_slices for d in s.spec.devices for pair in d.attributes.items()]
        values = (value for key, a in attributes if local(key) not in computed for value in _texts(a))
        return cls(drivers - {""}, computed, frozenset(values))

    def driver(self, text: str, name: Callable[[str], str]) -> str:
        """The pseudonym of a driver, if it gets one."""
        return name(text) if text in self.drivers else text

    def qualified(self, text: str, name: Callable[[str], str]) -> str:
        """``domain/attribute``; the domain is a driver, or one that many drivers share and that stays."""
        domain, slash, rest = text.partition("/")
        return f"{self.driver(domain, name)}{slash}{rest}"

    def expression(self, text: str, name: Callable[[str], str]) -> str:
        """The expression with the values of attributes and the drivers in it replaced."""

        def literal(match: re.Match[str]) -> str:
            call, raw, quoted = match[1] or "", match[2], match[3]
            value, quote = quoted[1:-1], quoted[0]
            if call or "\\" in value or value not in self.values | self.drivers:
                return match[0]
            return f"{call}{raw}{quote}{name(value)}{quote}"

        return _LITERAL.sub(literal, text)

    def attribute(self, key: str, value: DeviceAttribute, name: Callable[[str], str]) -> DeviceAttribute:
        """The value under a pseudonym, if it is a text that no expression computes with."""
        if local(key) in self.computed:
            return value
        string = None if value.string is None else name(value.string)
        strings = None if value.strings is None else tuple(map(name, value.strings))
        return DeviceAttribute(
            value.int_, value.bool_, string, value.version, value.ints, value.bools, strings, value.versions
        )


def is_known_driver(text: str) -> bool:
    """Whether it is an in-tree plugin, or the CSI driver of one."""
    return text in KNOWN_DRIVERS or text.startswith(IN_TREE)


def local(key: str) -> str:
    """The name of an attribute without its domain."""
    return key.rpartition("/")[2]


def _texts(attribute: DeviceAttribute) -> tuple[str, ...]:
    return (*((attribute.string,) if attribute.string else ()), *(attribute.strings or ()))


def _drivers(cluster: Cluster) -> Iterator[str]:
    yield from (s.spec.driver for s in cluster.resource_slices)
    for claim in cluster.resource_claims:
        yield from (device.driver for device in claim.status.devices)
        if claim.status.allocation:
            yield from (result.driver for result in claim.status.allocation.devices.results)
    for rule in cluster.device_taint_rules:
        if rule.spec.device_selector and rule.spec.device_selector.driver:
            yield rule.spec.device_selector.driver


def _selectors(cluster: Cluster) -> Iterator[DeviceSelector]:
    for device_class in cluster.device_classes:
        yield from device_class.spec.selectors
    specs = [claim.spec for claim in cluster.resource_claims] + [t.spec.spec for t in cluster.resource_claim_templates]
    for request in (request for spec in specs for request in spec.devices.requests):
        if request.exactly:
            yield from request.exactly.selectors
        for alternative in request.first_available:
            yield from alternative.selectors
