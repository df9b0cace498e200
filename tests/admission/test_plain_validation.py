"""Check the validation of pod fields that scheduling never reads, by the functions of upstream's validation.go
(v1.36)."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]
THERE = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
]
C = "spec.containers[0]."
RANGE = "must be between 0 and 2147483647, inclusive"
OF_POD: dict[str, tuple[Json, str]] = {
    "ValidatePodSpec, activeDeadlineSeconds": (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    "validateDNSPolicy": (
        {"dnsPolicy": "Mine"},
        'spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst",'
        ' "Default", "None"',
    ),
    "ValidatePodSecurityContext, runAsUser": (
        {"securityContext": {"runAsUser": -1}},
        f"spec.securityContext.runAsUser: Invalid value: -1: {RANGE}",
    ),
    "ValidatePodSecurityContext, shareProcessNamespace": (
        {"shareProcessNamespace": True, "hostPID": True},
        "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
    ),
    "validateOS": (
        {"os": {"name": "plan9"}},
        'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"',
    ),
    "validatePodDNSConfig, none": (
        {"dnsPolicy": "None"},
        "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    "validatePodDNSConfig, no server": (
        {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
        "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
    ),
    "validatePodDNSConfig, no address": (
        {"dnsConfig": {"nameservers": ["010.0.0.1", "here"]}},
        'spec.dnsConfig.nameservers[1]: Invalid value: "here": must be a valid IP address, (e.g. 10.9.8.7 or'
        " 2001:db8::ffff)",
    ),
    "validatePodDNSConfig, option": (
        {"dnsConfig": {"options": [{"value": "2"}]}},
        "spec.dnsConfig.options[0]: Required value: must not be empty",
    ),
    "validateSysctls": (
        {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}, {"name": "A", "value": "1"}]}},
        'spec.securityContext.sysctls[1].name: Invalid value: "A": must have at most 253 characters and match regex'
        " ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
    ),
    "validateSysctls, twice": (
        {"securityContext": {"sysctls": [{"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}]}},
        'spec.securityContext.sysctls[1].name: Duplicate value: "a.b"',
    ),
    "validateOS, no name": ({"os": {}}, "spec.os.name: Required value"),
    "validateOS, a known one": ({"os": {"name": "linux"}}, ""),
}
OF_CONTAINER: dict[str, tuple[Json, str]] = {
    "validatePullPolicy": (
        {"imagePullPolicy": "Often"},
        C + 'imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"',
    ),
    "ValidateEnv, no name": ({"env": [{"value": "a"}]}, C + "env[0].name: Required value"),
    "ValidateEnv": (
        {"env": [{"name": "a=b"}]},
        C + 'env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII'
        " characters other than '='",
    ),
    "validateEnvVarValueFrom, none": (
        {"env": [{"name": "A", "valueFrom": {}}]},
        C
        + 'env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`,'
        " `secretKeyRef` or `fileKeyRef`",
    ),
    "validateEnvVarValueFrom, a value too": (
        {"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        C + 'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    "validateEnvVarValueFrom, two": (
        {
            "env": [
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "resourceFieldRef": {"resource": "limits.cpu"},
                    },
                }
            ]
        },
        C + 'env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time',
    ),
    "validateSecretKeySelector": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
        C + "env[0].valueFrom.secretKeyRef.key: Required value",
    ),
    "validateObjectFieldSelector": (
        {
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "B", "valueFrom": {"fieldRef": {}}},
            ]
        },
        C + "env[1].valueFrom.fieldRef.fieldPath: Required value",
    ),
    "validateContainerResourceFieldSelector": (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.pods"}}}]},
        C + 'env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.pods": supported values:'
        ' "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",'
        ' "requests.memory"',
    ),
    "ValidateSecurityContext": (
        {"securityContext": {"runAsGroup": -2}},
        C + f"securityContext.runAsGroup: Invalid value: -2: {RANGE}",
    ),
    "ValidateSecurityContext, procMount": (
        {"securityContext": {"procMount": "Unmasked"}},
        C + 'securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`',
    ),
    "validateHandler, none": (
        {"livenessProbe": {}},
        C + "livenessProbe: Required value: must specify a handler type",
    ),
    "validateHandler, two": (
        {"readinessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}},
        C + "readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    "validateExecAction": (
        {"lifecycle": {"postStart": {"exec": {}}}},
        C + "lifecycle.postStart.exec.command: Required value",
    ),
    "validateProbe": (
        {"startupProbe": {"tcpSocket": {"port": 80}, "periodSeconds": -1}},
        C + "startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
    "validateTCPSocketAction": (
        {"startupProbe": {"tcpSocket": {"port": 0}}},
        C + "startupProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    "validateContainerCommon, terminationMessagePolicy": (
        {"terminationMessagePolicy": "Nowhere"},
        C + 'terminationMessagePolicy: Unsupported value: "Nowhere": supported values: "File", "FallbackToLogsOnError"',
    ),
}


def get_validation_message(spec: Json, container: Json) -> str:
    """Return the API server's message about a pod with this spec."""
    made = {"containers": [{"name": "c", "image": "i", **container}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": made}
    message = kschedctl.admit(kschedctl.Cluster.from_objects(THERE), pod).message
    return (message or "").removeprefix('Pod "p" is invalid: ')


@pytest.mark.parametrize("name", OF_POD)
def test_pod_fields(name: str) -> None:
    spec, wanted = OF_POD[name]
    assert get_validation_message(spec, {}) == wanted


@pytest.mark.parametrize("name", OF_CONTAINER)
def test_container_fields(name: str) -> None:
    container, wanted = OF_CONTAINER[name]
    assert get_validation_message({}, container) == wanted
