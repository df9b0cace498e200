"""Validation of the fields of a pod that scheduling never reads: probes, DNS, security contexts and others.

Upstream: ValidatePodSpec, validatePodDNSConfig, validateSysctls and validateEnvVarValueFrom of
pkg/apis/core/v1/validation/validation.go (v1.36). Errors are in its order as far as the fields are here.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.field_errors import (
    Key,
    Path,
    TypedString,
    ValidationErrors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.validation import names

INT32_MAX = 2**31 - 1
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
NON_NEGATIVE_FIELDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def validate_unscheduled_fields(request: AdmissionRequest) -> ValidationErrors:
    """Validate the fields of a pod that the scheduler does not read.

    Defaults must have been set.
    """
    spec = request.spec
    spec_path = ("spec",)

    # The static pod's annotation, and the containers
    mirror = request.annotations.get(MIRROR_ANNOTATION)
    if mirror is not None and not spec.get("nodeName"):
        annotation_path = ("metadata", "annotations", Key(MIRROR_ANNOTATION))
        yield invalid(annotation_path, mirror, "must set spec.nodeName if mirror pod annotation is set")
    for name, containers in (("containers", request.containers), ("initContainers", request.init_containers)):
        for index, container in enumerate(containers):
            yield from _validate_container(container, (*spec_path, name, index), spec)

    # The other fields
    if spec["dnsPolicy"] not in DNS_POLICIES:
        yield not_supported((*spec_path, "dnsPolicy"), TypedString(spec["dnsPolicy"]), DNS_POLICIES)
    yield from validate_dns_config(spec, (*spec_path, "dnsConfig"))
    yield from _validate_pod_security_context(spec, spec_path)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        gate_path = (*spec_path, "readinessGates", index, "conditionType")
        yield from names.validate_syntax(gate_path, str(gate.get("conditionType", "")), names.validate_qualified_name)
    yield from _validate_deadline(spec, spec_path)
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from names.validate_syntax((*spec_path, name), spec[name], names.validate_dns_label)
    if isinstance(spec.get("os"), dict):
        yield from _validate_operating_system(spec["os"], (*spec_path, "os"))
    if spec.get("ephemeralContainers"):
        yield forbidden((*spec_path, "ephemeralContainers"), "cannot be set on create")


def _validate_deadline(spec: Writable, path: Path) -> ValidationErrors:
    """Validate that activeDeadlineSeconds is a positive int32."""
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline <= INT32_MAX:
        yield invalid((*path, "activeDeadlineSeconds"), deadline, f"must be between 1 and {INT32_MAX}, inclusive")


def _validate_pod_security_context(spec: Writable, path: Path) -> ValidationErrors:
    """Validate the security context of a pod, and that shareProcessNamespace is not combined with hostPID."""
    context = spec.get("securityContext") or {}
    yield from _validate_user_and_group(context, (*path, "securityContext"))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        message = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid((*path, "shareProcessNamespace"), value=True, detail=message)
    yield from validate_sysctls(context, (*path, "securityContext", "sysctls"))


def _validate_user_and_group(context: Writable, path: Path) -> ValidationErrors:
    """Validate that runAsUser and runAsGroup of a security context are non-negative int32 numbers."""
    for name in ("runAsUser", "runAsGroup"):
        user_id = context.get(name)
        if isinstance(user_id, int) and not 0 <= user_id <= INT32_MAX:
            yield invalid((*path, name), user_id, f"must be between 0 and {INT32_MAX}, inclusive")


def _validate_operating_system(operating_system: Writable, path: Path) -> ValidationErrors:
    """Validate that a pod's ``os`` names Linux or Windows."""
    if not operating_system.get("name"):
        yield required((*path, "name"))
    elif operating_system["name"] not in ("linux", "windows"):
        yield not_supported(path, TypedString(operating_system["name"]), ("linux", "windows"))


def _validate_container(container: Writable, path: Path, spec: Writable) -> ValidationErrors:
    """Validate the fields of a container that the scheduler does not read. ``spec`` is the pod's spec."""
    lifecycle: Writable = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _validate_handler_action(lifecycle[hook] or {}, (*path, "lifecycle", hook))
    for probe in PROBES:
        if isinstance(container.get(probe), dict):
            yield from _validate_probe(container[probe], (*path, probe))
    if container["terminationMessagePolicy"] not in MESSAGE_POLICIES:
        field_path = (*path, "terminationMessagePolicy")
        yield not_supported(field_path, TypedString(container["terminationMessagePolicy"]), MESSAGE_POLICIES)
    for index, variable in enumerate(container.get("env") or ()):
        yield from _validate_env_var_name(str(variable.get("name", "")), (*path, "env", index, "name"))
        yield from validate_value_from(variable, (*path, "env", index, "valueFrom"))
    if container["imagePullPolicy"] not in PULL_POLICIES:
        yield not_supported((*path, "imagePullPolicy"), TypedString(container["imagePullPolicy"]), PULL_POLICIES)
    context = container.get("securityContext") or {}
    yield from _validate_user_and_group(context, (*path, "securityContext"))
    if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        field_path = (*path, "securityContext", "procMount")
        yield invalid(field_path, TypedString("Unmasked"), "`hostUsers` must be false to use `Unmasked`")


