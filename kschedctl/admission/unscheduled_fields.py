"""Validation of the fields of a pod that scheduling never reads: probes, DNS, security contexts and others.

Upstream: pkg/apis/core/v1/validation/validation.go, ValidatePodSpec (v1.36), in its order as far as fields are here.
"""

from __future__ import annotations

from kschedctl.admission.pod_sources import dns_config, sysctls, value_from
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.field_errors import (
    Key,
    Path,
    TypedString,
    ValidationErrors,
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
NOT_NEGATIVE = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
MIRROR = "kubernetes.io/config.mirror"


def validate_unscheduled_fields(request: AdmissionRequest) -> ValidationErrors:
    """Yield the errors in fields of a pod that scheduling never reads; `api.validation` has the other fields."""
    spec, at = request.spec, ("spec",)
    mirror = request.annotations.get(MIRROR)
    if mirror is not None and not spec.get("nodeName"):
        where = ("metadata", "annotations", Key(MIRROR))
        yield invalid(where, mirror, "must set spec.nodeName if mirror pod annotation is set")
    for name, containers in (("containers", request.containers), ("initContainers", request.init_containers)):
        for number, container in enumerate(containers):
            yield from _container(container, (*at, name, number), spec)
    if spec["dnsPolicy"] not in DNS_POLICIES:
        yield not_supported((*at, "dnsPolicy"), TypedString(spec["dnsPolicy"]), DNS_POLICIES)
    yield from dns_config(spec, (*at, "dnsConfig"))
    yield from _pod_security_context(spec, at)
    for number, gate in enumerate(spec.get("readinessGates") or ()):
        gate_at = (*at, "readinessGates", number, "conditionType")
        yield from names.validate_syntax(gate_at, str(gate.get("conditionType", "")), names.validate_qualified_name)
    yield from _seconds(spec, at)
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from names.validate_syntax((*at, name), spec[name], names.validate_dns_label)
    operating_system = spec.get("os")
    if isinstance(operating_system, dict):
        if not operating_system.get("name"):
            yield required((*at, "os", "name"))
        elif operating_system["name"] not in ("linux", "windows"):
            yield not_supported((*at, "os"), TypedString(operating_system["name"]), ("linux", "windows"))
    if spec.get("ephemeralContainers"):
        yield forbidden((*at, "ephemeralContainers"), "cannot be set on create")


def _seconds(spec: Writable, at: Path) -> ValidationErrors:
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline <= INT32_MAX:
        yield invalid((*at, "activeDeadlineSeconds"), deadline, f"must be between 1 and {INT32_MAX}, inclusive")


def _pod_security_context(spec: Writable, at: Path) -> ValidationErrors:
    context = spec.get("securityContext") or {}
    yield from _users(context, (*at, "securityContext"))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        said = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid((*at, "shareProcessNamespace"), value=True, detail=said)
    yield from sysctls(context, (*at, "securityContext", "sysctls"))


def _users(context: Writable, at: Path) -> ValidationErrors:
    for name in ("runAsUser", "runAsGroup"):
        number = context.get(name)
        if isinstance(number, int) and not 0 <= number <= INT32_MAX:
            yield invalid((*at, name), number, f"must be between 0 and {INT32_MAX}, inclusive")


def _container(container: Writable, at: Path, spec: Writable) -> ValidationErrors:
    lifecycle: Writable = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler(lifecycle[hook] or {}, (*at, "lifecycle", hook))
    for probe in PROBES:
        if isinstance(container.get(probe), dict):
            yield from _probe(container[probe], (*at, probe))
    if container["terminationMessagePolicy"] not in MESSAGE_POLICIES:
        where = (*at, "terminationMessagePolicy")
        yield not_supported(where, TypedString(container["terminationMessagePolicy"]), MESSAGE_POLICIES)
    for number, variable in enumerate(container.get("env") or ()):
        yield from _variable(str(variable.get("name", "")), (*at, "env", number, "name"))
        yield from value_from(variable, (*at, "env", number, "valueFrom"))
    if container["imagePullPolicy"] not in PULL_POLICIES:
        yield not_supported((*at, "imagePullPolicy"), TypedString(container["imagePullPolicy"]), PULL_POLICIES)
    context = container.get("securityContext") or {}
    yield from _users(context, (*at, "securityContext"))
    if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        where = (*at, "securityContext", "procMount")
        yield invalid(where, TypedString("Unmasked"), "`hostUsers` must be false to use `Unmasked`")


def _variable(name: str, at: Path) -> ValidationErrors:
    if not name:
        yield required(at)
    elif not all(" " <= character <= "~" and character != "=" for character in name):
        said = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid(at, name, said)


def _probe(probe: Writable, at: Path) -> ValidationErrors:
    yield from _handler(probe, at)
    for name in NOT_NEGATIVE:
        number = probe.get(name)
        if isinstance(number, int) and number < 0:
            yield invalid((*at, name), number, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace <= 0:
        yield invalid((*at, "terminationGracePeriodSeconds"), grace, "must be greater than 0")


def _handler(handler: Writable, at: Path) -> ValidationErrors:
    """What is done in a container: one thing, which says enough."""
    given = [name for name in HANDLERS if isinstance(handler.get(name), dict)]
    for name in given[1:]:
        yield forbidden((*at, name), "may not specify more than 1 handler type")
    if not given:
        yield required(at, "must specify a handler type")
        return
    action: Writable = handler[given[0]]
    if given[0] == "exec" and not action.get("command"):
        yield required((*at, "exec", "command"))
    if given[0] in ("httpGet", "tcpSocket"):
        if given[0] == "httpGet" and not action.get("path"):
            yield required((*at, "httpGet", "path"))
        yield from _port(action.get("port"), (*at, given[0], "port"))


def _port(port: object, at: Path) -> ValidationErrors:
    if isinstance(port, int) or port is None:
        if not 1 <= (port or 0) <= 65535:
            yield invalid(at, port or 0, "must be between 1 and 65535, inclusive")
    else:
        yield from names.validate_syntax(at, str(port), names.validate_port_name)
