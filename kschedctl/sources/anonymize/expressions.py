"""Anonymization of CEL expressions that select devices: comments are removed and strings become pseudonyms.

A string with which an expression computes (a prefix, a regular expression, a concatenation) cannot be replaced. Such an
expression keeps its strings, and the attributes that it mentions keep their values. Other expressions that mention
these attributes keep their strings as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kschedctl.api.objects import DeviceAttribute, DeviceSelector
from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.helper.csi_migration import PLUGINS
from kschedctl.sources.anonymize.kept_texts import is_well_known_domain

MAX_EXPRESSION_LENGTH = 10 << 10
"""Maximum length in characters: CELSelectorExpressionMaxLength in staging/src/k8s.io/api/resource/v1/types.go
(v1.36).
"""
IN_TREE = "kubernetes.io/"
KNOWN_DRIVERS = frozenset(plugin.driver for plugin in PLUGINS)
"""CSI drivers that replace in-tree plugins. They are well known, and the scheduler has their names."""

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<prefix>(?<!\w)[rRbB]{1,2})?"
    r"(?P<literal>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
# The following patterns look at the text right before or after a literal.
_BEFORE_ARGUMENT = re.compile(r"\b(?:quantity|isQuantity|semver|isSemver)\(\s*\Z")
_BEFORE_INDEX = re.compile(r"(?:(?P<word>\w+)|[)\]])\s*\[\s*\Z")
_AFTER_SEARCHED_KEY = re.compile(r"\s*in\s+device\s*\.\s*\w+\s*\[[^\]]*\](?!\s*[.\[])")
_LOOKBEHIND_LENGTH = 100  # characters before a literal that are searched, so that long expressions stay fast
_CALL = re.compile(r"(\w+)\s*\(")
_SAFE_FUNCTIONS = frozenset(
    {
        *("quantity", "isQuantity", "sign", "asInteger", "add", "sub", "isGreaterThan", "isLessThan", "compareTo"),
        *("semver", "isSemver", "major", "minor", "patch"),
        *("has", "all", "exists", "exists_one", "filter", "map", "bind", "in"),
        *("optional", "of", "none", "or", "orValue", "hasValue", "value"),
    }
)
"""Functions whose result does not depend on pseudonyms. All others may compute with texts."""
_COMPUTES = re.compile(r"\+|[<>]=?\s*\0|\0\s*[<>]|(?<!\0)\s+in\s+device\b|\0\s*in\s+(?!device\b|\[)|\]\s*\[(?!\s*\0)")
"""Matches an expression whose texts, each replaced by a NUL, are concatenated, ordered or searched for."""
_COMPUTES_DRIVER = re.compile(r"\bdevice\.driver\s*[.+<>]|(?:[+<>]=?|\w\()\s*device\.driver")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Expressions:
    """Facts about a cluster's CEL expressions that decide what may be replaced."""

    drivers: frozenset[str]
    """The device drivers and the domains of their devices' attributes."""
    keeps_drivers: bool
    """True if an expression computes with drivers, so that they keep their names."""
    kept_attributes: frozenset[str]
    """The names, without domain, of attributes that keep their values because expressions compute with them."""
    kept_expressions: frozenset[str]
    """The expressions that keep their strings."""

    @classmethod
    def from_cluster(cls, cluster: Cluster) -> Expressions:
        """Determine which expressions, attributes and drivers in a cluster have to keep their strings."""
        expressions = {
            selector.cel.expression for selector in _iter_selectors(cluster) if selector.cel and selector.cel.expression
        }
        attributes = frozenset(get_local_name(key) for key in _iter_qualified_names(cluster))
        kept_expressions = {expression for expression in expressions if computes_with_strings(expression)}
        kept_attributes = _find_mentioned_names(kept_expressions, attributes)

        # Expressions that mention a kept attribute also keep their strings, and so the other attributes in them
        while True:
            dependent = {
                expression
                for expression in expressions - kept_expressions
                if _find_mentioned_names({expression}, kept_attributes)
            }
            if not dependent:
                break
            kept_expressions |= dependent
            kept_attributes |= _find_mentioned_names(dependent, attributes)

        keeps_drivers = any(map(_COMPUTES_DRIVER.search, expressions))
        drivers = frozenset(_iter_drivers_and_domains(cluster)) - {""}
        return cls(drivers, keeps_drivers, kept_attributes, frozenset(kept_expressions))

    def replace_driver(self, text: str, replace_name: Callable[[str], str]) -> str:
        """Return ``replace_name(text)`` if the text is a driver and drivers may be replaced, or else the text."""
        return replace_name(text) if text in self.drivers and not self.keeps_drivers else text

    def replace_qualified_name(self, text: str, replace_name: Callable[[str], str]) -> str:
        """Replace the domain in the name of an attribute, ``domain/attribute``, if it belongs to drivers."""
        domain, slash, attribute = text.partition("/")
        return f"{self.replace_driver(domain, replace_name)}{slash}{attribute}"

    def rewrite_expression(self, text: str, replace_name: Callable[[str], str]) -> str:
        """Remove an expression's comments, and replace its string literals unless they have to be kept.

        An expression that is longer than the API accepts is replaced entirely.
        """
        if len(text) > MAX_EXPRESSION_LENGTH:
            return replace_name(text)
        keeps_texts = text in self.kept_expressions

        def rewrite_token(match: re.Match[str]) -> str:
            """Return the replacement of a comment, which is empty, or of a string literal."""
            if match["comment"]:
                return ""
            quote_length = 3 if match["literal"].startswith(('"""', "'''")) else 1
            quote = match["literal"][:quote_length]
            value = match["literal"][quote_length:-quote_length]
            if self._is_literal_kept(match, value, keeps_texts):
                return match[0]
            return f"{match['prefix'] or ''}{quote}{replace_name(value)}{quote}"

        return _TOKEN.sub(rewrite_token, text)

    def _is_literal_kept(self, match: re.Match[str], value: str, keeps_texts: bool) -> bool:
        """Return whether a string literal in an expression is kept.

        The name of a driver is kept only if drivers keep their names. All other literals are kept if ``keeps_texts`` is
        true. Well-known domains, quantities, versions and attribute names are always kept.
        """
        if value in self.drivers:
            return self.keeps_drivers
        if keeps_texts or is_well_known_domain(value):
            return True

        # The text around the literal shows whether it is a quantity, a version or the name of an attribute
        expression = match.string
        start = match.start()
        search_start = max(start - _LOOKBEHIND_LENGTH, 0)
        if _BEFORE_ARGUMENT.search(expression, search_start, start):
            return True
        if _AFTER_SEARCHED_KEY.match(expression, match.end()):
            return True

        # The second index in ``attributes["domain"]["name"]`` is the name of an attribute. ``in ["text"]`` is a list.
        index_match = _BEFORE_INDEX.search(expression, search_start, start)
        return index_match is not None and index_match["word"] not in ("in", "attributes", "capacity")

    def replace_attribute_strings(
        self, key: str, value: DeviceAttribute, replace_name: Callable[[str], str]
    ) -> DeviceAttribute:
        """Replace the strings in the value of an attribute unless an expression computes with the attribute."""
        if get_local_name(key) in self.kept_attributes:
            return value
        string = None if value.string is None else replace_name(value.string)
        strings = None if value.strings is None else tuple(map(replace_name, value.strings))
        return DeviceAttribute(
            value.int_,
            value.bool_,
            string,
            version=value.version,
            ints=value.ints,
            bools=value.bools,
            strings=strings,
            versions=value.versions,
        )


