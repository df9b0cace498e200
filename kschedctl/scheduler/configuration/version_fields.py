"""Differences between versions of the API: fields and kinds that some versions lack, and options of pod validation.

API servers do not store fields that their version lacks. Upstream: types.go and kube_features.go of v1.30 to v1.36. A
field is dropped from new objects while its gate is off (dropDisabledFields in pkg/api/pod/util.go and similar functions
of other kinds). An object that still has the field, from a time when the gate was on, is replayed as it is:
kube-scheduler ignores most such fields, but rejects some that it cannot honor (adminAccess since 1.32, firstAvailable,
consumesCounters since 1.34, bindingConditions). Validation: GetValidationOptionsFromPodSpecAndMeta in
pkg/api/pod/util.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import KINDS, ReadFor, find_first_minor
from kschedctl.api.kube_version import NEWEST_MINOR, OLDEST_MINOR
from kschedctl.api.objects import PodSpec
from kschedctl.api.validation import ValidationOptions
from kschedctl.cluster import FIELDS as FIELDS_OF_CLUSTER
from kschedctl.cluster import Cluster
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates, get_stage
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures

Path = tuple[str | int, ...]


class VersionedField(NamedTuple):
    """A field of a kind that not every version stores."""

    path: str
    """The path, with `[]` for each item of a list."""
    gate: str
    """The feature gate without which the field is dropped."""
    since: int = OLDEST_MINOR
    """The first minor version whose API has the field, if it differs from the one that introduced the gate."""
    removed: tuple[int, str] | None = None
    """The first minor version without the field, and the replacement for the field."""
    gated_since: int = OLDEST_MINOR
    """The first minor version in which the gate decides, if the field is older than the gate."""

    @property
    def steps(self) -> Sequence[str]:
        """The path, split at dots."""
        return self.path.split(".")

    @property
    def name(self) -> str:
        """The last step of the path."""
        _, _, name = self.path.rpartition(".")
        return name

    def is_stored(self, gates: FeatureGates) -> bool:
        """Return whether an API server of this version, with these gates, stores the field."""
        if gates.minor < self.since or self._find_replacement(gates):
            return False
        return gates.minor < self.gated_since or self._is_gate_on(gates)

    def _find_replacement(self, gates: FeatureGates) -> str:
        """Return what replaces the field in a version from which it was removed, otherwise an empty string."""
        if self.removed is None:
            return ""
        first_minor_without, replacement = self.removed
        return replacement if gates.minor >= first_minor_without else ""

    def describe_requirement(self, gates: FeatureGates) -> str:
        """Describe what is needed for the field to be stored, or return "" if it is stored.

        For a removed field, describe its replacement. Also return "" if the version has the field, but behind a feature
        gate that is off by default in all versions.

        >>> field = VersionedField("spec.resources", "PodLevelResources")
        >>> [field.describe_requirement(FeatureGates(version)) for version in ("1.33", "1.34")]
        ['needs Kubernetes 1.34, or the feature gate PodLevelResources', '']
        """
        if self.is_stored(gates):
            return ""
        if self.removed is not None and self._find_replacement(gates):
            first_minor_without, replacement = self.removed
            return f"was removed in 1.{first_minor_without}: use {replacement}"
        gate = f"the feature gate {self.gate}"
        first_minor, first_minor_by_default = self._find_first_storing_minors()
        if first_minor_by_default is None:
            return f"needs Kubernetes 1.{first_minor} and {gate}" if gates.minor < first_minor else ""
        return _describe_gate_requirement(gate, gates.minor, known_since=first_minor, on_since=first_minor_by_default)

    def _is_gate_on(self, gates: FeatureGates) -> bool:
        """Return whether the gate is on: as configured, or by default if kube-scheduler does not have it."""
        if self.gate in GATE_STAGES:
            return gates.enabled(self.gate)
        return get_stage(self.gate, gates.minor).on

    def _find_first_storing_minors(self) -> tuple[int, int | None]:
        """Return the first minor version that can store the field, and the first that stores it by default.

        The second is None if no version stores the field by default.
        """
        stages = {minor: get_stage(self.gate, minor) for minor in range(self.since, NEWEST_MINOR + 1)}
        first = next(minor for minor, stage in stages.items() if stage.known)
        first_by_default = next((minor for minor, stage in stages.items() if stage.on), None)
        return first, first_by_default


def _describe_gate_requirement(gate: str, minor: int, *, known_since: int, on_since: int) -> str:
    """Describe what a minor version needs to have a gate on.

    The gate exists since the minor version `known_since`, and is on by default since `on_since`.
    """
    if minor >= on_since:
        return f"needs {gate}, which is off"
    if minor >= known_since:
        return f"needs Kubernetes 1.{on_since}, or {gate}"
    if known_since < on_since:
        return f"needs Kubernetes 1.{on_since}, or 1.{known_since} and {gate}"
    return f"needs Kubernetes 1.{on_since}"


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

_CONTAINER_FIELDS = (
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
        VersionedField("spec.workloadRef", "GenericWorkload", since=35, removed=(36, "schedulingGroup")),
        VersionedField("spec.resourceClaims", _DRA),
        VersionedField("spec.resourceClaims[].source", _DRA, removed=_CLAIM),
        VersionedField("spec.resourceClaims[].resourceClaimName", _DRA, since=31),
        VersionedField("spec.resourceClaims[].resourceClaimTemplateName", _DRA, since=31),
        *(
            VersionedField(f"spec.{containers}[].{field}", gate, since)
            for containers in ("initContainers", "containers")
            for field, gate, since in _CONTAINER_FIELDS
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
        VersionedField(f"{_REQUEST}.adminAccess", "DRAAdminAccess", since=31, gated_since=32),
        VersionedField(f"{_REQUEST}.exactly.adminAccess", "DRAAdminAccess", since=31, gated_since=32),
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
        VersionedField(f"spec.deviceSelector.{field}", "DRADeviceTaints", removed=(35, "driver, pool or device"))
        for field in ("deviceClassName", "selectors")
    ),
    "Node": (VersionedField("status.declaredFeatures", NodeDeclaredFeatures.gate),),
    "CSIDriver": (VersionedField("spec.preventPodSchedulingIfMissing", "VolumeLimitScaling", since=36),),
}
"""Kind -> the fields that not every version stores. Fields of a pod or claim template are under the kind it creates."""

_NEWER_KINDS = {
    kind.field: kind.name
    for kind in KINDS.values()
    if kind.read_for is ReadFor.SCHEDULING and kind.lifecycle and find_first_minor(kind.name) > OLDEST_MINOR
}
"""Field of a Cluster -> the kind that it holds and that older versions lack."""

_CLUSTER_FIELDS = {kind: FIELDS_OF_CLUSTER[kind] for kind in FIELDS if kind in FIELDS_OF_CLUSTER and kind != "Pod"}


def iter_unsupported_fields(
    kind: str, document: JsonObject, gates: FeatureGates
) -> Iterator[tuple[Path, VersionedField]]:
    """Yield each field of an object that a version with these gates does not store, with its path in the object.

    A field nested in such a field is left out.

    >>> document = {"spec": {"volumes": [{"name": "v", "image": {"reference": "i"}}]}}
    >>> [(path, field.gate) for path, field in iter_unsupported_fields("Pod", document, FeatureGates("1.34"))]
    [(('spec', 'volumes', 0, 'image'), 'ImageVolume')]
    """
    paths: set[Path] = set()
    for field in FIELDS.get(kind, ()):
        if not field.describe_requirement(gates):
            continue
        for path in _iter_field_paths(document, field.steps, ()):
            if not any(path[: len(outer)] == outer for outer in paths):
                paths.add(path)
                yield path, field


def iter_ignored_pod_fields(specs: Iterable[PodSpec], gates: FeatureGates) -> Iterator[str]:
    """Yield a line for each field of these pods that a version with these gates does not store.

    The line has the field's path and what is needed to store it.
    """
    missing_fields = _list_missing_fields("Pod", gates)
    if not missing_fields:
        return
    specs = tuple(specs)
    used_fields = []
    for field in missing_fields:
        _, *steps_in_spec = field.steps
        if any(_is_field_set(spec, steps_in_spec) for spec in specs):
            used_fields.append(field)
    for path, requirement in _iter_field_requirements(used_fields, gates):
        yield f"{path} {requirement}"


def iter_ignored_groups_line(specs: Iterable[PodSpec], gates: FeatureGates) -> Iterator[str]:
    """Yield a line if the groups of pods are ignored because the feature gate GenericWorkload is off."""
    is_off = gates.minor >= find_first_minor("PodGroup") and not gates.enabled("GenericWorkload")
    if is_off and any(spec.scheduling_group is not None for spec in specs):
        yield "spec.schedulingGroup needs the feature gate GenericWorkload, which is off"


def iter_ignored_cluster_fields(cluster: Cluster, gates: FeatureGates) -> Iterator[str]:
    """Yield a line for each field or kind in use that the version lacks. Fields of pods are left out.

    The line says what is needed to have the field or kind.
    """
    # Fields of objects.
    for kind, attribute in _CLUSTER_FIELDS.items():
        objects = getattr(cluster, attribute)
        if not objects:
            continue
        missing_fields = _list_missing_fields(kind, gates)
        used_fields = [field for field in missing_fields if any(_is_field_set(obj, field.steps) for obj in objects)]
        for path, requirement in _iter_field_requirements(used_fields, gates):
            yield f"{path} of {kind} {requirement}"

    # Whole kinds.
    for name, kind in _NEWER_KINDS.items():
        if gates.minor < find_first_minor(kind) and getattr(cluster, name):
            yield f"{kind} needs Kubernetes 1.{find_first_minor(kind)}"


def _list_missing_fields(kind: str, gates: FeatureGates) -> list[VersionedField]:
    """Return the fields of a kind that a version with these gates does not store."""
    return [field for field in FIELDS[kind] if field.describe_requirement(gates)]


def _iter_field_requirements(fields: Iterable[VersionedField], gates: FeatureGates) -> Iterator[tuple[str, str]]:
    """Yield the path of each field, and what is needed to store it.

    A field that is nested in another of the fields is left out.
    """
    paths = {field.path for field in fields}
    for field in fields:
        steps = field.steps
        # A step into the items of a list ends in "[]", the path of the list itself does not
        outer_paths = (".".join(steps[:length]).removesuffix("[]") for length in range(1, len(steps)))
        if paths.isdisjoint(outer_paths):
            yield field.path, field.describe_requirement(gates)


def _is_field_set(value: Any, steps: Sequence[str]) -> bool:
    """Return whether the field at the end of the steps is set in a struct, to a value that is not empty.

    In each list on the way, at least one item must have the field.
    """
    for index, step in enumerate(steps):
        name = _map_fields_to_attributes(value.__class__).get(step.removesuffix("[]"))
        value = getattr(value, name) if name else None
        if value in (None, "", (), {}):
            return False
        if step.endswith("[]"):
            return any(_is_field_set(item, steps[index + 1 :]) for item in value)
    return True


@cache
def _map_fields_to_attributes(struct: Hashable) -> Mapping[str, str]:
    """Return the attribute of a struct type for each field name in documents, or {} for other types."""
    names = getattr(struct, "__struct_encode_fields__", ())
    return dict(zip(names, getattr(struct, "__struct_fields__", ()), strict=True))


def _iter_field_paths(value: Json, steps: Sequence[str], path: Path) -> Iterator[Path]:
    """Yield the paths at which a field of a document has a value that is not empty.

    If the field is inside of lists, each item has its own path. `path` leads to `value`, and `steps` lead from `value`
    to the field.
    """
    if not steps:
        if value not in (None, "", [], {}):
            yield path
        return
    step, *remaining_steps = steps
    is_list = step.endswith("[]")
    name = step.removesuffix("[]")
    nested = value.get(name) if isinstance(value, Mapping) else None
    if not is_list:
        yield from _iter_field_paths(nested, remaining_steps, (*path, name))
    elif isinstance(nested, list | tuple):
        for index, item in enumerate(nested):
            yield from _iter_field_paths(item, remaining_steps, (*path, name, index))


def build_validation_options(gates: FeatureGates) -> ValidationOptions:
    """Build the pod validation options that follow from a version's feature gates."""
    return ValidationOptions(
        comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        selector_merge=gates.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge"),
        pod_level_resources=gates.enabled("PodLevelResources"),
        container_restart_rules=gates.enabled("ContainerRestartRules"),
        user_namespaces_host_network=gates.enabled("UserNamespacesHostNetworkSupport"),
    )
