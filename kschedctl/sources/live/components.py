"""Detection of the settings of a live cluster's kube-scheduler, kube-apiserver and Cluster Autoscaler."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from kschedctl.api.component_flags import (
    API_SERVER,
    API_SERVER_NAMESPACE,
    AUTOSCALER,
    DEFAULT_API_SERVER,
    ApiServerInstance,
    AutoscalerInstance,
    ContainerOwner,
    find_api_server,
    find_cluster_autoscaler,
    iter_flags,
)
from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION, KubeVersion, clamp_minor, describe_version_substitute
from kschedctl.cluster import SchedulerInstance
from kschedctl.errors import ClusterError, InputError
from kschedctl.scheduler.framework.feature_gates import BOOLEANS
from kschedctl.sources.documents.yaml_documents import parse_yaml
from kschedctl.sources.live.http import RefusedError, Server, quote_segment
from kschedctl.text.printable import strip_url

T = TypeVar("T")
log = logging.getLogger(__name__)

CONFIGURATION = "KubeSchedulerConfiguration"
SYSTEM = "/api/v1/namespaces/kube-system"
SCHEDULER_PODS = f"{SYSTEM}/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
CONFIG_MAPS = ("kube-scheduler", "kube-scheduler-config", "scheduler-config", "kube-scheduler-configuration")
"""The ConfigMaps in which installers store the configuration, for schedulers whose pods are not visible."""
REPORTED_FLAGS = (
    *("config", "feature-gates", "leader-elect", "leader-elect-resource-name", "leader-elect-resource-namespace"),
    "leader-elect-lease-duration",
)
MAX_INSTANCES = 100
"""The maximum number of scheduler pods that are reported."""
MAX_FLAG_LENGTH = 4096
"""The maximum number of characters of a flag that are reported."""
MAX_CONFIGURATION_LENGTH = 1 << 20
"""The maximum number of bytes that a ConfigMap can hold."""


class SchedulerSetup(NamedTuple):
    """The visible setup of kube-scheduler."""

    version: str = KUBE_VERSION
    """The version that will be replayed."""
    server_version: str = ""
    """The version that the API server reports."""
    configuration: JsonObject | None = None
    configured_by: str = ""
    """The name of the ConfigMap with the configuration."""
    feature_gates: Mapping[str, bool] = {}
    leader: str = ""
    """The holder of the leader election Lease."""
    instances: tuple[SchedulerInstance, ...] = ()
    warnings: tuple[str, ...] = ()
    """Known differences from the scheduler that will be replayed."""


class ReplayedVersion(NamedTuple):
    """The version of the scheduler that is replayed for a server."""

    version: str
    server_version: str
    """The version that the API server reports."""
    warnings: tuple[str, ...] = ()
    """A warning if the versions differ."""


class _FoundConfiguration(NamedTuple):
    """The scheduler's configuration in a ConfigMap, if there is one."""

    document: JsonObject | None = None
    config_map: str = ""
    """The ConfigMap with the configuration or with the problem."""
    problem: str = ""
    """The reason why the ConfigMap cannot be used, or ""."""


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""


