"""Fields and kinds that not every version of the API has: its API server does not store them, and an answer says so.

Upstream: types.go and kube_features.go of v1.30 to v1.36. A field is dropped from new objects while its gate is off
(dropDisabledFields in pkg/api/pod/util.go, and its like of other kinds). An object that has it all the same, from a
time when the gate was on, is replayed as it is: kube-scheduler passes over most such fields, but looks at some to
refuse what it cannot heed (adminAccess since 1.32, firstAvailable, consumesCounters since 1.34, bindingConditions).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import KINDS, ReadFor, find_first_minor
from kschedctl.api.kube_version import NEWEST_MINOR, OLDEST_MINOR
from kschedctl.api.objects import PodSpec
from kschedctl.cluster import FIELDS as FIELDS_OF_CLUSTER
from kschedctl.cluster import Cluster
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates, stage_at
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures

Path = tuple[str | int, ...]


class VersionedField(NamedTuple):
    """A field of a kind, ``[]`` for each item of a list, and the gate without which it is dropped.

    ``since``: the first minor version whose API has it, where that is not the one that brought the gate; ``gated``: the
    first in which the gate decides, where the field is older. ``gone``: the first that has it no more, and what takes
    its place.
    """

    path: str
    gate: str
    since: int = OLDEST_MINOR
    gone: tuple[int, str] | None = None
    gated: int = OLDEST_MINOR

    @property
    def steps(self) -> Sequence[str]:
        return self.path.split(".")

    @property
    def name(self) -> str:
        """The field itself."""
        return self.path.rpartition(".")[2]

    def is_read(self, gates: FeatureGates) -> bool:
        """Whether a version with these gates keeps the field."""
        gone = self.gone is not None and gates.minor >= self.gone[0]
        return not gone and self.since <= gates.minor and (gates.minor < self.gated or self._is_on(gates))

    def needs(self, gates: FeatureGates) -> str:
        """What it would take to have it read; "" where it is, and where only a gate could that is never on by itself.

        >>> field = VersionedField("spec.resources", "PodLevelResources")
        >>> [field.needs(FeatureGates(version)) for version in ("1.33", "1.34")]
        ['needs 1.34, or the feature gate PodLevelResources', '']
        """
        if self.is_read(gates):
            return ""
        if self.gone is not None and gates.minor >= self.gone[0]:
            return f"is gone since 1.{self.gone[0]}: write {self.gone[1]}"
        gate, first, default = f"the feature gate {self.gate}", *self._minors()
        if default is None:
            return f"needs 1.{first} and {gate}" if gates.minor < first else ""
        if gates.minor >= default:
            return f"needs {gate}, which is off"
        if gates.minor >= first:
            return f"needs 1.{default}, or {gate}"
        return f"needs 1.{default}" + (f", or 1.{first} and {gate}" if first < default else "")

    def _is_on(self, gates: FeatureGates) -> bool:
        return gates.enabled(self.gate) if self.gate in GATE_STAGES else stage_at(self.gate, gates.minor).on

    def _minors(self) -> tuple[int, int | None]:
        """The first version that can read it, and the first that does by default."""
        stages = {minor: stage_at(self.gate, minor) for minor in range(self.since, NEWEST_MINOR + 1)}
        first = next(minor for minor, stage in stages.items() if stage.known)
        return first, next((minor for minor, stage in stages.items() if stage.on), None)


_SPREAD = "spec.topologySpreadConstraints[]"
_TERMS = tuple(
    f"spec.affinity.{part}.{term}"
    for part in ("podAffinity", "podAntiAffinity")
    for term in (
        "requiredDuringSchedulingIgnoredDuringExecution[]",
        "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    )
)
_AFFINITY, _INCLUSION = "MatchLabelKeysInPodAffinity", "NodeInclusionPolicyInPodTopologySpread"
_DRA, _CAPACITY, _CLASSES = "DynamicResourceAllocation", "DRAConsumableCapacity", "VolumeAttributesClass"
_REQUEST = "spec.devices.requests[]"
_CLAIM = (31, "resourceClaimName or resourceClaimTemplateName")

_OF_CONTAINERS = (
    ("resources.claims", _DRA, OLDEST_MINOR),
    ("resources.claims[].request", _DRA, 31),
    ("resizePolicy", "InPlacePodVerticalScaling", OLDEST_MINOR),
    ("restartPolicyRules", "ContainerRestartRules", OLDEST_MINOR),
    ("lifecycle.stopSignal", "ContainerStopSignals", OLDEST_MINOR),
    ("env[].valueFrom.fileKeyRef", "EnvFiles", OLDEST_MINOR),
    ("volumeMounts[].recursiveReadOnly", "RecursiveReadOnlyMounts", OLDEST_MINOR),
)

SPREAD_LABEL_KEYS = VersionedField(f"{_SPREAD}.matchLabelKeys", "MatchLabelKeysInPodTopologySpread")
TAINTS_POLICY = VersionedField(f"{_SPREAD}.nodeTaintsPolicy", _INCLUSION)
AFFINITY_LABEL_KEYS = VersionedField(f"{_TERMS[0]}.matchLabelKeys", _AFFINITY)

FIELDS: Mapping[str, tuple[VersionedField, ...]] = {
    "Pod": (
        VersionedField("spec.schedulingGroup", "GenericWorkload", since=36),
        VersionedField("spec.resources", "PodLevelResources"),
        VersionedField("spec.workloadRef", "GenericWorkload", since=35, gone=(36, "schedulingGroup")),
        VersionedField("spec.resourceClaims", _DRA),
        VersionedField("spec.resourceClaims[].source", _DRA, gone=_CLAIM),
        VersionedField("spec.resourceClaims[].resourceClaimName", _DRA, since=31),
        VersionedField("spec.resourceClaims[].resourceClaimTemplateName", _DRA, since=31),
        *(
            VersionedField(f"spec.{containers}[].{field}", gate, since)
            for containers in ("initContainers", "containers")
            for field, gate, since in _OF_CONTAINERS
        ),
        VersionedField("spec.initContainers[].restartPolicy", "SidecarContainers"),
        SPREAD_LABEL_KEYS,
        TAINTS_POLICY,
        VersionedField(f"{_SPREAD}.nodeAffinityPolicy", _INCLUSION),
        *(
            VersionedField(f"{term}.{keys}", _AFFINITY)
            for term in _TERMS
            for keys in ("matchLabelKeys", "mismatchLabelKeys")
        ),
        VersionedField("spec.volumes[].image", "ImageVolume"),
        VersionedField("spec.volumes[].ephemeral.volumeClaimTemplate.spec.volumeAttributesClassName", _CLASSES),
        VersionedField("spec.volumes[].projected.sources[].clusterTrustBundle", "ClusterTrustBundleProjection"),
        VersionedField("spec.volumes[].projected.sources[].podCertificate", "PodCertificateRequest"),
        VersionedField("spec.hostUsers", "UserNamespacesSupport"),
        VersionedField("spec.hostnameOverride", "HostnameOverride"),
        VersionedField("spec.securityContext.supplementalGroupsPolicy", "SupplementalGroupsPolicy"),
        VersionedField("spec.securityContext.seLinuxChangePolicy", "SELinuxChangePolicy"),
    ),
    "PersistentVolumeClaim": (VersionedField("spec.volumeAttributesClassName", _CLASSES),),
    "PersistentVolume": (VersionedField("spec.volumeAttributesClassName", _CLASSES),),
    "StatefulSet": (VersionedField("spec.volumeClaimTemplates[].spec.volumeAttributesClassName", _CLASSES),),
    "ResourceClaim": (
        VersionedField(f"{_REQUEST}.firstAvailable", "DRAPrioritizedList"),
        VersionedField(f"{_REQUEST}.adminAccess", "DRAAdminAccess", since=31, gated=32),
        VersionedField(f"{_REQUEST}.exactly.adminAccess", "DRAAdminAccess", since=31, gated=32),
        *(
            VersionedField(f"{_REQUEST}{part}.{field}", gate)
            for part in ("", ".exactly", ".firstAvailable[]")
            for field, gate in (("capacity", _CAPACITY), ("tolerations", "DRADeviceTaints"))
        ),
        VersionedField("spec.devices.constraints[].distinctAttribute", _CAPACITY),
    ),
    "DeviceClass": (VersionedField("spec.extendedResourceName", "DRAExtendedResource"),),
    "ResourceSlice": (
        *(
            VersionedField(f"spec.{field}", "DRAPartitionableDevices")
            for field in ("sharedCounters", "perDeviceNodeSelection", "devices[].consumesCounters")
        ),
        VersionedField("spec.devices[].taints", "DRADeviceTaints"),
        VersionedField("spec.devices[].bindsToNode", "DRADeviceBindingConditions"),
        VersionedField("spec.devices[].bindingConditions", "DRADeviceBindingConditions"),
        VersionedField("spec.devices[].allowMultipleAllocations", _CAPACITY),
        VersionedField("spec.devices[].nodeAllocatableResourceMappings", "DRANodeAllocatableResources"),
    ),
    "DeviceTaintRule": tuple(
        VersionedField(f"spec.deviceSelector.{field}", "DRADeviceTaints", gone=(35, "driver, pool or device"))
        for field in ("deviceClassName", "selectors")
    ),
    "Node": (VersionedField("status.declaredFeatures", NodeDeclaredFeatures.gate),),
    "CSIDriver": (VersionedField("spec.preventPodSchedulingIfMissing", "VolumeLimitScaling", since=36),),
}
"""Kind -> its fields that not every version reads, those of templates of pods and claims under what they make."""

_NEWER_KINDS = {
    kind.field: kind.name
    for kind in KINDS.values()
    if kind.read_for is ReadFor.SCHEDULING and kind.lifecycle and find_first_minor(kind.name) > OLDEST_MINOR
}
"""Field of a Cluster -> the kind that it holds and that older versions lack."""

_OTHERS = {kind: FIELDS_OF_CLUSTER[kind] for kind in FIELDS if kind in FIELDS_OF_CLUSTER and kind != "Pod"}


def unread(kind: str, document: JsonObject, gates: FeatureGates) -> Iterator[tuple[Path, VersionedField]]:
    """The fields of an object that a version with these gates does not store; of those in one of them only that one.

    >>> document = {"spec": {"volumes": [{"name": "v", "image": {"reference": "i"}}]}}
    >>> [(path, field.gate) for path, field in unread("Pod", document, FeatureGates("1.34"))]
    [(('spec', 'volumes', 0, 'image'), 'ImageVolume')]
    """
    paths: set[Path] = set()
    for field in FIELDS.get(kind, ()):
        for path in _found(document, field.steps, ()) if field.needs(gates) else ():
            if not any(path[: len(outer)] == outer for outer in paths):
                paths.add(path)
                yield path, field


def ignored_of_pods(specs: Iterable[PodSpec], gates: FeatureGates) -> Iterator[str]:
    """What a version with these gates does not store of any of the pods."""
    lacking = _lacking("Pod", gates)
    specs = tuple(specs) if lacking else ()
    yield from _told([field for field in lacking if any(_has(spec, field.steps[1:]) for spec in specs)], gates)


def group_ignored(specs: Iterable[PodSpec], gates: FeatureGates) -> Iterator[str]:
    """Pods of groups are placed one by one unless a gate is on, which their being there makes likely."""
    known = gates.minor >= find_first_minor("PodGroup") and not gates.enabled("GenericWorkload")
    if known and any(spec.scheduling_group is not None for spec in specs):
        yield "spec.schedulingGroup needs the feature gate GenericWorkload, which is off"


def ignored_of_cluster(cluster: Cluster, gates: FeatureGates) -> Iterator[str]:
    """The kinds of a cluster, and the fields of what is no pod, that a version with these gates does not store."""
    for kind, attribute in _OTHERS.items():
        objects = getattr(cluster, attribute)
        lacking = _lacking(kind, gates) if objects else ()
        versioned = [field for field in lacking if any(_has(obj, field.steps) for obj in objects)]
        yield from (line.replace(" ", f" of {kind} ", 1) for line in _told(versioned, gates))
    for name, kind in _NEWER_KINDS.items():
        if gates.minor < find_first_minor(kind) and getattr(cluster, name):
            yield f"{kind} needs 1.{find_first_minor(kind)}"


def _lacking(kind: str, gates: FeatureGates) -> list[VersionedField]:
    return [field for field in FIELDS[kind] if field.needs(gates)]


def _told(fields: Iterable[VersionedField], gates: FeatureGates) -> Iterator[str]:
    """A line for each field, of those in one of them only for that one."""
    paths = {field.path for field in fields}
    for field in fields:
        parts = field.path.split(".")
        outer = (".".join(parts[:i]).removesuffix("[]") for i in range(1, len(parts)))
        if paths.isdisjoint(outer):
            yield f"{field.path} {field.needs(gates)}"


def _has(value: Any, steps: Sequence[str]) -> bool:
    """Whether the field that the steps lead to is set in a struct, or in one of the items on the way."""
    for at, step in enumerate(steps):
        name = _attributes(value.__class__).get(step.removesuffix("[]"))
        value = getattr(value, name) if name else None
        if value in (None, "", (), {}):
            return False
        if step.endswith("[]"):
            return any(_has(item, steps[at + 1 :]) for item in value)
    return True


@cache
def _attributes(struct: Hashable) -> Mapping[str, str]:
    """The name of a field in documents -> that of the struct's attribute; of anything else nothing."""
    names = getattr(struct, "__struct_encode_fields__", ())
    return dict(zip(names, getattr(struct, "__struct_fields__", ()), strict=True))


def _found(value: Json, steps: Sequence[str], at: Path) -> Iterator[Path]:
    """Where the field stands that the steps lead to, once for each item of the lists on the way."""
    if not steps:
        if value not in (None, "", [], {}):
            yield at
        return
    name = steps[0].removesuffix("[]")
    inner = value.get(name) if isinstance(value, Mapping) else None
    if name == steps[0]:
        yield from _found(inner, steps[1:], (*at, name))
    elif isinstance(inner, list | tuple):
        for index, item in enumerate(inner):
            yield from _found(item, steps[1:], (*at, name, index))
