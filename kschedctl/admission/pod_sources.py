"""What plain validation has against a pod's name servers, kernel settings and sources of variables.

Upstream: validatePodDNSConfig, validateSysctls and validateEnvVarValueFrom of pkg/apis/core/v1/validation (v1.36).
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

from kschedctl.admission.request import Writable
from kschedctl.api.field_errors import Path, ValidationErrors, duplicate, invalid, not_supported, required
from kschedctl.api.validation import names

MOST_SERVERS, MOST_SEARCHES, MOST_CHARACTERS, MOST_OF_SYSCTL = 3, 32, 2048, 253
SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
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


def dns_config(spec: Writable, at: Path) -> ValidationErrors:
    """The name servers of a pod, which one without the cluster's has to have."""
    config, alone = spec.get("dnsConfig"), spec["dnsPolicy"] == "None"
    if alone and config is None:
        yield required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers: list[str] = (config or {}).get("nameservers") or []
    searches: list[str] = (config or {}).get("searches") or []
    if alone and not servers:
        yield required((*at, "nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    if len(servers) > MOST_SERVERS:
        yield invalid((*at, "nameservers"), servers, f"must not have more than {MOST_SERVERS} nameservers")
    for number, server in enumerate(servers):
        if not _is_address(server):
            said = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid((*at, "nameservers", number), server, said)
    if len(searches) > MOST_SEARCHES:
        yield invalid((*at, "searches"), searches, f"must not have more than {MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > MOST_CHARACTERS:
        said = f"must not have more than {MOST_CHARACTERS} characters (including spaces) in the search list"
        yield invalid((*at, "searches"), searches, said)
    for number, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            yield required((*at, "options", number), "must not be empty")


def _is_address(text: str) -> bool:
    """Fields as old as this one take numbers with zeros before them."""
    with suppress(ValueError):
        ip_address(text if ":" in text else LEADING_ZEROS.sub("", text))
        return True
    return False


def sysctls(context: Writable, at: Path) -> ValidationErrors:
    """The kernel settings of a pod's security context."""
    known: set[str] = set()
    for number, sysctl in enumerate(context.get("sysctls") or ()):
        name, where = str(sysctl.get("name") or ""), (*at, number, "name")
        if not name:
            yield required(where)
        elif len(name) > MOST_OF_SYSCTL or not re.fullmatch(SYSCTL, name):
            yield invalid(where, name, f"must have at most {MOST_OF_SYSCTL} characters and match regex {SYSCTL}")
        elif name in known:
            yield duplicate(where, name)
        known.add(name)


def value_from(variable: Writable, at: Path) -> ValidationErrors:
    """Where a variable's value comes from: one thing."""
    source = variable.get("valueFrom")
    if not isinstance(source, dict):
        return
    given = [name for name in SOURCES if isinstance(source.get(name), dict)]
    for name in given:
        yield from _source(name, source[name], (*at, name))
    if not given:
        *others, last = (f"`{name}`" for name in SOURCES)
        yield invalid(at, "", f"must specify one of: {', '.join(others)} or {last}")
    elif variable.get("value"):
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(at, "", "may not have more than one field specified at a time")


def _source(kind: str, source: Writable, at: Path) -> ValidationErrors:
    match kind:
        case "fieldRef":
            yield from _field(str(source.get("fieldPath") or ""), at)
        case "resourceFieldRef":
            resource = str(source.get("resource") or "")
            if not resource:
                yield required((*at, "resource"))
            elif resource not in RESOURCES and not resource.startswith(HUGE_PAGES):
                yield not_supported((*at, "resource"), resource, RESOURCES)
        case "configMapKeyRef" | "secretKeyRef":
            yield from names.validate_syntax((*at, "name"), str(source.get("name") or ""), names.validate_dns_subdomain)
            if not source.get("key"):
                yield required((*at, "key"))


def _field(path: str, at: Path) -> ValidationErrors:
    if not path:
        yield required((*at, "fieldPath"))
    elif match := SUBSCRIPTED.fullmatch(path):
        text = match[2].lower() if match[1].endswith("annotations") else match[2]
        yield from names.validate_syntax(at, text, names.validate_qualified_name)
    elif path not in FIELDS and path != "spec.host":
        said = f"error converting fieldPath: field label not supported: {path}"
        yield invalid((*at, "fieldPath"), path, said)
