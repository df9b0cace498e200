"""What the Pod Security Standards forbid of a pod, in the words of the API server.

Upstream: staging/src/k8s.io/pod-security-admission/policy (v1.36). Pods are JSON as the API has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.field_errors import go_quote
from kschedctl.api.json_values import JsonObject, object_at, objects_at

LATEST = 36
Fault = tuple[str, str]
"""What is forbidden, and who does it."""
DEFAULT_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_NET = "net.ipv4."
SYSCTLS: Mapping[int, frozenset[str]] = {
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
"""Minor version -> the sysctls that are safe since."""
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
ENGINE_TYPE, ENGINE_SINCE = "container_engine_t", 31
USER_NAMESPACES_SINCE, WINDOWS_SINCE = 35, 25
SAFE_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
)
OTHER_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *("flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)
_APPARMOR, _SECCOMP_POD = "container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")


class SecuredPod:
    """A pod, or the template of one, and the minor version of the standard that it is held against."""

    def __init__(self, pod: JsonObject, minor: int) -> None:
        self.minor, self.spec = minor, object_at(pod, "spec")
        self.annotations = object_at(pod, "metadata", "annotations")
        lists = ("initContainers", "containers", "ephemeralContainers")
        self.containers = [container for name in lists for container in objects_at(self.spec, name)]

    def named(self, containers: Iterable[JsonObject]) -> list[str]:
        return [str(container.get("name", "")) for container in containers]

    @property
    def is_windows(self) -> bool:
        return self.minor >= WINDOWS_SINCE and object_at(self.spec, "os").get("name") == "windows"

    @property
    def in_user_namespace(self) -> bool:
        return self.minor >= USER_NAMESPACES_SINCE and self.spec.get("hostUsers") is False

    def settings(self, *path: str) -> tuple[object, list[tuple[str, object]]]:
        """A setting of the pod's security context, and those of its containers that have it, by name."""
        own = [(str(c.get("name", "")), _at(c, "securityContext", *path)) for c in self.containers]
        return _at(self.spec, "securityContext", *path), [(name, value) for name, value in own if value is not None]


def _at(value: object, *path: str) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _of(names: Sequence[str], what: str = "container") -> str:
    """``container "a"``, ``containers "a", "b"``."""
    return f"{_plural(what, names)} {_quoted(names)}"


def _plural(what: str, things: Sequence[object] | set[str]) -> str:
    return what if len(things) == 1 else f"{what}s"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _setters(pod_is_bad: bool, containers: Sequence[str]) -> str:
    """Who sets what is forbidden; empty for nobody."""
    return " and ".join((["pod"] if pod_is_bad else []) + ([_of(containers)] if containers else []))


# -- baseline ------------------------------------------------------------------------------------------------------


def _app_armor(pod: SecuredPod) -> Iterator[Fault]:
    own, others = pod.settings("appArmorProfile", "type")
    bad = [(name, value) for name, value in others if value not in _PROFILES]
    pod_is_bad = own is not None and own not in _PROFILES
    values = sorted({str(value) for _, value in bad} | ({str(own)} if pod_is_bad else set()))
    setters = [text for text in [_setters(pod_is_bad, [name for name, _ in bad])] if text]
    annotations = sorted(
        f"{key}={go_quote(str(value))}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and not _is_safe_armor(str(value))
    )
    if annotations:
        values += annotations
        setters.append(_plural("annotation", annotations))
    if setters:
        what = _plural("forbidden AppArmor profile", values)
        yield what, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(values)}"


def _is_safe_armor(profile: str) -> bool:
    return profile in ("", "runtime/default") or profile.startswith("localhost/")


def _capabilities(pod: SecuredPod) -> Iterator[Fault]:
    _, added_by = pod.settings("capabilities", "add")
    bad = {name: [c for c in _list(added) if c not in DEFAULT_CAPABILITIES] for name, added in added_by}
    names = [name for name, added in bad.items() if added]
    if names:
        added = sorted({capability for forbidden in bad.values() for capability in forbidden})
        yield "non-default capabilities", f"{_of(names)} must not include {_quoted(added)} in {_ADDED}"


_ADDED = "securityContext.capabilities.add"


def _host_namespaces(pod: SecuredPod) -> Iterator[Fault]:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    if shared:
        yield "host namespaces", ", ".join(shared)


def _host_paths(pod: SecuredPod) -> Iterator[Fault]:
    names = [str(volume.get("name", "")) for volume in objects_at(pod.spec, "volumes") if "hostPath" in volume]
    if names:
        yield "hostPath volumes", _of(names, "volume")


