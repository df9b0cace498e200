"""Label selectors: parsing (``-l``), conversion from the API's LabelSelector, validation and matching.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go, pkg/api/validate/content/{kube,dns}.go and
pkg/apis/meta/v1/helpers.go (v1.36). Error texts are upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from kschedctl.api.field_errors import dump_go_json, quote_like_go
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.errors import InputError

if TYPE_CHECKING:
    from kschedctl.api.objects import LabelSelector

IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS = "in", "notin", "=", "==", "!="
GREATER_THAN, LESS_THAN, EXISTS, DOES_NOT_EXIST = "gt", "lt", "exists", "!"
BINARY_OPERATORS = (IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN)
OPERATORS = (*BINARY_OPERATORS, EXISTS, DOES_NOT_EXIST)
_API_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_SYMBOLS = {GREATER_THAN: ">", LESS_THAN: "<", IN: " in ", NOT_IN: " notin "}

MAX_NAME_LENGTH = 63
"""The length of the longest DNS label, label value, or name part of a label key."""
MAX_SUBDOMAIN_LENGTH = 253
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
_CHARACTERS = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NAME_ERROR = (
    f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_ERROR = (
    f"a valid label must be an empty string or {_CHARACTERS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
SUBDOMAIN_ERROR = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{DNS_SUBDOMAIN}')"
)
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")


class SelectorError(InputError, ValueError):
    """A selector that the API server or the scheduler would reject, with upstream's message."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label. ``build_requirement`` also validates."""

    key: str
    operator: str
    """One of OPERATORS."""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels satisfy the requirement.

        An absent label satisfies only ``!``, ``!=`` and ``notin``.
        """
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self.values
            case "notin" | "!=":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        # Only gt and lt remain, which compare integers.
        number = None if value is None else parse_int64(value)
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GREATER_THAN else number < bound

    def __str__(self) -> str:
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator == EXISTS:
            return self.key
        values = ",".join(sorted(self.values))
        if self.operator in (IN, NOT_IN):
            values = f"({values})"
        return f"{self.key}{_SYMBOLS.get(self.operator, self.operator)}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements, sorted by key."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False
    """True if the selector matches no labels at all."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.requirements, self.matches_nothing)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Selector], tuple[tuple[Requirement, ...], bool]]:
        return Selector, (self.requirements, self.matches_nothing)  # without the hash, which differs between processes

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels satisfy every requirement."""
        return not self.matches_nothing and all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def selects_everything(self) -> bool:
        """Return whether the selector matches all labels, because it has no requirements."""
        return not self.requirements and not self.matches_nothing

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that the selector reads."""
        return frozenset(requirement.key for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


def build_selector(requirements: Iterable[Requirement]) -> Selector:
    """Build the conjunction of the requirements."""
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def build_requirement(key: str, operator: str, values: Sequence[str] | None = (), path: str = "") -> Requirement:
    """Build a requirement. Raises SelectorError if the requirement is invalid.

    ``path`` is the field path of the requirement, which error messages contain.
    """
    if errors := validate_requirement(key, operator, values, path):
        raise SelectorError(format_aggregate(errors))
    return Requirement(key, operator, tuple(values or ()))


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """Build the selector of a map of labels, such as a pod's nodeSelector, without validation, as upstream does."""
    return build_selector(Requirement(key, EQUALS, (value,)) for key, value in labels.items())


def selector_from_api(label_selector: LabelSelector | None) -> Selector:
    """Build a selector from an API LabelSelector. Raises SelectorError if a requirement is invalid.

    None selects nothing, and an empty LabelSelector selects everything.
    """
    if label_selector is None:
        return NOTHING
    requirements = [
        build_requirement(key, EQUALS, (value,)) for key, value in sorted(label_selector.match_labels.items())
    ]
    for expression in label_selector.match_expressions:
        if expression.operator not in _API_OPERATORS:
            raise SelectorError(f"{quote_like_go(expression.operator)} is not a valid label selector operator")
        values = expression.values or None
        requirements.append(build_requirement(expression.key, _API_OPERATORS[expression.operator], values))
    return build_selector(requirements)


def validate_requirement(key: str, operator: str, values: Sequence[str] | None, path: str = "") -> list[str]:
    """Return a message for each error in a selector requirement.

    ``path`` is the field path of the requirement, with which each message begins.
    """
    errors = []
    values_path = join_path(path, "values")
    key_problems = "; ".join(find_label_key_errors(key))
    if key_problems:
        errors.append(format_invalid(join_path(path, "key"), key, key_problems))
    count_problem = _describe_value_count_error(operator, len(values or ()))
    if count_problem:
        errors.append(format_invalid(values_path, values, count_problem))
    if operator in (GREATER_THAN, LESS_THAN):
        problem = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            format_invalid(f"{values_path}[{i}]", value, problem)
            for i, value in enumerate(values or ())
            if parse_int64(value) is None
        ]
    if operator not in OPERATORS:
        errors.append(format_not_supported(join_path(path, "operator"), operator, OPERATORS))
    for i, value in enumerate(values or ()):
        value_problems = "; ".join(find_label_value_errors(value))
        if value_problems:
            errors.append(format_invalid(f"{values_path}[{i}][{key}]", value, value_problems))
    return errors