class _Volume(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    config_map: _Reference | None = None


class _Mount(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    mount_path: str = ""


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[_Mount] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []
    volumes: list[_Volume] | None = None


class _PodName(msgspec.Struct, frozen=True):
    name: str = ""


class _SchedulerPod(msgspec.Struct, frozen=True):
    metadata: _PodName = _PodName()
    spec: _Spec = _Spec()


class _SchedulerPods(msgspec.Struct, frozen=True):
    items: list[_SchedulerPod] | None = None


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = ""
    minor: str = ""


def read_replayed_version(server: Server) -> ReplayedVersion:
    """Read the server's version, and choose the nearest supported version to replay.

    If the server does not report its version, or if the user may not read it, the default version is replayed. A
    warning reports this case, or that the replayed version differs from the server's. Raises ClusterError if the server
    cannot be reached or fails.
    """
    server_info = _get_object_if_permitted(server, "/version", _Version) or _Version()
    minor_match = re.match(r"\d{1,4}", server_info.minor)
    if server_info.major != "1" or minor_match is None:
        warning = f"the API server does not report its version, so {KUBE_VERSION} is replayed"
        return ReplayedVersion(KUBE_VERSION, server_info.git_version, (warning,))
    server_minor = int(minor_match[0])
    replayed_minor = clamp_minor(server_minor)
    if replayed_minor == server_minor:
        version = _parse_patch_version(server_info.git_version, server_minor)
    else:
        version = f"1.{replayed_minor}"
    difference = describe_version_substitute(server_info.git_version, server_minor)
    return ReplayedVersion(version, server_info.git_version, (difference,) if difference else ())


def _parse_patch_version(git_version: str, minor: int) -> str:
    """Return the version with its patch, such as ``1.34.1`` for ``v1.34.1-eks-3abc``.

    Return only the minor version if the text cannot be parsed or has another minor version.
    """
    try:
        version = KubeVersion.parse(git_version)
    except ValueError:
        return f"1.{minor}"
    return str(version) if version.minor == minor else f"1.{minor}"


def read_scheduler_setup(server: Server) -> SchedulerSetup:
    """Read kube-scheduler's setup: its version, leader, pods, flags and configuration.

    At most MAX_INSTANCES pods are described. Parts that the user may not read get defaults. A warning says if the
    configuration is unknown or unusable. Raises ClusterError if the server cannot be reached or fails.
    """
    version, server_version, warnings = read_replayed_version(server)
    lease = _get_object_if_permitted(server, LEASE, _Lease)
    pod_list = _get_object_if_permitted(
        server, SCHEDULER_PODS, _SchedulerPods, {"labelSelector": "component=kube-scheduler"}
    )
    pods = (pod_list.items or []) if pod_list else []
    pod_spec = pods[0].spec if pods else None
    flags = _parse_scheduler_flags(pod_spec) if pod_spec else {}

    detected = _detect_configuration(server, pod_spec, path=flags.get("config", ""))
    warnings += tuple(_iter_configuration_warnings(detected, path=flags.get("config", "")))

    return SchedulerSetup(
        version=version,
        server_version=server_version,
        configuration=detected.document,
        configured_by=detected.config_map,
        feature_gates=dict(_iter_feature_gates(flags.get("feature-gates", ""))),
        leader=(lease.spec.holder_identity or "") if lease else "",
        instances=tuple(map(_build_scheduler_instance, pods[:MAX_INSTANCES])),
        warnings=warnings,
    )


def _iter_configuration_warnings(detected: _FoundConfiguration, path: str) -> Iterator[str]:
    """Yield a warning if the scheduler's configuration is unusable, or if none was found for the path of --config.

    The path is "" if the scheduler runs without --config or its flags are not visible.
    """
    if detected.problem:
        yield f"{detected.problem}, so kube-scheduler's default configuration is replayed unless --config is given"
    elif path and detected.document is None:
        hint = "pass a copy of it with --config"
        yield f"kube-scheduler runs with --config={path}, which cannot be read from here: {hint}"


def _detect_configuration(server: Server, pod_spec: _Spec | None, path: str) -> _FoundConfiguration:
    """Search for the scheduler's configuration in the ConfigMaps that its pod mounts above the path of --config.

    If the pod is not visible, the usual ConfigMaps of installers are searched. The result is empty if the pod runs
    without --config or no ConfigMap contains a configuration. If a configuration is malformed, the result describes the
    problem.
    """
    if pod_spec is not None and not path:
        return _FoundConfiguration()
    names = list(_iter_mounted_config_maps(pod_spec, path)) if pod_spec else CONFIG_MAPS
    for name in names:
        where = f"ConfigMap kube-system/{name}"
        try:
            document = _read_scheduler_configuration(server, name, key=path.rpartition("/")[2])
        except InputError as error:
            problem = str(error) if error.where else f"{where}: {error}"
            return _FoundConfiguration(config_map=where, problem=problem)
        if document:
            return _FoundConfiguration(document, config_map=where)
    return _FoundConfiguration()


def _read_scheduler_configuration(server: Server, name: str, *, key: str) -> JsonObject | None:
    """Return the KubeSchedulerConfiguration in a ConfigMap, or None if there is none or reading it is forbidden.

    Only the entry `key` is searched if the ConfigMap has it, otherwise all entries. Raises InputError if the
    configuration is malformed, and ClusterError if the server fails.
    """
    config_map = _get_object_if_permitted(server, f"{SYSTEM}/configmaps/{quote_segment(name)}", _ConfigMap)
    data = (config_map.data or {}) if config_map else {}
    texts = [data[key]] if key in data else list(data.values())
    for text in texts:
        if CONFIGURATION in text:
            document = _find_scheduler_configuration(text, f"ConfigMap kube-system/{name}")
            if document:
                return document
    return None


def _iter_mounted_config_maps(pod_spec: _Spec, path: str) -> Iterator[str]:
    """Yield the names of the ConfigMaps whose mount path in a container is a prefix of the path."""
    mounts = (mount for container in pod_spec.containers for mount in container.volume_mounts or ())
    mounted_volumes = {mount.name for mount in mounts if path.startswith(mount.mount_path)}
    for volume in pod_spec.volumes or ():
        if volume.config_map and volume.name in mounted_volumes:
            yield volume.config_map.name


def _find_scheduler_configuration(text: str, where: str) -> JsonObject | None:
    """Return the KubeSchedulerConfiguration in a ConfigMap's value, or None.

    Raises InputError if the value is malformed or longer than MAX_CONFIGURATION_LENGTH.
    """
    if len(text) > MAX_CONFIGURATION_LENGTH:
        raise InputError(f"more than {MAX_CONFIGURATION_LENGTH:,} characters", where=where)
    for document in parse_yaml(text, where):
        if isinstance(document.value, dict) and document.value.get("kind") == CONFIGURATION:
            return document.value
    return None


def _parse_scheduler_flags(pod_spec: _Spec) -> dict[str, str]:
    """Return the value of each flag in the command line of kube-scheduler's pod. The last value of a flag counts."""
    words = (
        word for container in pod_spec.containers for word in (*(container.command or ()), *(container.args or ()))
    )
    return dict(iter_flags(tuple(words)))


def _build_scheduler_instance(pod: _SchedulerPod) -> SchedulerInstance:
    """Build the description of a scheduler pod, with the tag of its first image and REPORTED_FLAGS.

    Credentials are removed from the flags' values, and long values are cut off.
    """
    images = [container.image for container in pod.spec.containers]
    tag = images[0].rpartition(":")[2] if images else ""
    all_flags = _parse_scheduler_flags(pod.spec)
    flags = {name: strip_url(all_flags[name])[:MAX_FLAG_LENGTH] for name in REPORTED_FLAGS if name in all_flags}
    return SchedulerInstance(pod.metadata.name, tag, flags)


def _iter_feature_gates(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the name and the state of each feature gate in the value of --feature-gates.

    An invalid state counts as off. The prefix ``kube:`` is removed.
    """
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if equals:
            yield name.strip().removeprefix("kube:"), BOOLEANS.get(value.strip(), False)


def _get_object_if_permitted(
    server: Server, path: str, struct: type[T], query: Mapping[str, str] | None = None
) -> T | None:
    """Return the decoded object at the path, or None if the server denies it (4xx).

    Raises ClusterError if the request fails otherwise.
    """
    try:
        return server.get_decoded_body(path, query, get_json_decoder(struct).decode)
    except RefusedError as error:
        log.info("%s: %s", path, error.message)
        return None


AUTOSCALER_PODS = "/api/v1/pods"
CLOUDS = ("aws", "azure", "civo", "clusterapi", "exoscale", "gce", "hetzner", "magnum", "oci", "rancher")
_CHARTS = ",".join((AUTOSCALER, *(f"{cloud}-{AUTOSCALER}" for cloud in CLOUDS)))
AUTOSCALER_SELECTORS = (f"app={AUTOSCALER}", f"k8s-app={AUTOSCALER}", f"app.kubernetes.io/name in ({_CHARTS})")
"""The labels of the autoscaler in upstream's examples, in kOps and OpenShift, and in the Helm chart."""


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[ContainerOwner, ...] | None = None


def list_container_owners(server: Server, path: str, selector: str) -> tuple[ContainerOwner, ...]:
    """List the pods that a label selector selects, reduced to their command lines.

    Raises RefusedError if the server denies the request, and ClusterError if the request fails otherwise.
    """
    return server.get_decoded_body(path, {"labelSelector": selector}, get_json_decoder(_Pods).decode).items or ()


def read_autoscaler_flags(server: Server) -> AutoscalerInstance | None:
    """Read the Cluster Autoscaler's flags and version, or return None if its pod is not visible.

    Errors are only logged.
    """
    for selector in AUTOSCALER_SELECTORS:
        try:
            owners = list_container_owners(server, AUTOSCALER_PODS, selector)
        except (RefusedError, ClusterError) as error:
            log.info("pods of the %s: %s", AUTOSCALER, error)
            return None
        if instance := find_cluster_autoscaler(owners, "Pod"):
            return instance
    return None


API_SERVER_PODS = f"/api/v1/namespaces/{API_SERVER_NAMESPACE}/pods"
API_SERVER_SELECTOR = f"component={API_SERVER}"
"""The label of kube-apiserver's pods in clusters of kubeadm and most other installers."""


def read_api_server_flags(server: Server) -> ApiServerInstance:
    """Read the kube-apiserver flags that affect scheduling, or return the defaults if its pod is not visible.

    Errors are only logged.
    """
    try:
        owners = list_container_owners(server, API_SERVER_PODS, API_SERVER_SELECTOR)
    except (RefusedError, ClusterError) as error:
        log.info("pods of %s: %s", API_SERVER, error)
        owners = ()
    return find_api_server(owners, "Pod") or DEFAULT_API_SERVER