def _validate_env_var_name(name: str, path: Path) -> ValidationErrors:
    """Check that an environment variable's name is non-empty printable ASCII without ``=``."""
    if not name:
        yield required(path)
    elif not all(" " <= character <= "~" and character != "=" for character in name):
        message = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid(path, name, message)


def _validate_probe(probe: Writable, path: Path) -> ValidationErrors:
    """Validate the handler and the numbers of a probe."""
    yield from _validate_handler_action(probe, path)
    for name in NON_NEGATIVE_FIELDS:
        value = probe.get(name)
        if isinstance(value, int) and value < 0:
            yield invalid((*path, name), value, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace <= 0:
        yield invalid((*path, "terminationGracePeriodSeconds"), grace, "must be greater than 0")


def _validate_handler_action(handler: Writable, path: Path) -> ValidationErrors:
    """Validate that a handler of a probe or lifecycle hook has exactly one action, and validate the action."""
    actions = [name for name in HANDLERS if isinstance(handler.get(name), dict)]
    if not actions:
        yield required(path, "must specify a handler type")
        return
    kind, *surplus_kinds = actions
    for surplus_kind in surplus_kinds:
        yield forbidden((*path, surplus_kind), "may not specify more than 1 handler type")
    action: Writable = handler[kind]
    if kind == "exec" and not action.get("command"):
        yield required((*path, "exec", "command"))
    if kind == "httpGet" and not action.get("path"):
        yield required((*path, "httpGet", "path"))
    if kind in ("httpGet", "tcpSocket"):
        yield from _validate_port_number_or_name(action.get("port"), (*path, kind, "port"))


def _validate_port_number_or_name(port: object, path: Path) -> ValidationErrors:
    """Validate the port of a handler, which is a number or a name. A missing port counts as 0."""
    if isinstance(port, int) or port is None:
        if not 1 <= (port or 0) <= 65535:
            yield invalid(path, port or 0, "must be between 1 and 65535, inclusive")
    else:
        yield from names.validate_syntax(path, str(port), names.validate_port_name)


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
_OLD_NODE_NAME_FIELD = "spec.host"
"""The former name of spec.nodeName, which kube-apiserver still accepts."""
SUBSCRIPTED = re.compile(r"(metadata\.(?:annotations|labels))\['([^']*)'\]")
LEADING_ZEROS = re.compile(r"\b0+(?=\d)")


def validate_dns_config(spec: Writable, path: Path) -> ValidationErrors:
    """Yield the errors in a pod's dnsConfig. With the dnsPolicy "None", it must exist and name a nameserver.

    The numbers of nameservers and search paths, and the length of all search paths together, are limited.
    """
    config = spec.get("dnsConfig")
    is_required = spec["dnsPolicy"] == "None"
    if is_required and config is None:
        yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    # The limits apply with every policy
    fields: Writable = config or {}
    servers: list[str] = fields.get("nameservers") or []
    searches: list[str] = fields.get("searches") or []
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
    for index, option in enumerate(fields.get("options") or ()):
        if not option.get("name"):
            yield required((*path, "options", index), "must not be empty")


def _is_ip_address(text: str) -> bool:
    """Return whether the text is an IP address. Leading zeros are allowed in IPv4 addresses."""
    try:
        ip_address(text if ":" in text else LEADING_ZEROS.sub("", text))
    except ValueError:
        return False
    return True


def validate_sysctls(context: Writable, path: Path) -> ValidationErrors:
    """Validate that the sysctls of a pod's security context have distinct and well-formed names."""
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name = str(sysctl.get("name") or "")
        name_path = (*path, index, "name")
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
    """Validate an environment variable's valueFrom, if it is set.

    It must have exactly one source, and the variable must have no value. All sources that are set are validated.
    """
    source = variable.get("valueFrom")
    if not isinstance(source, dict):
        return
    set_sources = [name for name in SOURCES if isinstance(source.get(name), dict)]
    for name in set_sources:
        yield from _validate_variable_source(name, source[name], (*path, name))
    if not set_sources:
        *first_names, last_name = (f"`{name}`" for name in SOURCES)
        yield invalid(path, "", f"must specify one of: {', '.join(first_names)} or {last_name}")
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(set_sources) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _validate_variable_source(kind: str, source: Writable, path: Path) -> ValidationErrors:
    """Validate one source of an environment variable.

    ``kind`` names the field that holds the source, such as ``fieldRef``.
    """
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
    """Validate that a fieldRef names a pod field that containers can refer to."""
    if not field_path:
        yield required((*path, "fieldPath"))
    elif match := SUBSCRIPTED.fullmatch(field_path):
        field, key = match.groups()
        if field == "metadata.annotations":
            key = key.lower()  # unlike keys of labels, keys of annotations are validated regardless of case
        yield from names.validate_syntax(path, key, names.validate_qualified_name)
    elif field_path not in FIELDS and field_path != _OLD_NODE_NAME_FIELD:
        message = f"error converting fieldPath: field label not supported: {field_path}"
        yield invalid((*path, "fieldPath"), field_path, message)
