"""Pod Security admission: the levels that a namespace's labels set, and the API server's messages for violations.

Pods are JSON documents. Upstream: staging/src/k8s.io/pod-security-admission/policy (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.field_errors import quote_like_go
from kschedctl.api.json_values import JsonObject, object_at, objects_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS

LATEST_MINOR = 36
Violation = tuple[str, str]
"""A violation: the forbidden setting, and the part of the pod that has it."""
DEFAULT_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_NET = "net.ipv4."
SAFE_SYSCTLS: Mapping[int, frozenset[str]] = {
    0: frozenset(
        (
            "kernel.shm_rmid_forced",
            *(_NET + name for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range")),
            _NET + "ip_unprivileged_port_start",
        )
    ),
    27: frozenset((_NET + "ip_local_reserved_ports",)),
    29: frozenset(
        _NET + f"tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
    ),
    32: frozenset((_NET + "tcp_rmem", _NET + "tcp_wmem")),
}
"""Minor version -> the sysctls that are safe since then."""
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
CONTAINER_ENGINE_TYPE, CONTAINER_ENGINE_SINCE = "container_engine_t", 31
USER_NAMESPACES_SINCE, WINDOWS_SINCE, SECCOMP_FIELDS_SINCE = 35, 25, 19
SAFE_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
)
RESTRICTED_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *("flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)
_APPARMOR, _SECCOMP_POD = "container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")


class CheckedPod:
    """A pod or pod template, with the minor version of the standard to check."""

    def __init__(self, pod: JsonObject, minor: int) -> None:
        self.minor = minor
        self.spec = object_at(pod, "spec")
        self.annotations = object_at(pod, "metadata", "annotations")
        lists = ("initContainers", "containers", "ephemeralContainers")
        self.containers = [container for name in lists for container in objects_at(self.spec, name)]

    @property
    def is_windows(self) -> bool:
        """True if the pod is a Windows pod and the standard has exceptions for Windows pods."""
        return self.minor >= WINDOWS_SINCE and object_at(self.spec, "os").get("name") == "windows"

    @property
    def in_user_namespace(self) -> bool:
        """True if the pod has its own user namespace and the standard has exceptions for such pods."""
        return self.minor >= USER_NAMESPACES_SINCE and self.spec.get("hostUsers") is False

    def get_security_values(self, *path: str) -> _SecurityValues:
        """Return the values at a path in the security contexts of the pod and of its containers.

        Containers that do not set the value are left out.
        """
        of_containers = []
        for container in self.containers:
            value = _get_value_at_path(container, "securityContext", *path)
            if value is not None:
                of_containers.append((_get_name(container), value))
        return _SecurityValues(_get_value_at_path(self.spec, "securityContext", *path), of_containers)


class _SecurityValues(NamedTuple):
    """The values of a setting in the security contexts of a pod and its containers."""

    of_pod: object
    """The value that the pod sets, or None."""
    of_containers: list[tuple[str, object]]
    """Name and value of each container that sets the setting."""


def _get_name(obj: JsonObject) -> str:
    """Return the name of a container or volume."""
    return str(obj.get("name", ""))


def _get_names(objects: Iterable[JsonObject]) -> list[str]:
    """Return the names of containers or volumes."""
    return [_get_name(obj) for obj in objects]


def _get_value_at_path(value: object, *path: str) -> object:
    """Return the value at a path of keys, or None if a key is missing."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _format_name_list(names: Sequence[str], noun: str = "container") -> str:
    """Return a noun with quoted names, such as ``container "a"`` or ``containers "a", "b"``."""
    return f"{_pluralize(noun, names)} {_quote_names(names)}"


def _pluralize(noun: str, things: Sequence[object] | set[str]) -> str:
    """Return the noun, in plural unless there is one thing."""
    return noun if len(things) == 1 else f"{noun}s"


def _quote_names(names: Iterable[str]) -> str:
    """Return the names in quotes, separated by commas."""
    return ", ".join(f'"{name}"' for name in names)


def _describe_offenders(is_set_by_pod: bool, containers: Sequence[str]) -> str:
    """Describe who sets a forbidden value: the pod, the named containers, or both.

    Return "" if neither the pod nor a container sets such a value.
    """
    offenders = []
    if is_set_by_pod:
        offenders.append("pod")
    if containers:
        offenders.append(_format_name_list(containers))
    return " and ".join(offenders)


# -- baseline ------------------------------------------------------------------------------------------------------