def computes_with_strings(text: str) -> bool:
    """Return whether an expression does anything with strings other than compare them.

    This is also assumed of expressions that cannot be analyzed, because they are too long or have raw or escaped
    strings.

    >>> computes_with_strings("device.attributes['a'].model == 'A100'")
    False
    >>> computes_with_strings("device.attributes['a'].model.startsWith('A')")
    True
    """
    if len(text) > MAX_EXPRESSION_LENGTH:
        return True
    tokens = list(_TOKEN.finditer(text))
    if any(match["prefix"] or "\\" in match["literal"] for match in tokens if match["literal"]):
        return True
    # Mask the literals, so that only the code around them is searched
    masked_text = _TOKEN.sub(lambda match: "" if match["comment"] else "\0", text)
    called_functions = set(_CALL.findall(masked_text))
    calls_unsafe_function = not called_functions <= _SAFE_FUNCTIONS
    return calls_unsafe_function or bool(_COMPUTES.search(masked_text))


def is_known_driver(text: str) -> bool:
    """Return whether the driver is an in-tree plugin or the CSI driver that replaced one."""
    return text in KNOWN_DRIVERS or text.startswith(IN_TREE)


def get_local_name(key: str) -> str:
    """Return the name of an attribute without its domain."""
    return key.rpartition("/")[2]


def _find_mentioned_names(texts: set[str], names: frozenset[str]) -> frozenset[str]:
    """Return the names that occur as words in any of the texts."""
    return names & {word for text in texts for word in _WORD.findall(text)}


def _iter_qualified_names(cluster: Cluster) -> Iterator[str]:
    """Yield the names of all attributes and capacities of devices, with their domains."""
    for device in (device for resource_slice in cluster.resource_slices for device in resource_slice.spec.devices):
        yield from device.attributes
        yield from device.capacity


def _iter_drivers_and_domains(cluster: Cluster) -> Iterator[str]:
    """Yield the names of device drivers, and the domains of attributes and capacities that are not well known."""
    yield from (resource_slice.spec.driver for resource_slice in cluster.resource_slices)
    domains = (name.rpartition("/")[0] for name in _iter_qualified_names(cluster))
    yield from (domain for domain in domains if not is_well_known_domain(domain))
    for claim in cluster.resource_claims:
        yield from (device.driver for device in claim.status.devices)
        if claim.status.allocation:
            yield from (result.driver for result in claim.status.allocation.devices.results)
    for rule in cluster.device_taint_rules:
        if rule.spec.device_selector and rule.spec.device_selector.driver:
            yield rule.spec.device_selector.driver


def _iter_selectors(cluster: Cluster) -> Iterator[DeviceSelector]:
    """Yield all CEL selectors of device classes, claims and claim templates."""
    for device_class in cluster.device_classes:
        yield from device_class.spec.selectors
    specs = [claim.spec for claim in cluster.resource_claims] + [
        template.spec.spec for template in cluster.resource_claim_templates
    ]
    for spec in specs:
        for request in spec.devices.requests:
            if request.exactly:
                yield from request.exactly.selectors
            for alternative in request.first_available:
                yield from alternative.selectors
