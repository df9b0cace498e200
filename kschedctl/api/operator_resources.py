"""Custom resources whose operators create pods: the number of pods they ask for, and their status.

Only the operator knows the shape of these pods. Specification and status differ between operators and are dropped once
these facts have been extracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kschedctl.api.api_versions import get_group
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.objects import Condition, Int64, ObjectMeta, Struct
from kschedctl.api.operated_pod_sets import NO_POD_SETS, OperatedPodSets, read_pod_sets

KUBERNETES_PROJECTS_WITH_PODS = frozenset({"jobset.x-k8s.io", "leaderworkerset.x-k8s.io"})
"""The only API groups that end with ``.k8s.io`` and have resources whose controllers create pods directly."""

KINDS_WITHOUT_PODS = frozenset(
    (
        *("ServiceMonitor", "PodMonitor", "PrometheusRule", "Probe", "ScrapeConfig", "AlertmanagerConfig"),
        *("Certificate", "Issuer", "ClusterIssuer", "CertificateRequest", "ExternalSecret", "ClusterExternalSecret"),
        *("SecretStore", "ClusterSecretStore", "SealedSecret", "VaultStaticSecret", "VirtualService"),
        *("DestinationRule", "ServiceEntry", "Sidecar", "EnvoyFilter", "AuthorizationPolicy", "PeerAuthentication"),
        *("Telemetry", "RequestAuthentication", "IngressRoute", "IngressRouteTCP", "IngressRouteUDP", "Middleware"),
        *("ServersTransport", "TLSOption", "ScaledObject", "TriggerAuthentication", "ClusterTriggerAuthentication"),
        *("NodePool", "EC2NodeClass", "AppProject", "AnalysisTemplate", "GitRepository", "HelmRepository"),
        *("OCIRepository", "ClusterPolicy", "Policy", "PolicyException", "CiliumNetworkPolicy"),
        *("CiliumClusterwideNetworkPolicy", "KafkaTopic", "KafkaUser", "BackendConfig", "FrontendConfig"),
        *("ManagedCertificate", "PodMonitoring"),
    )
)
"""Kinds of custom resources whose controllers create no pods."""

_INSTALLERS = frozenset({"HelmRelease", "HelmChart", "Application", "ApplicationSet", "Kustomization"})
"""Kinds that install other manifests, whatever numbers their values contain."""

_MACHINE_GROUPS = ("cluster.x-k8s.io", "machine.openshift.io", "karpenter.", "eks.amazonaws.com", "volcano.sh")
"""Prefixes or suffixes of API groups whose resources represent nodes and queues, not pods."""

_COUNT_FIELDS = ("replicas", "instances", "numberOfInstances", "replicasCount", "parallelism")
"""Fields that hold a number of pods, in order of precedence."""

_TOP_LEVEL_COUNT_FIELDS = ("count", "size", "clusterSize", "nodeCount", "members", "brokers")
"""Fields that hold a number of pods only directly in a specification or in a list entry."""

_SINGLE_POD_PARTS = ("headGroupSpec", "driver")
"""Parts of a specification that stand for one pod: Ray's head and Spark's driver."""

_PARTS_WITHOUT_COUNTS = frozenset(
    {"metadata", "resources", "affinity", "storage", "volumes", "volumeClaimTemplate", "config", "env", "listeners"}
)
"""Parts of a specification in which numbers do not count pods."""

_ENDED = frozenset({"completed", "complete", "succeeded", "failed", "finished", "stopped"})
_PHASES = ("phase", "state", "jobDeploymentStatus", "jobStatus", "PostgresClusterStatus", "lifecycleState")
_MESSAGES = ("message", "reason", "phaseReason", "errorMessage", "error")


class OperatorResource(Struct, frozen=True):
    """A custom resource whose operator creates pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    """Cleared once the facts are extracted."""
    status: Any = None
    """Cleared once the facts are extracted."""
    expected_pods: Int64 | None = None
    """The number of pods that the resource asks for, or None if no field states it."""
    suspended: bool = False
    """True if the resource currently asks for no pods."""
    phase: str = ""
    """The phase in the operator's words."""
    message: str = ""
    """The message in the operator's words."""
    conditions: tuple[Condition, ...] = ()
    pod_sets: OperatedPodSets = NO_POD_SETS
    """The pods by which Kueue admits the resource."""

    def __post_init__(self) -> None:
        spec = self.spec
        status = self.status
        if isinstance(spec, Mapping):
            force_setattr(self, "expected_pods", count_requested_pods(spec))
            force_setattr(self, "pod_sets", read_pod_sets(spec, self.metadata.annotations))
            policy = object_at(spec, "runPolicy")
            force_setattr(self, "suspended", any(holder.get("suspend") is True for holder in (spec, policy)))
        if isinstance(status, Mapping):
            force_setattr(self, "phase", _find_status_text(status, _PHASES))
            force_setattr(self, "message", _find_status_text(status, _MESSAGES))
            force_setattr(self, "conditions", tuple(_iter_conditions(status)))
        force_setattr(self, "spec", None)
        force_setattr(self, "status", None)

    @property
    def has_ended(self) -> bool:
        """Return whether the operator reports that the resource has finished and needs no more pods."""
        ended = any(condition.status == "True" and condition.type.lower() in _ENDED for condition in self.conditions)
        return ended or self.phase.lower() in _ENDED


