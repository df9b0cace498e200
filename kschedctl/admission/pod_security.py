"""Pod Security admission: the levels that a namespace's labels set, and the API server's messages for violations.

Pods are JSON documents. Upstream: staging/src/k8s.io/pod-security-admission/policy (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.field_errors import go_quote
from kschedctl.api.json_values import JsonObject, object_at, objects_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS

LATEST_MINOR = 36
Violation = tuple[str, str]
"""What is forbidden, and which part of the pod has it."""
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
USER_NAMESPACES_SINCE, WINDOWS_SINCE = 35, 25
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

    def names_of(self, containers: Iterable[JsonObject]) -> list[str]:
        """Return the names of containers or volumes."""
        return [str(container.get("name", "")) for container in containers]

    @property
    def is_windows(self) -> bool:
        """Whether the pod is a Windows pod and the standard has exceptions for Windows pods."""
        return self.minor >= WINDOWS_SINCE and object_at(self.spec, "os").get("name") == "windows"

    @property
    def in_user_namespace(self) -> bool:
        """Whether the pod has its own user namespace and the standard has exceptions for such pods."""
        return self.minor >= USER_NAMESPACES_SINCE and self.spec.get("hostUsers") is False

    def get_settings(self, *path: str) -> tuple[object, list[tuple[str, object]]]:
        """Return a setting of the pod's security context, and the settings of containers by name."""
        by_container = [(str(c.get("name", "")), _get_at(c, "securityContext", *path)) for c in self.containers]
        return _get_at(self.spec, "securityContext", *path), [
            (name, value) for name, value in by_container if value is not None
        ]


def _get_at(value: object, *path: str) -> object:
    """Return the value at a path of keys, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _format_name_list(names: Sequence[str], noun: str = "container") -> str:
    """Return a noun with quoted names, such as ``container "a"`` or ``containers "a", "b"``."""
    return f"{_pluralize(noun, names)} {_quote_all(names)}"


def _pluralize(noun: str, things: Sequence[object] | set[str]) -> str:
    """Return the noun, in plural unless there is one thing."""
    return noun if len(things) == 1 else f"{noun}s"


def _quote_all(names: Iterable[str]) -> str:
    """Return the names in quotes, separated by commas."""
    return ", ".join(f'"{name}"' for name in names)


def _describe_setters(by_pod: bool, containers: Sequence[str]) -> str:
    """Describe the pod and containers that set a forbidden value, or return "" if there are none."""
    return " and ".join((["pod"] if by_pod else []) + ([_format_name_list(containers)] if containers else []))


# -- baseline ------------------------------------------------------------------------------------------------------


def _check_app_armor(pod: CheckedPod) -> Iterator[Violation]:
    """Yield forbidden AppArmor profiles."""
    pod_profile, container_profiles = pod.get_settings("appArmorProfile", "type")
    forbidden = [(name, value) for name, value in container_profiles if value not in _PROFILES]
    pod_is_bad = pod_profile is not None and pod_profile not in _PROFILES
    values = sorted({str(value) for _, value in forbidden} | ({str(pod_profile)} if pod_is_bad else set()))
    setters = [text for text in [_describe_setters(pod_is_bad, [name for name, _ in forbidden])] if text]
    annotations = sorted(
        f"{key}={go_quote(str(value))}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and not _is_safe_app_armor(str(value))
    )
    if annotations:
        values += annotations
        setters.append(_pluralize("annotation", annotations))
    if setters:
        summary = _pluralize("forbidden AppArmor profile", values)
        yield summary, f"{' and '.join(setters)} must not set AppArmor profile type to {_quote_all(values)}"


def _is_safe_app_armor(profile: str) -> bool:
    """Return whether the profile of an AppArmor annotation is allowed."""
    return profile in ("", "runtime/default") or profile.startswith("localhost/")


def _check_added_capabilities(pod: CheckedPod) -> Iterator[Violation]:
    """Yield capabilities that are not among the default ones."""
    _, added_by = pod.get_settings("capabilities", "add")
    forbidden_by_container = {
        name: [c for c in _as_list(added) if c not in DEFAULT_CAPABILITIES] for name, added in added_by
    }
    names = [name for name, added in forbidden_by_container.items() if added]
    if names:
        added = sorted({capability for forbidden in forbidden_by_container.values() for capability in forbidden})
        yield (
            "non-default capabilities",
            f"{_format_name_list(names)} must not include {_quote_all(added)} in {_ADDED_CAPABILITIES}",
        )


_ADDED_CAPABILITIES = "securityContext.capabilities.add"


def _check_host_namespaces(pod: CheckedPod) -> Iterator[Violation]:
    """Yield host namespaces that the pod shares."""
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    if shared:
        yield "host namespaces", ", ".join(shared)


def _check_host_paths(pod: CheckedPod) -> Iterator[Violation]:
    """Yield hostPath volumes."""
    names = [str(volume.get("name", "")) for volume in objects_at(pod.spec, "volumes") if "hostPath" in volume]
    if names:
        yield "hostPath volumes", _format_name_list(names, "volume")


def _check_host_ports(pod: CheckedPod) -> Iterator[Violation]:
    """Yield host ports that containers use."""
    used = {str(c.get("name", "")): _find_host_ports(c) for c in pod.containers}
    names = [name for name, ports in used.items() if ports]
    if names:
        ports = sorted(set().union(*used.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield "hostPort", f"{_format_name_list(names)} {verb} {_pluralize('hostPort', ports)} {', '.join(ports)}"


def _find_host_ports(container: JsonObject) -> set[str]:
    """Return the host ports of a container."""
    return {str(port["hostPort"]) for port in objects_at(container, "ports") if port.get("hostPort")}


def _check_probe_hosts(pod: CheckedPod) -> Iterator[Violation]:
    """Yield hosts that probes and lifecycle handlers name."""
    used = {str(container.get("name", "")): set(_iter_probe_hosts(container)) for container in pod.containers}
    names = sorted(name for name, hosts in used.items() if hosts)
    if names:
        hosts = sorted(set().union(*used.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield (
            "probe or lifecycle host",
            f"{_format_name_list(names)} {verb} {_format_name_list(hosts, 'probe or lifecycle host')}",
        )


def _iter_probe_hosts(container: JsonObject) -> Iterator[str]:
    """Yield the hosts that a container's probes and lifecycle handlers name."""
    probes = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*probes, _get_at(container, "lifecycle", "postStart"), _get_at(container, "lifecycle", "preStop")):
        for protocol in ("httpGet", "tcpSocket"):
            if host := _get_at(handler, protocol, "host"):
                yield str(host)


