"""Validation of a pod's DNS configuration, sysctls and sources of environment variables.

Upstream: validatePodDNSConfig, validateSysctls and validateEnvVarValueFrom of pkg/apis/core/v1/validation (v1.36).
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

from kschedctl.admission.request import Writable
from kschedctl.api.field_errors import Path, ValidationErrors, duplicate, invalid, not_supported, required
from kschedctl.api.validation import names

MAX_NAMESERVERS, MAX_SEARCHES, MAX_SEARCH_CHARACTERS, MAX_SYSCTL_LENGTH = 3, 32, 2048, 253
SYSCTL_PATTERN = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
RESOURCES = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
SUBSCRIPTED = re.compile(r"(metadata\.(?:annotations|labels))\['([^']*)'\]")
LEADING_ZEROS = re.compile(r"\b0+(?=\d)")


def validate_dns_config(spec: Writable, path: Path) -> ValidationErrors:
    """Yield the errors in dnsConfig, which is required when dnsPolicy is None."""
    config, is_required = spec.get("dnsConfig"), spec["dnsPolicy"] == "None"
    if is_required and config is None:
        yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers: list[str] = (config or {}).get("nameservers") or []
    searches: list[str] = (config or {}).get("searches") or []
    if is_required and not servers:
        yield required((*path, "nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    if len(servers) > MAX_NAMESERVERS:
        yield invalid((*path, "nameservers"), servers, f"must not have more than {MAX_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        if not _is_ip_address(server):
            message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid((*path, "nameservers", index), server, message)
    if len(searches) > MAX_SEARCHES:
        yield invalid((*path, "searches"), searches, f"must not have more than {MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > MAX_SEARCH_CHARACTERS:
        message = f"must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid((*path, "searches"), searches, message)
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            yield required((*path, "options", index), "must not be empty")


def _is_ip_address(text: str) -> bool:
    """Return whether the text is an IP address. Like other old fields, this one accepts leading zeros."""
    with suppress(ValueError):
        ip_address(text if ":" in text else LEADING_ZEROS.sub("", text))
        return True
    return False


def validate_sysctls(context: Writable, path: Path) -> ValidationErrors:
    """Yield the errors in the sysctls of a pod's security context."""
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name, name_path = str(sysctl.get("name") or ""), (*path, index, "name")
        if not name:
            yield required(name_path)
        elif len(name) > MAX_SYSCTL_LENGTH or not re.fullmatch(SYSCTL_PATTERN, name):
            yield invalid(
                name_path, name, f"must have at most {MAX_SYSCTL_LENGTH} characters and match regex {SYSCTL_PATTERN}"
            )
        elif name in seen:
            yield duplicate(name_path, name)
        seen.add(name)


def validate_value_from(variable: Writable, path: Path) -> ValidationErrors:
    """Yield the errors in an environment variable's valueFrom, which must have exactly one source."""
    source = variable.get("valueFrom")
    if not isinstance(source, dict):
        return
    set_sources = [name for name in SOURCES if isinstance(source.get(name), dict)]
    for name in set_sources:
        yield from _validate_source(name, source[name], (*path, name))
    if not set_sources:
        *first_names, last_name = (f"`{name}`" for name in SOURCES)
        yield invalid(path, "", f"must specify one of: {', '.join(first_names)} or {last_name}")
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(set_sources) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _validate_source(kind: str, source: Writable, path: Path) -> ValidationErrors:
    """Yield the errors in one source of an environment variable."""
    match kind:
        case "fieldRef":
            yield from _validate_field_path(str(source.get("fieldPath") or ""), path)
        case "resourceFieldRef":
            resource = str(source.get("resource") or "")
            if not resource:
                yield required((*path, "resource"))
            elif resource not in RESOURCES and not resource.startswith(HUGE_PAGES):
                yield not_supported((*path, "resource"), resource, RESOURCES)
        case "configMapKeyRef" | "secretKeyRef":
            yield from names.validate_syntax(
                (*path, "name"), str(source.get("name") or ""), names.validate_dns_subdomain
            )
            if not source.get("key"):
                yield required((*path, "key"))


def _validate_field_path(field_path: str, path: Path) -> ValidationErrors:
    """Yield the errors in the path of a fieldRef."""
    if not field_path:
        yield required((*path, "fieldPath"))
    elif match := SUBSCRIPTED.fullmatch(field_path):
        text = match[2].lower() if match[1].endswith("annotations") else match[2]
        yield from names.validate_syntax(path, text, names.validate_qualified_name)
    elif field_path not in FIELDS and field_path != "spec.host":
        message = f"error converting fieldPath: field label not supported: {field_path}"
        yield invalid((*path, "fieldPath"), field_path, message)
