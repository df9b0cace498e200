"""Check Pod Security Standards against upstream's own tests of each check (policy/check_*_test.go, v1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.admission.pod_security import describe_violations

Json = dict[str, Any]


def build_pod(*contexts: Json, **spec: Any) -> Json:
    """Build a pod whose containers a, b, … have these security contexts."""
    containers = [{"name": chr(ord("a") + at), "securityContext": context} for at, context in enumerate(contexts)]
    return {"metadata": spec.pop("metadata", {}), "spec": {"containers": containers, **spec}}


SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CASES: dict[str, tuple[Json, str, str, str]] = {
    "TestPrivileged": (
        build_pod({}, {"privileged": True}, {"privileged": True}),
        "baseline",
        "latest",
        'privileged (containers "b", "c" must not set securityContext.privileged=true)',
    ),
    "TestHostNamespaces": (
        build_pod({}, hostNetwork=True, hostPID=True, hostIPC=True),
        "baseline",
        "latest",
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    "TestCapabilitiesBaseline": (
        build_pod({"capabilities": {"add": ["FOO", "BAR"]}}, {"capabilities": {"add": ["BAR", "CHOWN"]}}),
        "baseline",
        "latest",
        'non-default capabilities (containers "a", "b" must not include "BAR", "FOO" in'
        " securityContext.capabilities.add)",
    ),
    "TestHostPathVolumes": (
        build_pod(
            {}, volumes=[{"name": "a", "hostPath": {}}, {"name": "b", "emptyDir": {}}, {"name": "c", "hostPath": {}}]
        ),
        "baseline",
        "latest",
        'hostPath volumes (volumes "a", "c")',
    ),
    "TestSysctls, of an older version": (
        build_pod({}, securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "a"}]}),
        "baseline",
        "v1.31",
        "forbidden sysctls (net.ipv4.tcp_rmem, a)",
    ),
    "TestSysctls": (
        build_pod({}, securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "a"}]}),
        "baseline",
        "latest",
        "forbidden sysctls (a)",
    ),
    "TestSELinuxOptions": (
        build_pod(
            {"seLinuxOptions": {"type": "foo", "user": "u"}},
            securityContext={"seLinuxOptions": {"type": "bar", "role": "r"}},
        ),
        "baseline",
        "latest",
        'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: types "bar", "foo";'
        " user may not be set; role may not be set)",
    ),
    "TestSELinuxOptions, since 1.31": (
        build_pod({"seLinuxOptions": {"type": "container_engine_t"}}),
        "baseline",
        "v1.30",
        'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "container_engine_t")',
    ),
    "TestProcMount, in a user namespace": (
        build_pod({"procMount": "Unmasked"}, hostUsers=False),
        "baseline",
        "latest",
        "",
    ),
    "TestProcMount, before 1.35": (
        build_pod({"procMount": "Unmasked"}, hostUsers=False),
        "baseline",
        "v1.34",
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    "TestAppArmorProfile, by annotation": (
        build_pod({}, metadata={"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}),
        "baseline",
        "latest",
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to"
        ' "container.apparmor.security.beta.kubernetes.io/a="unconfined"")',
    ),
    "TestWindowsHostProcess": (
        build_pod({"windowsOptions": {"hostProcess": True}}, securityContext={"windowsOptions": {"hostProcess": True}}),
        "baseline",
        "latest",
        'hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    "TestSeccompProfileBaseline, before 1.19": (
        build_pod({}, metadata={"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}),
        "baseline",
        "v1.18",
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")',
    ),
    "TestRestrictedVolumes instead of host paths": (
        build_pod(SAFE, volumes=[{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "c", "secret": {}}]),
        "restricted",
        "latest",
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
    ),
    "TestRunAsUser": (
        build_pod({**SAFE, "runAsUser": 0}, securityContext={"runAsUser": 0}),
        "restricted",
        "latest",
        'runAsUser=0 (pod and container "a" must not set runAsUser=0)',
    ),
    "TestRunAsNonRoot, explicitly": (
        build_pod({**SAFE, "runAsNonRoot": False}),
        "restricted",
        "latest",
        'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    "TestAllowPrivilegeEscalation, of Windows": (
        build_pod({"runAsNonRoot": True}, os={"name": "windows"}),
        "restricted",
        "latest",
        "",
    ),
    "all of restricted is kept": (build_pod(SAFE), "restricted", "latest", ""),
    "privileged forbids nothing": (build_pod({"privileged": True}), "privileged", "latest", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_violations(name: str) -> None:
    made, level, version, wanted = CASES[name]
    assert describe_violations(made, level, version) == wanted