def _check_privileged(pod: CheckedPod) -> Iterator[Violation]:
    """Yield privileged containers."""
    _, privileged = pod.get_settings("privileged")
    names = [name for name, value in privileged if value]
    if names:
        yield "privileged", f"{_format_name_list(names)} must not set securityContext.privileged=true"


def _check_proc_mount(pod: CheckedPod) -> Iterator[Violation]:
    """Yield forbidden proc mounts unless the pod has its own user namespace."""
    if not pod.in_user_namespace:
        yield from _check_proc_mount_restricted(pod)


def _check_proc_mount_restricted(pod: CheckedPod) -> Iterator[Violation]:
    """Yield forbidden proc mounts."""
    _, mounts = pod.get_settings("procMount")
    forbidden = [(name, str(value)) for name, value in mounts if value != "Default"]
    if forbidden:
        values = _quote_all(sorted({value for _, value in forbidden}))
        yield (
            "procMount",
            f"{_format_name_list([name for name, _ in forbidden])} must not set securityContext.procMount to {values}",
        )


def _check_selinux(pod: CheckedPod) -> Iterator[Violation]:
    """Yield forbidden SELinux options."""
    pod_options, container_options = pod.get_settings("seLinuxOptions")
    allowed = {*SELINUX_TYPES, *([CONTAINER_ENGINE_TYPE] if pod.minor >= CONTAINER_ENGINE_SINCE else [])}
    forbidden = [(name, options) for name, options in container_options if _is_forbidden_selinux(options, allowed)]
    pod_is_bad = pod_options is not None and _is_forbidden_selinux(pod_options, allowed)
    options = [options for _, options in forbidden] + ([pod_options] if pod_is_bad else [])
    types = sorted({str(_get_at(option, "type") or "") for option in options} - allowed)
    if options:
        details = [_format_name_list(types, "type")] if types else []
        details += [
            f"{name} may not be set" for name in ("user", "role") if any(_get_at(option, name) for option in options)
        ]
        setters = _describe_setters(pod_is_bad, [name for name, _ in forbidden])
        yield "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(details)}"


def _is_forbidden_selinux(options: object, allowed: set[str]) -> bool:
    """Return whether SELinux options set a user, a role or a forbidden type."""
    return (_get_at(options, "type") or "") not in allowed or bool(_get_at(options, "user") or _get_at(options, "role"))


