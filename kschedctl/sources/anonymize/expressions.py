"""CEL expressions that choose devices: comments go, and the texts in them become the pseudonyms of what they name.

What an expression computes with (a prefix, a regular expression, a concatenation) cannot be replaced. It keeps its
texts, and the attributes that it mentions keep their values; an expression that compares these keeps its own, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kschedctl.api.objects import DeviceAttribute, DeviceSelector
from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import PLUGINS
from kschedctl.sources.anonymize.keys import is_well_known_domain

LONGEST = 10 << 10
"""Characters: CELSelectorExpressionMaxLength in staging/src/k8s.io/api/resource/v1/types.go (v1.36)."""
IN_TREE = "kubernetes.io/"
KNOWN_DRIVERS = frozenset(plugin.driver for plugin in PLUGINS)
"""CSI drivers that stand for in-tree plugins: everybody has them, and the scheduler knows their names."""

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<prefix>(?<!\w)[rRbB]{1,2})?"
    r"(?P<literal>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
_ARGUMENT = re.compile(r"\b(?:quantity|isQuantity|semver|isSemver)\(\s*\Z")
_INDEXED = re.compile(r"(?:(?P<word>\w+)|[)\]])\s*\[\s*\Z")
_SOUGHT = re.compile(r"\s*in\s+device\s*\.\s*\w+\s*\[[^\]]*\](?!\s*[.\[])")
_NEAR = 100  # characters: what stands right before a text
_CALL = re.compile(r"(\w+)\s*\(")
_HARMLESS = frozenset(
    {
        *("quantity", "isQuantity", "sign", "asInteger", "add", "sub", "isGreaterThan", "isLessThan", "compareTo"),
        *("semver", "isSemver", "major", "minor", "patch"),
        *("has", "all", "exists", "exists_one", "filter", "map", "bind", "in"),
        *("optional", "of", "none", "or", "orValue", "hasValue", "value"),
    }
)
"""The calls that give the same for pseudonyms: all others compute with texts, or may."""
_COMPUTES = re.compile(r"\+|[<>]=?\s*\0|\0\s*[<>]|(?<!\0)\s+in\s+device\b|\0\s*in\s+(?!device\b|\[)|\]\s*\[(?!\s*\0)")
"""With every text as a NUL: concatenated, or compared in order, or sought in what may be attributes or texts."""
_COMPUTES_DRIVER = re.compile(r"\bdevice\.driver\s*[.+<>]|(?:[+<>]=?|\w\()\s*device\.driver")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Expressions:
    """``drivers``: those of devices and the domains of what these have; they get pseudonyms unless an expression
    computes with them (``drivers_stay``). ``computed``: the attributes, less their domains, that keep their values.
    ``open``: the expressions that keep their texts.
    """

    drivers: frozenset[str]
    drivers_stay: bool
    computed: frozenset[str]
    open: frozenset[str]

    @classmethod
    def of(cls, cluster: Cluster) -> Expressions:
        texts = {s.cel.expression for s in _selectors(cluster) if s.cel and s.cel.expression}
        names = frozenset(local(key) for key in _qualified_names(cluster))
        computing = {text for text in texts if computes(text)}
        computed = _mentioned(computing, names)
        while more := {text for text in texts - computing if _mentioned({text}, computed)}:
            computing |= more
            computed |= _mentioned(more, names)
        drivers_stay = any(map(_COMPUTES_DRIVER.search, texts))
        return cls(frozenset(_drivers(cluster)) - {""}, drivers_stay, computed, frozenset(computing))

    def driver(self, text: str, name: Callable[[str], str]) -> str:
        """The pseudonym of a driver, if it gets one."""
        return name(text) if text in self.drivers and not self.drivers_stay else text

    def qualified(self, text: str, name: Callable[[str], str]) -> str:
        """``domain/attribute``; the domain is a driver, or one that many drivers share."""
        domain, slash, rest = text.partition("/")
        return f"{self.driver(domain, name)}{slash}{rest}"

    def expression(self, text: str, name: Callable[[str], str]) -> str:
        """The expression without comments, and with what names something replaced."""
        if len(text) > LONGEST:  # the API takes no such
            return name(text)
        is_open = text in self.open

        def token(match: re.Match[str]) -> str:
            if match["comment"]:
                return ""
            quotes = 3 if match["literal"].startswith(('"""', "'''")) else 1
            quote, value = match["literal"][:quotes], match["literal"][quotes:-quotes]
            if self._stays(match, value, is_open):
                return match[0]
            return f"{match['prefix'] or ''}{quote}{name(value)}{quote}"

        return _TOKEN.sub(token, text)

    def _stays(self, match: re.Match[str], value: str, is_open: bool) -> bool:
        text, start = match.string, match.start()
        if value in self.drivers or is_well_known_domain(value):
            return self.drivers_stay or value not in self.drivers
        if is_open or _ARGUMENT.search(text, max(start - _NEAR, 0), start) or _SOUGHT.match(text, match.end()):
            return True
        indexed = _INDEXED.search(text, max(start - _NEAR, 0), start)
        return indexed is not None and indexed["word"] not in ("in", "attributes", "capacity")

    def attribute(self, key: str, value: DeviceAttribute, name: Callable[[str], str]) -> DeviceAttribute:
        """The value under a pseudonym, if it is a text that no expression computes with."""
        if local(key) in self.computed:
            return value
        string = None if value.string is None else name(value.string)
        strings = None if value.strings is None else tuple(map(name, value.strings))
        return DeviceAttribute(
            value.int_, value.bool_, string, value.version, value.ints, value.bools, strings, value.versions
        )


def computes(text: str) -> bool:
    """Whether an expression does more with its texts than to compare them, or has some that are not read here.

    >>> computes("device.attributes['a'].model == 'A100'"), computes("device.attributes['a'].model.startsWith('A')")
    (False, True)
    """
    if len(text) > LONGEST:
        return True
    tokens = list(_TOKEN.finditer(text))
    if any(match["prefix"] or "\\" in match["literal"] for match in tokens if match["literal"]):
        return True
    bare = _TOKEN.sub(lambda match: "" if match["comment"] else "\0", text)
    return bool(_COMPUTES.search(bare)) or not {*_CALL.findall(bare)} <= _HARMLESS


def is_known_driver(text: str) -> bool:
    """Whether it is an in-tree plugin, or the CSI driver of one."""
    return text in KNOWN_DRIVERS or text.startswith(IN_TREE)


def local(key: str) -> str:
    """The name of an attribute without its domain."""
    return key.rpartition("/")[2]


def _mentioned(texts: set[str], names: frozenset[str]) -> frozenset[str]:
    return names & {word for text in texts for word in _WORD.findall(text)}


def _qualified_names(cluster: Cluster) -> Iterator[str]:
    for device in (device for s in cluster.resource_slices for device in s.spec.devices):
        yield from device.attributes
        yield from device.capacity


def _drivers(cluster: Cluster) -> Iterator[str]:
    yield from (s.spec.driver for s in cluster.resource_slices)
    domains = (name.rpartition("/")[0] for name in _qualified_names(cluster))
    yield from (domain for domain in domains if not is_well_known_domain(domain))
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