def _host_ports(pod: SecuredPod) -> Iterator[Fault]:
    used = {str(c.get("name", "")): _used_ports(c) for c in pod.containers}
    names = [name for name, ports in used.items() if ports]
    if names:
        ports = sorted(set().union(*used.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield "hostPort", f"{_of(names)} {verb} {_plural('hostPort', ports)} {', '.join(ports)}"


def _used_ports(container: JsonObject) -> set[str]:
    return {str(port["hostPort"]) for port in objects_at(container, "ports") if port.get("hostPort")}


def _host_probes(pod: SecuredPod) -> Iterator[Fault]:
    used = {str(container.get("name", "")): set(_probed_hosts(container)) for container in pod.containers}
    names = sorted(name for name, hosts in used.items() if hosts)
    if names:
        hosts = sorted(set().union(*used.values()))
        verb = "uses" if len(names) == 1 else "use"
        yield "probe or lifecycle host", f"{_of(names)} {verb} {_of(hosts, 'probe or lifecycle host')}"


def _probed_hosts(container: JsonObject) -> Iterator[str]:
    probes = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*probes, _at(container, "lifecycle", "postStart"), _at(container, "lifecycle", "preStop")):
        for way in ("httpGet", "tcpSocket"):
            if host := _at(handler, way, "host"):
                yield str(host)


def _privileged(pod: SecuredPod) -> Iterator[Fault]:
    _, privileged = pod.settings("privileged")
    names = [name for name, value in privileged if value]
    if names:
        yield "privileged", f"{_of(names)} must not set securityContext.privileged=true"


def _proc_mount(pod: SecuredPod) -> Iterator[Fault]:
    if not pod.in_user_namespace:
        yield from _proc_mount_anyway(pod)


def _proc_mount_anyway(pod: SecuredPod) -> Iterator[Fault]:
    _, mounts = pod.settings("procMount")
    bad = [(name, str(value)) for name, value in mounts if value != "Default"]
    if bad:
        values = _quoted(sorted({value for _, value in bad}))
        yield "procMount", f"{_of([name for name, _ in bad])} must not set securityContext.procMount to {values}"


def _selinux(pod: SecuredPod) -> Iterator[Fault]:
    own, others = pod.settings("seLinuxOptions")
    allowed = {*SELINUX_TYPES, *([ENGINE_TYPE] if pod.minor >= ENGINE_SINCE else [])}
    bad = [(name, options) for name, options in others if _is_bad_selinux(options, allowed)]
    pod_is_bad = own is not None and _is_bad_selinux(own, allowed)
    options = [options for _, options in bad] + ([own] if pod_is_bad else [])
    types = sorted({str(_at(option, "type") or "") for option in options} - allowed)
    if options:
        data = [_of(types, "type")] if types else []
        data += [f"{name} may not be set" for name in ("user", "role") if any(_at(option, name) for option in options)]
        setters = _setters(pod_is_bad, [name for name, _ in bad])
        yield "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"


def _is_bad_selinux(options: object, allowed: set[str]) -> bool:
    return (_at(options, "type") or "") not in allowed or bool(_at(options, "user") or _at(options, "role"))


def _seccomp(pod: SecuredPod) -> Iterator[Fault]:
    if pod.minor < 19:
        keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in pod.named(pod.containers))]
        values = {key: str(pod.annotations[key]) for key in keys if key in pod.annotations}
        bad = sorted(f"{key}={go_quote(value)}" for key, value in values.items() if not _is_safe_seccomp(value))
        if bad:
            yield "seccompProfile", f"forbidden {_plural('annotation', bad)} {', '.join(bad)}"
        return
    yield from _bad_seccomp(pod)


def _is_safe_seccomp(profile: str) -> bool:
    return profile in ("runtime/default", "docker/default") or profile.startswith("localhost/")


def _bad_seccomp(pod: SecuredPod, at_all: bool = True) -> Iterator[Fault]:
    """Profiles that are set and forbidden; ``at_all``: by the pod itself, too."""
    own, others = pod.settings("seccompProfile", "type")
    bad = [(name, str(value)) for name, value in others if value not in _PROFILES]
    pod_is_bad = at_all and own is not None and own not in _PROFILES
    setters = _setters(pod_is_bad, [name for name, _ in bad])
    if setters:
        values = sorted({value for _, value in bad} | ({str(own)} if pod_is_bad else set()))
        yield "seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"


def _sysctls(pod: SecuredPod) -> Iterator[Fault]:
    allowed = frozenset().union(*(names for since, names in SYSCTLS.items() if pod.minor >= since))
    sysctls = objects_at(object_at(pod.spec, "securityContext"), "sysctls")
    bad = [str(sysctl.get("name", "")) for sysctl in sysctls if sysctl.get("name", "") not in allowed]
    if bad:
        yield "forbidden sysctls", ", ".join(bad)


def _windows_host_process(pod: SecuredPod) -> Iterator[Fault]:
    own, others = pod.settings("windowsOptions", "hostProcess")
    setters = _setters(bool(own), [name for name, value in others if value])
    if setters:
        yield "hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true"


# -- restricted ----------------------------------------------------------------------------------------------------


def _privilege_escalation(pod: SecuredPod) -> Iterator[Fault]:
    if pod.is_windows:
        return
    bad = [c for c in pod.containers if _at(c, "securityContext", "allowPrivilegeEscalation") is not False]
    if bad:
        must = "must set securityContext.allowPrivilegeEscalation=false"
        yield "allowPrivilegeEscalation != false", f"{_of(pod.named(bad))} {must}"