def _check_app_armor(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if fields or annotations of the pod set forbidden AppArmor profiles.

    There is at most one violation, which names the pod, the containers and the annotations.
    """
    pod_profile, container_profiles = pod.get_security_values("appArmorProfile", "type")
    forbidden = [(name, value) for name, value in container_profiles if value not in _PROFILES]
    is_pod_forbidden = pod_profile is not None and pod_profile not in _PROFILES
    field_values = {str(value) for _, value in forbidden}
    if is_pod_forbidden:
        field_values.add(str(pod_profile))
    annotations = sorted(
        f"{key}={quote_like_go(str(value))}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and not _is_safe_app_armor(str(value))
    )

    setters = []
    if field_values:
        setters.append(_describe_offenders(is_pod_forbidden, [name for name, _ in forbidden]))
    if annotations:
        setters.append(_pluralize("annotation", annotations))
    if setters:
        values = [*sorted(field_values), *annotations]
        summary = _pluralize("forbidden AppArmor profile", values)
        yield summary, f"{' and '.join(setters)} must not set AppArmor profile type to {_quote_names(values)}"


def _is_safe_app_armor(profile: str) -> bool:
    """Return whether the profile of an AppArmor annotation is allowed."""
    return profile in ("", "runtime/default") or profile.startswith("localhost/")


def _check_added_capabilities(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if containers add capabilities that are not among the default ones."""
    names, capabilities = _find_containers_adding_forbidden_capabilities(pod, DEFAULT_CAPABILITIES)
    if names:
        yield (
            "non-default capabilities",
            f"{_format_name_list(names)} must not include {_quote_names(capabilities)} in {_ADDED_CAPABILITIES}",
        )


def _find_containers_adding_forbidden_capabilities(
    pod: CheckedPod, allowed: Container[str]
) -> tuple[list[str], list[str]]:
    """Return the names of the containers that add capabilities not in ``allowed``, and those capabilities, sorted."""
    names = []
    forbidden_capabilities: set[str] = set()
    for name, added in pod.get_security_values("capabilities", "add").of_containers:
        forbidden = [capability for capability in _get_list(added) if capability not in allowed]
        if forbidden:
            names.append(name)
            forbidden_capabilities.update(forbidden)
    return list(dict.fromkeys(names)), sorted(forbidden_capabilities)


_ADDED_CAPABILITIES = "securityContext.capabilities.add"


def _check_host_namespaces(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod shares namespaces of its host."""
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    if shared:
        yield "host namespaces", ", ".join(shared)


def _check_host_paths(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod has hostPath volumes."""
    names = _get_names(volume for volume in objects_at(pod.spec, "volumes") if "hostPath" in volume)
    if names:
        yield "hostPath volumes", _format_name_list(names, "volume")


def _check_host_ports(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if containers use host ports."""
    ports_by_container = {_get_name(container): _find_host_ports(container) for container in pod.containers}
    names = [name for name, ports in ports_by_container.items() if ports]
    if names:
        ports = sorted(set().union(*ports_by_container.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield "hostPort", f"{_format_name_list(names)} {verb} {_pluralize('hostPort', ports)} {', '.join(ports)}"


def _find_host_ports(container: JsonObject) -> set[str]:
    """Return the host ports of a container."""
    return {str(port["hostPort"]) for port in objects_at(container, "ports") if port.get("hostPort")}


def _check_probe_hosts(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if probes or lifecycle handlers of containers name a host."""
    hosts_by_container = {_get_name(container): set(_iter_probe_hosts(container)) for container in pod.containers}
    names = sorted(name for name, hosts in hosts_by_container.items() if hosts)
    if names:
        hosts = sorted(set().union(*hosts_by_container.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield (
            "probe or lifecycle host",
            f"{_format_name_list(names)} {verb} {_format_name_list(hosts, 'probe or lifecycle host')}",
        )


def _iter_probe_hosts(container: JsonObject) -> Iterator[str]:
    """Yield each host that a probe or lifecycle handler of the container names."""
    probes = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (
        *probes,
        _get_value_at_path(container, "lifecycle", "postStart"),
        _get_value_at_path(container, "lifecycle", "preStop"),
    ):
        for protocol in ("httpGet", "tcpSocket"):
            host = _get_value_at_path(handler, protocol, "host")
            if host:
                yield str(host)


def _check_privileged(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if containers are privileged."""
    names = [name for name, value in pod.get_security_values("privileged").of_containers if value]
    if names:
        yield "privileged", f"{_format_name_list(names)} must not set securityContext.privileged=true"


def _check_proc_mount(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation for forbidden proc mounts, unless the pod has its own user namespace."""
    if not pod.in_user_namespace:
        yield from _check_restricted_proc_mount(pod)


def _check_restricted_proc_mount(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if containers have another proc mount than Default."""
    mounts = pod.get_security_values("procMount").of_containers
    forbidden = [(name, str(value)) for name, value in mounts if value != "Default"]
    if forbidden:
        values = _quote_names(sorted({value for _, value in forbidden}))
        yield (
            "procMount",
            f"{_format_name_list([name for name, _ in forbidden])} must not set securityContext.procMount to {values}",
        )


def _check_selinux(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod or its containers set an SELinux user, role or forbidden type."""
    pod_options, container_options = pod.get_security_values("seLinuxOptions")
    allowed = set(SELINUX_TYPES)
    if pod.minor >= CONTAINER_ENGINE_SINCE:
        allowed.add(CONTAINER_ENGINE_TYPE)
    forbidden = [(name, options) for name, options in container_options if _is_forbidden_selinux(options, allowed)]
    is_pod_forbidden = pod_options is not None and _is_forbidden_selinux(pod_options, allowed)
    all_options = [options for _, options in forbidden]
    if is_pod_forbidden:
        all_options.append(pod_options)
    if not all_options:
        return

    details = []
    # Types outside the allowed ones are named. User and role may not be set at all.
    types = sorted({str(_get_value_at_path(options, "type") or "") for options in all_options} - allowed)
    if types:
        details.append(_format_name_list(types, "type"))
    for name in ("user", "role"):
        if any(_get_value_at_path(options, name) for options in all_options):
            details.append(f"{name} may not be set")
    setters = _describe_offenders(is_pod_forbidden, [name for name, _ in forbidden])
    yield "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(details)}"


def _is_forbidden_selinux(options: object, allowed: set[str]) -> bool:
    """Return whether SELinux options set a user, a role or a forbidden type."""
    return (_get_value_at_path(options, "type") or "") not in allowed or bool(
        _get_value_at_path(options, "user") or _get_value_at_path(options, "role")
    )


def _check_seccomp(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation for forbidden seccomp profiles.

    Pod Security standards before 1.19 check annotations instead of fields.
    """
    if pod.minor >= SECCOMP_FIELDS_SINCE:
        yield from _check_seccomp_fields(pod)
        return
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in _get_names(pod.containers))]
    values = {key: str(pod.annotations[key]) for key in keys if key in pod.annotations}
    forbidden = sorted(f"{key}={quote_like_go(value)}" for key, value in values.items() if not _is_safe_seccomp(value))
    if forbidden:
        yield "seccompProfile", f"forbidden {_pluralize('annotation', forbidden)} {', '.join(forbidden)}"


def _is_safe_seccomp(profile: str) -> bool:
    """Return whether the profile of a seccomp annotation is allowed."""
    return profile in ("runtime/default", "docker/default") or profile.startswith("localhost/")


def _check_seccomp_fields(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if fields of the pod or its containers set forbidden seccomp profiles."""
    pod_profile, container_profiles = pod.get_security_values("seccompProfile", "type")
    forbidden = [(name, str(value)) for name, value in container_profiles if value not in _PROFILES]
    is_pod_forbidden = pod_profile is not None and pod_profile not in _PROFILES
    setters = _describe_offenders(is_pod_forbidden, [name for name, _ in forbidden])
    if setters:
        values = {value for _, value in forbidden}
        if is_pod_forbidden:
            values.add(str(pod_profile))
        requirement = "must not set securityContext.seccompProfile.type to"
        yield "seccompProfile", f"{setters} {requirement} {_quote_names(sorted(values))}"


def _check_sysctls(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod sets sysctls that are not safe."""
    allowed = frozenset().union(*(names for since, names in SAFE_SYSCTLS.items() if pod.minor >= since))
    sysctls = objects_at(object_at(pod.spec, "securityContext"), "sysctls")
    forbidden = [name for name in _get_names(sysctls) if name not in allowed]
    if forbidden:
        yield "forbidden sysctls", ", ".join(forbidden)


def _check_host_process(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod or its containers are Windows HostProcess containers."""
    pod_value, container_values = pod.get_security_values("windowsOptions", "hostProcess")
    setters = _describe_offenders(bool(pod_value), [name for name, value in container_values if value])
    if setters:
        yield "hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true"


# -- restricted ----------------------------------------------------------------------------------------------------


def _check_privilege_escalation(pod: CheckedPod) -> Iterator[Violation]:
    """Yield one violation that names the containers without allowPrivilegeEscalation=false, except for Windows pods."""
    if pod.is_windows:
        return
    violating = [
        container
        for container in pod.containers
        if _get_value_at_path(container, "securityContext", "allowPrivilegeEscalation") is not False
    ]
    if violating:
        requirement = "must set securityContext.allowPrivilegeEscalation=false"
        yield "allowPrivilegeEscalation != false", f"{_format_name_list(_get_names(violating))} {requirement}"


def _check_restricted_capabilities(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if containers do not drop all capabilities, or if they add forbidden ones.

    Only NET_BIND_SERVICE may be added. Windows pods are exempt.
    """
    if pod.is_windows:
        return
    details = []
    not_dropping = [
        container
        for container in pod.containers
        if "ALL" not in _get_list(_get_value_at_path(container, "securityContext", "capabilities", "drop"))
    ]
    if not_dropping:
        names = _format_name_list(_get_names(not_dropping))
        details.append(f'{names} must set securityContext.capabilities.drop=["ALL"]')
    adding, capabilities = _find_containers_adding_forbidden_capabilities(pod, ("NET_BIND_SERVICE",))
    if adding:
        names = _format_name_list(adding)
        details.append(f"{names} must not include {_quote_names(capabilities)} in {_ADDED_CAPABILITIES}")
    if details:
        yield "unrestricted capabilities", "; ".join(details)


def _check_restricted_volumes(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod has volumes of a type that the restricted level forbids."""
    forbidden = [
        volume for volume in objects_at(pod.spec, "volumes") if not any(kind in volume for kind in SAFE_VOLUMES)
    ]
    if forbidden:
        types = sorted({_get_restricted_volume_type(volume) for volume in forbidden})
        verb = "uses" if len(forbidden) == 1 else "use"
        volumes = _format_name_list(_get_names(forbidden), "volume")
        yield (
            "restricted volume types",
            f"{volumes} {verb} {_format_name_list(types, 'restricted volume type')}",
        )


def _get_restricted_volume_type(volume: JsonObject) -> str:
    """Return the type of a forbidden volume, or ``unknown`` if it has none of the known types."""
    for volume_type in RESTRICTED_VOLUMES:
        if volume_type in volume:
            return volume_type
    return "unknown"


def _check_run_as_non_root(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation unless all containers must run as a non-root user.

    Pods with their own user namespace are exempt.
    """
    if pod.in_user_namespace:
        return
    pod_value, container_values = pod.get_security_values("runAsNonRoot")
    setters = _describe_offenders(pod_value is False, [name for name, value in container_values if value is False])
    if setters:
        yield "runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false"
        return

    # Containers that set no value take the pod's value.
    containers_with_value = {name for name, _ in container_values}
    unset = [name for name in _get_names(pod.containers) if name not in containers_with_value]
    if unset and pod_value is not True:
        yield "runAsNonRoot != true", f"pod or {_format_name_list(unset)} must set securityContext.runAsNonRoot=true"


def _check_run_as_user(pod: CheckedPod) -> Iterator[Violation]:
    """Yield a violation if the pod or its containers set root as runAsUser.

    Pods with their own user namespace are exempt.
    """
    if pod.in_user_namespace:
        return
    pod_value, container_values = pod.get_security_values("runAsUser")
    setters = _describe_offenders(pod_value == 0, [name for name, value in container_values if value == 0])
    if setters:
        yield "runAsUser=0", f"{setters} must not set runAsUser=0"


def _check_restricted_seccomp(pod: CheckedPod) -> Iterator[Violation]:
    """Yield violations for forbidden seccomp profiles or, if there are none, one for missing profiles.

    Windows pods are exempt.
    """
    if pod.is_windows:
        return
    forbidden = list(_check_seccomp_fields(pod))
    if forbidden:
        yield from forbidden
        return
    # Containers without a profile of their own take the pod's
    pod_profile = pod.get_security_values("seccompProfile", "type").of_pod
    containers_with_profile = dict(pod.get_security_values("seccompProfile").of_containers)
    unset = [name for name in _get_names(pod.containers) if name not in containers_with_profile]
    if unset and pod_profile not in _PROFILES:
        requirement = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield "seccompProfile", f"pod or {_format_name_list(unset)} {requirement}"


def _get_list(value: object) -> Sequence[str]:
    """Return the value if it is a list, or an empty sequence."""
    return value if isinstance(value, list) else ()


# -- the standard --------------------------------------------------------------------------------------------------


class Check(NamedTuple):
    """One check of a Pod Security level."""

    find: Callable[[CheckedPod], Iterator[Violation]]
    """Yields the violations of a pod."""
    since: int = 0
    """The minor version since which the check exists."""
    overrides: str = ""
    """The baseline check that it replaces."""


BASELINE: Mapping[str, Check] = {
    "appArmorProfile": Check(_check_app_armor),
    "capabilities_baseline": Check(_check_added_capabilities),
    "hostNamespaces": Check(_check_host_namespaces),
    "hostPathVolumes": Check(_check_host_paths),
    "hostPorts": Check(_check_host_ports),
    "hostProbesAndHostLifecycle": Check(_check_probe_hosts, 34),
    "privileged": Check(_check_privileged),
    "procMount": Check(_check_proc_mount),
    "seLinuxOptions": Check(_check_selinux),
    "seccompProfile_baseline": Check(_check_seccomp),
    "sysctls": Check(_check_sysctls),
    "windowsHostProcess": Check(_check_host_process),
}
RESTRICTED: Mapping[str, Check] = {
    "allowPrivilegeEscalation": Check(_check_privilege_escalation, 8),
    "capabilities_restricted": Check(_check_restricted_capabilities, 22, "capabilities_baseline"),
    "procMount_restricted": Check(_check_restricted_proc_mount, 35, "procMount"),
    "restrictedVolumes": Check(_check_restricted_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": Check(_check_run_as_non_root),
    "runAsUser": Check(_check_run_as_user, 23),
    "seccompProfile_restricted": Check(_check_restricted_seccomp, 19, "seccompProfile_baseline"),
}


def describe_violations(pod: JsonObject, level: str, version: str) -> str:
    """Describe how a pod violates a level of a version, such as ``latest`` or ``v1.30``.

    Return "" if there are no violations, or if the level is neither baseline nor restricted.
    """
    if level not in ("baseline", "restricted"):
        return ""
    # A version such as v1.99 is checked like the latest known one
    minor = LATEST_MINOR if version == "latest" else min(int(version.partition(".")[2]), LATEST_MINOR)
    restricted_checks = []
    if level == "restricted":
        restricted_checks = [check for check in RESTRICTED.values() if check.since <= minor]
    # A restricted check replaces the baseline check that it overrides
    overridden = {check.overrides for check in restricted_checks}
    baseline_checks = [check for name, check in BASELINE.items() if check.since <= minor and name not in overridden]

    checked_pod = CheckedPod(pod, minor)
    descriptions = []
    for check in (*baseline_checks, *restricted_checks):
        for summary, details in check.find(checked_pod):
            descriptions.append(f"{summary} ({details})" if details else summary)
    return ", ".join(descriptions)


LABEL = "pod-security.kubernetes.io/"
ENFORCE = f"{LABEL}enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""The levels, from the one that forbids nothing to the strictest one."""
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class Standard(NamedTuple):
    """A Pod Security level of one version."""

    level: str = LEVELS[0]
    version: str = LATEST

    def describe_violations(self, pod: JsonObject) -> str:
        """Return the pod's violations after the standard's name, as in ``"restricted:latest": …``, or ""."""
        violations = describe_violations(pod, self.level, self.version)
        return f'"{self.level}:{self.version}": {violations}' if violations else ""


def get_enforced_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard that the pods of a namespace with these labels have to meet.

    Without a label, the level is privileged. An invalid level counts as the strictest level, and an invalid version
    counts as the latest version.
    """
    level = labels.get(ENFORCE, LEVELS[0])
    return Standard(level if level in LEVELS else LEVELS[-1], _get_standard_version(labels, "enforce"))


def get_warn_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard whose violations cause warnings in a namespace with these labels.

    By default, it has the enforced level, in the version for warnings or, without one, the enforced version. An invalid
    level causes no warnings.
    """
    level = labels.get(f"{LABEL}warn")
    enforce = labels.get(ENFORCE)
    if level is not None:
        return Standard(level if level in LEVELS else LEVELS[0], _get_standard_version(labels, "warn"))
    if enforce not in LEVELS[1:]:  # the first level, privileged, is never violated
        return Standard()
    has_warn_version = f"{LABEL}warn-version" in labels
    return Standard(enforce, _get_standard_version(labels, "warn" if has_warn_version else "enforce"))


def _get_standard_version(labels: Mapping[str, str], mode: str) -> str:
    """Return the version that the labels set for a mode, or ``latest`` if it is invalid."""
    version = labels.get(f"{LABEL}{mode}-version", LATEST)
    return version if _VERSION.fullmatch(version) else LATEST


def extract_pod(kind: str, obj: JsonObject) -> JsonObject:
    """Return the pod or pod template of an object of this kind, or an empty document if it has none."""
    return object_at(obj, *POD_TEMPLATE_PATHS[kind]) if kind in POD_TEMPLATE_PATHS else {}