def _check_seccomp(pod: CheckedPod) -> Iterator[Violation]:
    """Yield forbidden seccomp profiles. Before 1.19, they are read from annotations."""
    if pod.minor < 19:
        keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in pod.names_of(pod.containers))]
        values = {key: str(pod.annotations[key]) for key in keys if key in pod.annotations}
        forbidden = sorted(f"{key}={go_quote(value)}" for key, value in values.items() if not _is_safe_seccomp(value))
        if forbidden:
            yield "seccompProfile", f"forbidden {_pluralize('annotation', forbidden)} {', '.join(forbidden)}"
        return
    yield from _check_seccomp_fields(pod)


def _is_safe_seccomp(profile: str) -> bool:
    """Return whether the profile of a seccomp annotation is allowed."""
    return profile in ("runtime/default", "docker/default") or profile.startswith("localhost/")


def _check_seccomp_fields(pod: CheckedPod, includes_pod: bool = True) -> Iterator[Violation]:
    """Yield forbidden seccomp profiles in fields of containers and, with ``includes_pod``, of the pod itself."""
    pod_profile, container_profiles = pod.get_settings("seccompProfile", "type")
    forbidden = [(name, str(value)) for name, value in container_profiles if value not in _PROFILES]
    pod_is_bad = includes_pod and pod_profile is not None and pod_profile not in _PROFILES
    setters = _describe_setters(pod_is_bad, [name for name, _ in forbidden])
    if setters:
        values = sorted({value for _, value in forbidden} | ({str(pod_profile)} if pod_is_bad else set()))
        yield "seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {_quote_all(values)}"


def _check_sysctls(pod: CheckedPod) -> Iterator[Violation]:
    """Yield sysctls that are not safe."""
    allowed = frozenset().union(*(names for since, names in SAFE_SYSCTLS.items() if pod.minor >= since))
    sysctls = objects_at(object_at(pod.spec, "securityContext"), "sysctls")
    forbidden = [str(sysctl.get("name", "")) for sysctl in sysctls if sysctl.get("name", "") not in allowed]
    if forbidden:
        yield "forbidden sysctls", ", ".join(forbidden)


def _check_host_process(pod: CheckedPod) -> Iterator[Violation]:
    """Yield Windows HostProcess containers."""
    pod_value, container_values = pod.get_settings("windowsOptions", "hostProcess")
    setters = _describe_setters(bool(pod_value), [name for name, value in container_values if value])
    if setters:
        yield "hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true"


# -- restricted ----------------------------------------------------------------------------------------------------


def _check_privilege_escalation(pod: CheckedPod) -> Iterator[Violation]:
    """Yield containers that do not forbid privilege escalation."""
    if pod.is_windows:
        return
    violating = [c for c in pod.containers if _get_at(c, "securityContext", "allowPrivilegeEscalation") is not False]
    if violating:
        must = "must set securityContext.allowPrivilegeEscalation=false"
        yield "allowPrivilegeEscalation != false", f"{_format_name_list(pod.names_of(violating))} {must}"


def _check_restricted_capabilities(pod: CheckedPod) -> Iterator[Violation]:
    """Yield containers that keep capabilities or add others than NET_BIND_SERVICE."""
    if pod.is_windows:
        return
    not_dropping = [
        c for c in pod.containers if "ALL" not in _as_list(_get_at(c, "securityContext", "capabilities", "drop"))
    ]
    added = {
        name: [c for c in _as_list(capabilities) if c != "NET_BIND_SERVICE"]
        for name, capabilities in pod.get_settings("capabilities", "add")[1]
    }
    adding = [name for name, capabilities in added.items() if capabilities]
    details = (
        [f'{_format_name_list(pod.names_of(not_dropping))} must set securityContext.capabilities.drop=["ALL"]']
        if not_dropping
        else []
    )
    if adding:
        names = _quote_all(sorted({capability for capabilities in added.values() for capability in capabilities}))
        details.append(f"{_format_name_list(adding)} must not include {names} in {_ADDED_CAPABILITIES}")
    if details:
        yield "unrestricted capabilities", "; ".join(details)


def _check_restricted_volumes(pod: CheckedPod) -> Iterator[Violation]:
    """Yield volumes of restricted types."""
    forbidden = [
        volume for volume in objects_at(pod.spec, "volumes") if not any(kind in volume for kind in SAFE_VOLUMES)
    ]
    if forbidden:
        kinds = sorted(
            {next((kind for kind in RESTRICTED_VOLUMES if kind in volume), "unknown") for volume in forbidden}
        )
        verb = "uses" if len(forbidden) == 1 else "use"
        volumes = _format_name_list(pod.names_of(forbidden), "volume")
        yield (
            "restricted volume types",
            f"{volumes} {verb} {_format_name_list(kinds, 'restricted volume type')}",
        )


