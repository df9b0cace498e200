"""Named formats, such as ``format.dns1123Label().validate(x)``.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go and apimachinery/pkg/util/validation (v1.36), with
kube-openapi's strfmt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from kschedctl.api.labels import find_label_key_errors, find_label_value_errors
from kschedctl.api.validation.names import complete_prefix, validate_dns_label, validate_dns_subdomain
from kschedctl.cel.library import network
from kschedctl.cel.values import NONE, Opaque, Optional, Value

_Check = Callable[[str], list[str]]

_OLD_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_OLD_LABEL_ERROR = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_OLD_LABEL}')"
)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat:
    """A format, identified by its name."""

    name: str
    find_configuration_errors: _Check
    pattern_size: int
    """The size that counts for the cost of a validation."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _build_prefix_check(check: _Check) -> _Check:
    """Build a check for name prefixes, which may end with a dash."""
    return lambda text: check(complete_prefix(text))


def _check_dns1035_label(text: str) -> list[str]:
    """Return the errors of a text as a DNS-1035 label."""
    too_long = [] if len(text.encode()) <= 63 else ["must be no more than 63 characters"]
    return too_long if re.fullmatch(_OLD_LABEL, text) else [*too_long, _OLD_LABEL_ERROR]


def _check_label_key(text: str) -> list[str]:
    """Return the errors of a text as a label key."""
    return list(find_label_key_errors.__wrapped__(text))  # what expressions make up need not be remembered


def _check_label_value(text: str) -> list[str]:
    """Return the errors of a text as a label value."""
    return list(find_label_value_errors.__wrapped__(text))


def _find_uri_errors(text: str) -> list[str]:
    """Return Go's error for an invalid URI, or an empty list."""
    try:
        network.parse_request_url(text)
    except ValueError as error:
        return [f'parse "{text}": {error}']
    return []


def _build_format_check(valid: Callable[[str], bool], error: str) -> _Check:
    """Build a check that returns the error if a predicate is false."""
    return lambda text: [] if valid(text) else [error]


def _is_date(text: str) -> bool:
    """Return whether the text is a valid date in the form YYYY-MM-DD. Unlike in Python, the year may be 0000."""
    if not _DATE.fullmatch(text):
        return False
    if text.startswith("0000"):
        text = f"2000{text[4:]}"  # another leap year
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    """Return whether the text is a valid date and time, such as 2024-05-01T12:30:00Z, in upper or lower case."""
    day, separator, time = text.lower().partition("t")
    match = _TIME.fullmatch(time.partition("t")[0])  # like upstream, ignore the text after another T
    if not separator or match is None:
        return False
    # Texts of two digits compare like numbers.
    is_time_in_range = match["hour"] <= "23" and match["minute"] <= "59" and match["second"] <= "59"
    return is_time_in_range and _is_date(day)


FORMATS: Mapping[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", validate_dns_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", validate_dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _check_dns1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", _check_label_key, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _build_prefix_check(validate_dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _build_prefix_check(validate_dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _build_prefix_check(_check_dns1035_label), 30),
    "labelValue": NamedFormat("LabelValue", _check_label_value, 40),
    "uri": NamedFormat("URI", _find_uri_errors, 1103),
    "uuid": NamedFormat(
        "uuid", _build_format_check(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"), 81
    ),
    "byte": NamedFormat("byte", _build_format_check(lambda text: bool(_BASE64.fullmatch(text)), "invalid base64"), 84),
    "date": NamedFormat("date", _build_format_check(_is_date, "invalid date"), 83),
    "datetime": NamedFormat("datetime", _build_format_check(_is_datetime, "invalid datetime"), 83),
}


def _get_format(name: str) -> Opaque:
    """Return the named format as a value."""
    return Opaque("kubernetes.NamedFormat", FORMATS[name])


def _build_format_function(name: str) -> Callable[[], Opaque]:
    """Build the function of an expression that returns a named format."""
    return lambda: _get_format(name)


def validate_format(form: Opaque, text: str) -> Optional:
    """Return the errors of a text as an optional list.

    The list is missing if the text has the format.
    """
    errors = form.wrapped.find_configuration_errors(text)
    return Optional(errors) if errors else NONE


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "format.named(string) optional(kubernetes.NamedFormat)": lambda name: (
        Optional(_get_format(name)) if name in FORMATS else NONE
    ),
    "{kubernetes.NamedFormat}.validate(string) optional(list(string))": validate_format,
    **{f"format.{name}() kubernetes.NamedFormat": _build_format_function(name) for name in FORMATS},
}