class CustomResource(OperatorResource, frozen=True):
    """A custom resource of a kind without its own entry in Objects that seems to create pods."""

    api_version: str = ""
    resource_kind: str = ""


def may_create_pods(document: JsonObject) -> bool:
    """Return whether the document looks like a custom resource whose operator creates pods.

    Such a resource has an API group that is not Kubernetes' own, and its specification contains a number of replicas or
    a pod template. Known kinds that create no pods, installers and machines do not count.

    >>> kafka = {"apiVersion": "example.com/v1", "kind": "Db", "spec": {"replicas": 3}}
    >>> may_create_pods(kafka), may_create_pods({**kafka, "kind": "KafkaTopic"}), may_create_pods({"kind": "Pod"})
    (True, False, False)
    """
    group = get_group(str(document.get("apiVersion") or ""))
    kind = document.get("kind")
    spec = document.get("spec")
    if not is_custom_group(group) or kind in KINDS_WITHOUT_PODS or kind in _INSTALLERS:
        return False
    if any(group.startswith(part) or group.endswith(part) for part in _MACHINE_GROUPS):
        return False
    return isinstance(spec, Mapping) and (count_requested_pods(spec) is not None or _has_pod_template(spec))


def is_custom_group(group: str) -> bool:
    """Return whether controllers outside Kubernetes itself may create pods for objects of this API group.

    The group is not Kubernetes' own, or it belongs to one of the known projects under Kubernetes' domain.
    """
    return "." in group and (group in KUBERNETES_PROJECTS_WITH_PODS or not group.endswith("k8s.io"))


def build_custom_resource(document: JsonObject) -> CustomResource | None:
    """Parse a custom resource whose operator may create pods.

    Returns None if the metadata is invalid or has no usable name.
    """
    spec = document.get("spec")
    status = document.get("status")
    metadata_fields = {key: value for key, value in object_at(document, "metadata").items() if value is not None}
    try:
        metadata = convert_builtins(metadata_fields, ObjectMeta)
    except msgspec.ValidationError:
        return None
    if not metadata.name or "/" in f"{metadata.name}{metadata.namespace}":  # a slash separates them in keys
        return None
    return CustomResource(
        metadata,
        spec,
        status,
        api_version=str(document.get("apiVersion") or ""),
        resource_kind=str(document.get("kind") or ""),
    )