def _describe_value_count_error(operator: str, count: int) -> str:
    """Return the error in the number of values for an operator, or "" if the number is valid."""
    if operator in (IN, NOT_IN) and not count:
        return "for 'in', 'notin' operators, values set can't be empty"
    if operator in (EQUALS, DOUBLE_EQUALS, NOT_EQUALS) and count != 1:
        return "exact-match compatibility requires one single value"
    if operator in (EXISTS, DOES_NOT_EXIST) and count:
        return "values set must be empty for exists and does not exist"
    if operator in (GREATER_THAN, LESS_THAN) and count != 1:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return ""


@lru_cache(maxsize=65536)
def find_label_key_errors(key: str) -> tuple[str, ...]:
    """Return the reasons why a string is not a valid label key, or () if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_NAME_ERROR} {prefixed}",)
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        prefix_errors = _find_syntax_errors(prefix, MAX_SUBDOMAIN_LENGTH, DNS_SUBDOMAIN, SUBDOMAIN_ERROR)
        errors += [f"prefix part {error}" for error in prefix_errors]
    if not name:
        errors.append("name part must be non-empty")
    name_errors = _find_syntax_errors(name, MAX_NAME_LENGTH, _NAME, _NAME_ERROR)
    return (*errors, *(f"name part {error}" for error in name_errors))


@lru_cache(maxsize=65536)
def find_label_value_errors(value: str) -> tuple[str, ...]:
    """Return the reasons why a string is not a valid label value, or ()."""
    return _find_syntax_errors(value, MAX_NAME_LENGTH, _VALUE, _VALUE_ERROR)


def _find_syntax_errors(text: str, limit: int, pattern: str, error: str) -> tuple[str, ...]:
    """Return the syntax errors of a text, or () if it is valid.

    A text of more than ``limit`` bytes is too long. A text that does not match ``pattern`` has the error ``error``.
    """
    errors = []
    if len(text.encode()) > limit:
        errors.append(f"must be no more than {limit} bytes")
    if not re.fullmatch(pattern, text):
        errors.append(error)
    return tuple(errors)


def parse_int64(text: str) -> int | None:
    """Parse a string like Go's ParseInt(text, 10, 64). Return None if it is not an integer or exceeds an int64."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    number = int(sign + digits)
    return number if INT64_MIN <= number <= INT64_MAX else None


# -- field errors, as staging/src/k8s.io/apimachinery/pkg/util/validation/field words them -------------------------


def join_path(path: str, name: str) -> str:
    """Return the path of a field within the object at ``path``."""
    return f"{path}.{name}" if path else name


def format_invalid(path: str, value: str | Sequence[str] | None, problem: str) -> str:
    """Format an "Invalid value" error. An absent list is shown as null, as in Go."""
    shown_value = quote_like_go(value) if isinstance(value, str) else dump_go_json(value)
    return f"{path}: Invalid value: {shown_value}: {problem}"