def _check_run_as_non_root(pod: CheckedPod) -> Iterator[Violation]:
    """Yield containers that do not require a user other than root."""
    if pod.in_user_namespace:
        return
    pod_value, container_values = pod.get_settings("runAsNonRoot")
    setters = _describe_setters(pod_value is False, [name for name, value in container_values if value is False])
    unset = [name for name in pod.names_of(pod.containers) if name not in dict(container_values)]
    if setters:
        yield "runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false"
    elif unset and pod_value is not True:
        yield "runAsNonRoot != true", f"pod or {_format_name_list(unset)} must set securityContext.runAsNonRoot=true"


def _check_run_as_user(pod: CheckedPod) -> Iterator[Violation]:
    """Yield containers whose runAsUser is root."""
    if pod.in_user_namespace:
        return
    pod_value, container_values = pod.get_settings("runAsUser")
    setters = _describe_setters(
        pod_value == 0 and pod_value is not None, [name for name, value in container_values if value == 0]
    )
    if setters:
        yield "runAsUser=0", f"{setters} must not set runAsUser=0"


def _check_restricted_seccomp(pod: CheckedPod) -> Iterator[Violation]:
    """Yield seccomp profiles that are forbidden or missing."""
    if pod.is_windows:
        return
    forbidden = list(_check_seccomp_fields(pod))
    pod_profile, _ = pod.get_settings("seccompProfile", "type")
    containers_with_profile = {
        str(c.get("name", "")) for c in pod.containers if _get_at(c, "securityContext", "seccompProfile") is not None
    }
    unset = [name for name in pod.names_of(pod.containers) if name not in containers_with_profile]
    if forbidden:
        yield from forbidden
    elif unset and pod_profile not in _PROFILES:
        must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield "seccompProfile", f"pod or {_format_name_list(unset)} {must}"


def _as_list(value: object) -> Sequence[str]:
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
    "procMount_restricted": Check(_check_proc_mount_restricted, 35, "procMount"),
    "restrictedVolumes": Check(_check_restricted_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": Check(_check_run_as_non_root),
    "runAsUser": Check(_check_run_as_user, 23),
    "seccompProfile_restricted": Check(_check_restricted_seccomp, 19, "seccompProfile_baseline"),
}


def find_violations(pod: JsonObject, level: str, version: str) -> str:
    """Return the pod's violations of a level in a version (``latest``, ``v1.30``), or ""."""
    if level not in ("baseline", "restricted"):
        return ""
    minor = LATEST_MINOR if version == "latest" else min(int(version.partition(".")[2]), LATEST_MINOR)
    checked_pod = CheckedPod(pod, minor)
    restricted_checks = (
        [check for check in RESTRICTED.values() if check.since <= minor] if level == "restricted" else []
    )
    overridden = {check.overrides for check in restricted_checks}
    checks = [c for name, c in BASELINE.items() if c.since <= minor and name not in overridden] + restricted_checks
    found_violations = [fault for check in checks for fault in check.find(checked_pod)]
    return ", ".join(f"{summary} ({details})" if details else summary for summary, details in found_violations)


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
        violations = find_violations(pod, self.level, self.version)
        return f'"{self.level}:{self.version}": {violations}' if violations else ""


def get_enforced_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard by which a namespace's pods are denied.

    An invalid level counts as the strictest level, an invalid version as the latest one.
    """
    level = labels.get(ENFORCE, LEVELS[0])
    return Standard(level if level in LEVELS else LEVELS[-1], _get_version(labels, "enforce"))


def get_warn_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard about which the API server warns, by default the enforced one.

    An invalid level causes no warnings.
    """
    level = labels.get(f"{LABEL}warn")
    enforce = labels.get(ENFORCE)
    if level is not None:
        return Standard(level if level in LEVELS else LEVELS[0], _get_version(labels, "warn"))
    if enforce not in LEVELS[1:]:
        return Standard()
    return Standard(enforce, _get_version(labels, "warn" if f"{LABEL}warn-version" in labels else "enforce"))


def _get_version(labels: Mapping[str, str], mode: str) -> str:
    """Return the version that the labels set for a mode, or ``latest`` if it is invalid."""
    version = labels.get(f"{LABEL}{mode}-version", LATEST)
    return version if _VERSION.fullmatch(version) else LATEST


def extract_pod(kind: str, obj: JsonObject) -> JsonObject:
    """Return the pod or pod template of an object, or an empty document if it has none."""
    return object_at(obj, *POD_TEMPLATE_PATHS[kind]) if kind in POD_TEMPLATE_PATHS else {}