def count_requested_pods(spec: JsonObject) -> int | None:
    """Return the number of pods that a specification asks for, or None if no known field states it.

    The counts of its parts are added. If a part has a template with counts, the part's count multiplies them.

    >>> count_requested_pods({"kafka": {"replicas": 3}, "zookeeper": {"replicas": 2}})
    5
    >>> count_requested_pods({"headGroupSpec": {}, "workerGroupSpecs": [{"replicas": 2}, {"replicas": 4}]})
    7
    >>> count_requested_pods({"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}]})
    6
    >>> count_requested_pods({"version": 16}) is None
    True
    """
    return _count_pods_of_nested_object(spec, (*_COUNT_FIELDS, *_TOP_LEVEL_COUNT_FIELDS))


def _count_pods_of_nested_object(part: JsonObject, fields: tuple[str, ...]) -> int | None:
    """Count the pods that an object in a custom resource's specification and its nested objects ask for.

    The object's own count is the first number among `fields`. This count multiplies the counts of nested objects if the
    object has a template. Otherwise, all counts are added up. Returns None if neither the object nor a nested one
    states a number.
    """
    stated_counts = [_as_count(part.get(field)) for field in fields]
    own_count = next((count for count in stated_counts if count is not None), None)
    field_counts = [_count_pods_of_field(field, inner) for field, inner in part.items()]
    inner_counts = [count for count in field_counts if count is not None]
    if own_count is None:
        return sum(inner_counts) if inner_counts else None

    # JobSet's replicatedJobs have a template, LeaderWorkerSets a leaderWorkerTemplate
    has_template = any(isinstance(part.get(field), dict) for field in ("template", "leaderWorkerTemplate"))
    if inner_counts and has_template:
        return own_count * sum(inner_counts)
    return own_count + sum(inner_counts)


def _count_pods_of_field(field: str, part: object) -> int | None:
    """Count the pods that a field of a custom resource asks for. The field may hold one part or a list of parts.

    An entry of a list named `instances` counts as one pod if it states no number. A field in _SINGLE_POD_PARTS has one
    pod in addition to the pods of its nested parts. Returns None if the field has no pods or states no number.
    """
    if field in _PARTS_WITHOUT_COUNTS:
        return None
    if isinstance(part, list):
        entry_counts = [count_requested_pods(entry) for entry in part if isinstance(entry, dict)]
        if field == "instances":  # sets of Crunchy's PostgresCluster have one pod by default
            return sum(1 if count is None else count for count in entry_counts)
        stated_counts = [count for count in entry_counts if count is not None]
        return sum(stated_counts) if stated_counts else None
    if not isinstance(part, dict):
        return None
    count_fields = (*_COUNT_FIELDS, "size") if field == "leaderWorkerTemplate" else _COUNT_FIELDS
    inner_count = _count_pods_of_nested_object(part, count_fields)
    if field in _SINGLE_POD_PARTS:
        return 1 + (inner_count or 0)
    return inner_count


def _as_count(value: object) -> int | None:
    """Return the value if it can be a number of pods, a non-negative 32-bit integer. Otherwise, return None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**31 else None


def _has_pod_template(value: object) -> bool:
    """Return whether a mapping in the value, at any depth, has a list of containers that is not empty."""
    unvisited = [value]
    while unvisited:
        inner = unvisited.pop()
        if isinstance(inner, list):
            unvisited += inner
        elif isinstance(inner, dict):
            containers = array_at(inner, "containers")
            if containers and all(isinstance(container, dict) for container in containers):
                return True
            unvisited += inner.values()
    return False


def _find_status_text(status: JsonObject, fields: tuple[str, ...]) -> str:
    """Return the first non-empty text among these fields of a custom resource's status, or "".

    If the status itself has none, the nested status of an application or job is searched.
    """
    for holder in (status, object_at(status, "applicationState"), object_at(status, "jobStatus")):
        for field in fields:
            text = holder.get(field)
            if isinstance(text, str) and text:
                return text
    return ""


def _iter_conditions(status: JsonObject) -> Iterator[Condition]:
    """Yield the conditions in a custom resource's status. Values that are not strings become ""."""
    for condition in array_at(status, "conditions"):
        if isinstance(condition, Mapping):
            values = {field: condition.get(field) for field in ("type", "status", "reason", "message")}
            yield Condition(**{field: value if isinstance(value, str) else "" for field, value in values.items()})