def format_not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """Format an "Unsupported value" error."""
    supported_values = ", ".join(map(quote_like_go, supported))
    return f"{path}: Unsupported value: {dump_go_json(value)}: supported values: {supported_values}"


def format_aggregate(errors: Iterable[str]) -> str:
    """Join error messages without duplicates, in brackets if there are several."""
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


# -- the grammar of kubectl -l ------------------------------------------------------------------------------------


def parse_selector(text: str) -> Selector:
    """Parse a selector such as "x in (a,b),!y,z!=c". Raises SelectorError."""
    return build_selector(_Parser(text).parse())


class _Parser:
    """A parser that passes once over the tokens of a selector. An empty token marks the end."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [*_TOKEN.findall(text), ""]
        self.position = 0

    @property
    def token(self) -> str:
        """The token at the current position."""
        return self.tokens[self.position]

    def next(self) -> str:
        """Return the current token and advance to the next one."""
        self.position += 1
        return self.tokens[self.position - 1]

    def parse(self) -> list[Requirement]:
        """Parse the whole selector into its requirements. Raises SelectorError if the selector is malformed."""
        requirements: list[Requirement] = []
        if self.token and not self.starts_requirement():
            raise SelectorError(f"found '{self.token}', expected: !, identifier, or 'end of string'")
        while self.token:
            try:
                requirements.append(self.parse_requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            separator = self.next()
            if separator not in ("", ","):
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            if separator and not self.starts_requirement():
                raise SelectorError(f"found '{self.token}', expected: identifier after ','")
            if not separator:
                break
        return requirements

    def starts_requirement(self) -> bool:
        """Return whether the current token can begin a requirement."""
        return self.token == "!" or _is_identifier(self.token)

    def parse_requirement(self) -> Requirement:
        """Parse a requirement such as ``a``, ``!a``, ``a=b`` or ``a in (b, c)``.

        Raises SelectorError if the requirement is malformed.
        """
        is_negated = self.token == "!"
        if is_negated:
            self.position += 1
        key = self.next()
        if not _is_identifier(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if problem := "; ".join(find_label_key_errors(key)):
            raise SelectorError(format_invalid("<nil>", key, problem))
        if is_negated or self.token in ("", ","):
            return build_requirement(key, DOES_NOT_EXIST if is_negated else EXISTS)
        # The operators of ">" and "<" are called gt and lt, but these words are no operators in a selector
        operator = {">": GREATER_THAN, "<": LESS_THAN}.get(self.token, self.token)
        if operator not in BINARY_OPERATORS or self.token in (GREATER_THAN, LESS_THAN):
            raise SelectorError(f"found '{self.token}', expected: {', '.join(BINARY_OPERATORS)}")
        self.position += 1
        values = self.parse_values() if operator in (IN, NOT_IN) else {self.parse_value()}
        return build_requirement(key, operator, sorted(values))

    def parse_value(self) -> str:
        """Parse the value after an operator. An absent value is "".

        Raises SelectorError if the next token is not an identifier.
        """
        if self.token in ("", ","):
            return ""
        value = self.next()
        if not _is_identifier(value):
            raise SelectorError(f"found '{value}', expected: identifier")
        return value

    def parse_values(self) -> set[str]:
        """Parse a list of values in parentheses, in which a value may be empty.

        Raises SelectorError if the list is malformed.
        """
        opening = self.next()
        if opening != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        if self.token not in (")", ",") and not _is_identifier(self.token):
            raise SelectorError(f"found '{self.token}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while (token := self.next()) != ")":
            if _is_identifier(token):
                values.add(token)
                if self.token not in (",", ")"):
                    raise SelectorError(f"found '{self.token}', expected: ',' or ')'")
            elif token != ",":
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            elif not values or self.token in (",", ")"):
                values.add("")  # a comma with nothing before or after it
        return values or {""}


def _is_identifier(token: str) -> bool:
    """Return whether the token is a key or value, not an operator or separator."""
    return token != "" and token[0] not in "=!(),<>"