def _restricted_capabilities(pod: SecuredPod) -> Iterator[Fault]:
    if pod.is_windows:
        return
    keeping = [c for c in pod.containers if "ALL" not in _list(_at(c, "securityContext", "capabilities", "drop"))]
    added = {
        name: [c for c in _list(capabilities) if c != "NET_BIND_SERVICE"]
        for name, capabilities in pod.settings("capabilities", "add")[1]
    }
    adding = [name for name, capabilities in added.items() if capabilities]
    details = [f'{_of(pod.named(keeping))} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        names = _quoted(sorted({capability for capabilities in added.values() for capability in capabilities}))
        details.append(f"{_of(adding)} must not include {names} in {_ADDED}")
    if details:
        yield "unrestricted capabilities", "; ".join(details)


def _restricted_volumes(pod: SecuredPod) -> Iterator[Fault]:
    bad = [volume for volume in objects_at(pod.spec, "volumes") if not any(kind in volume for kind in SAFE_VOLUMES)]
    if bad:
        kinds = sorted({next((kind for kind in OTHER_VOLUMES if kind in volume), "unknown") for volume in bad})
        verb = "uses" if len(bad) == 1 else "use"
        yield (
            "restricted volume types",
            f"{_of(pod.named(bad), 'volume')} {verb} {_of(kinds, 'restricted volume type')}",
        )


def _run_as_non_root(pod: SecuredPod) -> Iterator[Fault]:
    if pod.in_user_namespace:
        return
    own, others = pod.settings("runAsNonRoot")
    setters = _setters(own is False, [name for name, value in others if value is False])
    silent = [name for name in pod.named(pod.containers) if name not in dict(others)]
    if setters:
        yield "runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false"
    elif silent and own is not True:
        yield "runAsNonRoot != true", f"pod or {_of(silent)} must set securityContext.runAsNonRoot=true"


def _run_as_user(pod: SecuredPod) -> Iterator[Fault]:
    if pod.in_user_namespace:
        return
    own, others = pod.settings("runAsUser")
    setters = _setters(own == 0 and own is not None, [name for name, value in others if value == 0])
    if setters:
        yield "runAsUser=0", f"{setters} must not set runAsUser=0"


def _restricted_seccomp(pod: SecuredPod) -> Iterator[Fault]:
    if pod.is_windows:
        return
    bad = list(_bad_seccomp(pod))
    own, _ = pod.settings("seccompProfile", "type")
    having = {str(c.get("name", "")) for c in pod.containers if _at(c, "securityContext", "seccompProfile") is not None}
    silent = [name for name in pod.named(pod.containers) if name not in having]
    if bad:
        yield from bad
    elif silent and own not in _PROFILES:
        must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield "seccompProfile", f"pod or {_of(silent)} {must}"


def _list(value: object) -> Sequence[str]:
    return value if isinstance(value, list) else ()


# -- the standard --------------------------------------------------------------------------------------------------


class Check(NamedTuple):
    """A check of one level; ``since``: the minor version; ``overrides`` is the check that it stands for."""

    find: Callable[[SecuredPod], Iterator[Fault]]
    since: int = 0
    overrides: str = ""


BASELINE: Mapping[str, Check] = {
    "appArmorProfile": Check(_app_armor),
    "capabilities_baseline": Check(_capabilities),
    "hostNamespaces": Check(_host_namespaces),
    "hostPathVolumes": Check(_host_paths),
    "hostPorts": Check(_host_ports),
    "hostProbesAndHostLifecycle": Check(_host_probes, 34),
    "privileged": Check(_privileged),
    "procMount": Check(_proc_mount),
    "seLinuxOptions": Check(_selinux),
    "seccompProfile_baseline": Check(_seccomp),
    "sysctls": Check(_sysctls),
    "windowsHostProcess": Check(_windows_host_process),
}
RESTRICTED: Mapping[str, Check] = {
    "allowPrivilegeEscalation": Check(_privilege_escalation, 8),
    "capabilities_restricted": Check(_restricted_capabilities, 22, "capabilities_baseline"),
    "procMount_restricted": Check(_proc_mount_anyway, 35, "procMount"),
    "restrictedVolumes": Check(_restricted_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": Check(_run_as_non_root),
    "runAsUser": Check(_run_as_user, 23),
    "seccompProfile_restricted": Check(_restricted_seccomp, 19, "seccompProfile_baseline"),
}


def violations(pod: JsonObject, level: str, version: str) -> str:
    """What a level of a version (``latest``, ``v1.30``) forbids of a pod; empty for nothing."""
    if level not in ("baseline", "restricted"):
        return ""
    minor = LATEST if version == "latest" else min(int(version.partition(".")[2]), LATEST)
    secured = SecuredPod(pod, minor)
    stricter = [check for check in RESTRICTED.values() if check.since <= minor] if level == "restricted" else []
    overridden = {check.overrides for check in stricter}
    checks = [c for name, c in BASELINE.items() if c.since <= minor and name not in overridden] + stricter
    faults = [fault for check in checks for fault in check.find(secured)]
    return ", ".join(f"{what} ({who})" if who else what for what, who in faults)
