"""The arguments of the descheduler's plugins: their fields, defaults and validation.

Upstream: types.go, defaults.go and validation.go beside each plugin in pkg/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from kschedctl.api.container_states import CONTAINER_STATES
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.objects import Condition, LabelSelector, Struct
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.api.times import parse_duration
from kschedctl.errors import InputError

Unsigned = Annotated[int, msgspec.Meta(ge=0)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
DEFAULT_PROTECTIONS = ("PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods")
EXTRA_PROTECTIONS = ("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ONLY_THRESHOLDING = "OnlyThresholdingResources"
PHASES = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
REASONS = ("NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
KEPT_CONDITIONS = ("DisruptionTarget", "PodResizePending", "PodResizeInProgress")
"""Pod conditions that snapshots keep, except for their times."""
MAX_PRIORITY_THRESHOLD = 2_000_000_000
"""The priority of system-cluster-critical pods."""


class ArgumentError(NamedTuple):
    """An error in a field of arguments."""

    field: str
    message: str


class NamespaceChoice(Struct, frozen=True):
    """Namespaces to include or to exclude."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PluginArguments(Struct, frozen=True):
    """The base of all plugins' arguments. ``apiVersion`` and ``kind`` are accepted and ignored."""

    api_version: str = ""
    kind: str = ""

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error for each argument that upstream would reject. The base class yields none."""
        yield from ()

    def with_defaults(self) -> Self:
        """Return the arguments with upstream's defaults for missing values. Most plugins need none."""
        return self

    def iter_unreplayed_arguments(self) -> Iterator[str]:
        """Yield descriptions of arguments that cannot be replayed. By default, all can be."""
        yield from ()

    @property
    def reads_containers(self) -> bool:
        """True if the arguments depend on container states. Most plugins' arguments do not."""
        return False


class SelectingArguments(PluginArguments, frozen=True):
    """Arguments that select pods by namespace and labels."""

    namespaces: NamespaceChoice | None = None
    label_selector: LabelSelector | None = None

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the namespaces and the label selector."""
        yield from validate_include_exclude("namespaces", self.namespaces)
        yield from validate_selector("labelSelector", self.label_selector)


class PriorityThreshold(Struct, frozen=True):
    """The lowest priority that is protected, as a value or by a PriorityClass."""

    value: Int32 | None = None
    name: str = ""


class ProtectedStorageClass(Struct, frozen=True):
    """A storage class that protects pods with claims of this class."""

    name: str = ""


class PodsWithPVCConfig(Struct, frozen=True):
    """The configuration of the protection PodsWithPVC."""

    protected_storage_classes: tuple[ProtectedStorageClass, ...] = ()


class PodProtectionsConfig(Struct, frozen=True):
    """The configuration of pod protections."""

    pods_with_pvc: PodsWithPVCConfig | None = msgspec.field(default=None, name="PodsWithPVC")


class PodProtections(Struct, frozen=True):
    """The pod protections that a policy enables and disables."""

    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: PodProtectionsConfig | None = None


class DefaultEvictorArgs(PluginArguments, frozen=True):
    """The arguments of the plugin DefaultEvictor."""

    node_selector: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    priority_threshold: PriorityThreshold | None = None
    node_fit: bool = False
    min_replicas: Unsigned = 0
    min_pod_age: str | None = None
    no_eviction_policy: str = ""
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(default=False, name="ignorePodsWithoutPDB")
    evict_failed_bare_pods: bool = False

    @property
    def protections(self) -> frozenset[str]:
        """The names of the active pod protections, from ``podProtections`` or else from the older fields."""
        configured = self.pod_protections
        if configured.extra_enabled or configured.default_disabled:
            defaults = frozenset(DEFAULT_PROTECTIONS) - set(configured.default_disabled)
            return defaults | set(configured.extra_enabled)
        older_fields = {
            "PodsWithLocalStorage": not self.evict_local_storage_pods,
            "DaemonSetPods": not self.evict_daemon_set_pods,
            "SystemCriticalPods": not self.evict_system_critical_pods,
            "FailedBarePods": not self.evict_failed_bare_pods,
            "PodsWithPVC": self.ignore_pvc_pods,
            "PodsWithoutPDB": self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, is_protected in older_fields.items() if is_protected)

    @property
    def protected_storage_classes(self) -> frozenset[str]:
        """The storage classes whose claims protect pods, or an empty set if all classes do."""
        config = self.pod_protections.config
        if config is None or config.pods_with_pvc is None:
            return frozenset()
        return frozenset(entry.name for entry in config.pods_with_pvc.protected_storage_classes)

    @property
    def min_age_seconds(self) -> float | None:
        """The minimum age of a pod in seconds, or None if there is none. Raises InputError for an invalid duration."""
        return None if self.min_pod_age is None else parse_duration(self.min_pod_age)

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error for each argument of DefaultEvictor that upstream would reject."""
        threshold = self.priority_threshold
        if threshold is not None and threshold.value is not None and threshold.name:
            yield ArgumentError("priorityThreshold", "only one of value and name can be set")
        if threshold is not None and (threshold.value or 0) > MAX_PRIORITY_THRESHOLD:
            yield ArgumentError("priorityThreshold.value", f"must be at most {MAX_PRIORITY_THRESHOLD}")
        if self.no_eviction_policy not in ("", "Preferred", "Mandatory"):
            yield ArgumentError("noEvictionPolicy", f'"{self.no_eviction_policy}" is not one of Preferred, Mandatory')
        yield from validate_selector("labelSelector", self.label_selector)
        yield from validate_selector("namespaceLabelSelector", self.namespace_label_selector)
        yield from self._validate_protections()
        if self.min_pod_age is not None:
            try:
                parse_duration(self.min_pod_age)
            except InputError as error:
                yield ArgumentError("minPodAge", error.what)

    def _validate_protections(self) -> Iterator[ArgumentError]:
        """Yield the errors in ``podProtections``, and an error if it is combined with the older fields."""
        protections = self.pod_protections
        older_fields = (
            self.evict_local_storage_pods,
            self.evict_daemon_set_pods,
            self.evict_system_critical_pods,
            self.evict_failed_bare_pods,
            self.ignore_pvc_pods,
            self.ignore_pods_without_pdb,
        )
        if any(older_fields) and (protections.extra_enabled or protections.default_disabled):
            yield ArgumentError(
                "podProtections", "cannot be combined with the older fields, such as evictLocalStoragePods"
            )
        yield from validate_choices("podProtections.extraEnabled", protections.extra_enabled, EXTRA_PROTECTIONS)
        yield from validate_choices("podProtections.defaultDisabled", protections.default_disabled, DEFAULT_PROTECTIONS)
        if "PodsWithPVC" in protections.extra_enabled and "" in self.protected_storage_classes:
            yield ArgumentError("podProtections.config.PodsWithPVC.protectedStorageClasses", "a name is missing")


class RemovePodsViolatingNodeAffinityArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemovePodsViolatingNodeAffinity."""

    node_affinity_type: tuple[str, ...] = ()

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error if no type of node affinity is set, and the errors in the selection of pods."""
        if not self.node_affinity_type:
            yield ArgumentError("nodeAffinityType", "must be set")
        yield from super().validate()


class RemovePodsViolatingNodeTaintsArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemovePodsViolatingNodeTaints."""

    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] | None = None

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error if taints are both included and excluded, and the errors in the selection of pods."""
        if self.excluded_taints and self.included_taints:
            yield ArgumentError("includedTaints", "cannot be combined with excludedTaints")
        yield from super().validate()


class RemovePodsViolatingInterPodAntiAffinityArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemovePodsViolatingInterPodAntiAffinity."""


class RemovePodsViolatingTopologySpreadConstraintArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemovePodsViolatingTopologySpreadConstraint."""

    constraints: tuple[str, ...] = ()
    topology_balance_node_fit: bool = True

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the constraint types and in the selection of pods."""
        yield from validate_choices("constraints", self.constraints, ("DoNotSchedule", "ScheduleAnyway"), unique=False)
        yield from super().validate()


class RemoveDuplicatesArgs(PluginArguments, frozen=True):
    """The arguments of the plugin RemoveDuplicates."""

    namespaces: NamespaceChoice | None = None
    exclude_owner_kinds: tuple[str, ...] = ()

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error if namespaces are both included and excluded."""
        yield from validate_include_exclude("namespaces", self.namespaces)


class EvictionLimitPerNode(Struct, frozen=True):
    """The maximum number of evictions per node."""

    node: Unsigned | None = None


class PrometheusQuery(Struct, frozen=True):
    """A Prometheus query for actual usage."""

    query: str = ""


class MetricsUtilization(Struct, frozen=True):
    """The source from which the plugin reads actual usage."""

    metrics_server: bool = False
    source: str = ""
    prometheus: PrometheusQuery | None = None

    def validate(self) -> Iterator[ArgumentError]:
        """Yield an error if metrics sources contradict each other or the Prometheus query is missing."""
        if self.source == "KubernetesMetrics" and (self.metrics_server or self.prometheus is not None):
            yield ArgumentError("metricsUtilization.source", "KubernetesMetrics excludes metricsServer and prometheus")
        if self.source == "Prometheus" and not (self.prometheus and self.prometheus.query):
            yield ArgumentError("metricsUtilization.prometheus.query", "must be set")


class UtilizationArguments(PluginArguments, frozen=True):
    """The arguments that both utilization plugins share. Thresholds are percentages by resource."""

    thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    number_of_nodes: int = 0
    evictable_namespaces: NamespaceChoice | None = None

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the thresholds, and an error if namespaces are included."""
        if self.evictable_namespaces is not None and self.evictable_namespaces.include:
            yield ArgumentError("evictableNamespaces.include", "only exclude can be set")
        yield from validate_percentages("thresholds", self.thresholds)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources for which usage is compared: resources with thresholds, then cpu, memory and pods."""
        return tuple(dict.fromkeys((*self.thresholds, CPU, MEMORY, PODS)))


class LowNodeUtilizationArgs(UtilizationArguments, frozen=True):
    """The arguments of the plugin LowNodeUtilization."""

    use_deviation_thresholds: bool = False
    target_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    metrics_utilization: MetricsUtilization | None = None
    eviction_limits: EvictionLimitPerNode | None = None

    def validate(self) -> Iterator[ArgumentError]:
        """Yield errors for invalid or inconsistent thresholds, and for an invalid source of metrics.

        Both kinds of thresholds need the same resources. Unless they are deviations from the mean, no threshold may be
        greater than the target threshold of its resource.
        """
        yield from super().validate()
        yield from validate_percentages("targetThresholds", self.target_thresholds)
        if self.thresholds.keys() != self.target_thresholds.keys():
            yield ArgumentError("targetThresholds", "must have the same resources as thresholds")
        elif not self.use_deviation_thresholds:
            for name, percent in self.thresholds.items():
                if percent > self.target_thresholds[name]:
                    yield ArgumentError(f"thresholds[{name}]", "is greater than in targetThresholds")
        if self.metrics_utilization is not None:
            yield from self.metrics_utilization.validate()

    def iter_unreplayed_arguments(self) -> Iterator[str]:
        """Yield a description if the plugin compares actual usage, of which nothing is known here."""
        if self.metrics_utilization is not None:
            yield "metricsUtilization: the actual usage of pods is unknown, only their requests are known"


class HighNodeUtilizationArgs(UtilizationArguments, frozen=True):
    """The arguments of the plugin HighNodeUtilization."""

    eviction_modes: tuple[str, ...] = ()

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the thresholds and the eviction modes."""
        yield from super().validate()
        yield from validate_choices("evictionModes", self.eviction_modes, (ONLY_THRESHOLDING,), unique=False)


class OwnerKinds(Struct, frozen=True):
    """Kinds of owners to include or to exclude."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PodConditionFilter(Struct, frozen=True):
    """A filter for pod conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Unsigned | None = None

    @property
    def is_replayable(self) -> bool:
        """True if snapshots keep everything that the filter needs.

        Snapshots keep the status of Ready and the conditions in KEPT_CONDITIONS, both without times.
        """
        if self.min_time_since_last_transition_seconds is not None:
            return False
        return (self.type == "Ready" and not self.reason) or self.type in KEPT_CONDITIONS

    def matches(self, condition: Condition) -> bool:
        """Return whether a condition matches the filter, disregarding times. Empty fields match everything."""
        return (
            self.type in ("", condition.type)
            and self.status in ("", condition.status)
            and self.reason in ("", condition.reason)
        )


class PodLifeTimeArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin PodLifeTime."""

    owner_kinds: OwnerKinds | None = None
    max_pod_life_time_seconds: Unsigned | None = None
    states: tuple[str, ...] = ()
    conditions: tuple[PodConditionFilter, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the selection of pods, and an error if no age, state or other criterion is set."""
        yield from super().validate()
        yield from validate_include_exclude("ownerKinds", self.owner_kinds)
        yield from validate_choices("states", self.states, (*PHASES, *REASONS, *CONTAINER_STATES), unique=False)
        for index, condition in enumerate(self.conditions):
            if condition == PodConditionFilter():
                yield ArgumentError(f"conditions[{index}]", "is empty")
        has_other_criterion = bool(self.states or self.conditions or self.exit_codes)
        if self.max_pod_life_time_seconds is None and not has_other_criterion:
            yield ArgumentError("", "one of maxPodLifeTimeSeconds, states, conditions and exitCodes must be set")

    @property
    def reads_containers(self) -> bool:
        """True if the arguments depend on container states."""
        return bool(self.exit_codes) or any(state in CONTAINER_STATES for state in self.states)

    def iter_unreplayed_arguments(self) -> Iterator[str]:
        """Yield a description of the condition filters that can be replayed, if some filters cannot."""
        if not all(condition.is_replayable for condition in self.conditions):
            yield f"conditions other than the status of Ready and {', '.join(KEPT_CONDITIONS)} without times"


class RemovePodsHavingTooManyRestartsArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: tuple[str, ...] = ()

    def validate(self) -> Iterator[ArgumentError]:
        """Yield the errors in the selection of pods, the threshold and the states."""
        yield from super().validate()
        if self.pod_restart_threshold < 1:
            yield ArgumentError("podRestartThreshold", "must be 1 or more")
        yield from validate_choices("states", self.states, ("Running", "CrashLoopBackOff"), unique=False)

    @property
    def reads_containers(self) -> bool:
        """Always true, because restarts are counted by container."""
        return True


class RemoveFailedPodsArgs(SelectingArguments, frozen=True):
    """The arguments of the plugin RemoveFailedPods."""

    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Unsigned | None = None
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False

    def with_defaults(self) -> Self:
        """Return the arguments with upstream's default for the minimum age, one hour."""
        if self.min_pod_lifetime_seconds is not None:
            return self
        return replace(self, min_pod_lifetime_seconds=3600)

    @property
    def reads_containers(self) -> bool:
        """True if the arguments depend on container states."""
        return bool(self.reasons or self.exit_codes)


def validate_include_exclude(field: str, selection: NamespaceChoice | OwnerKinds | None) -> Iterator[ArgumentError]:
    """Yield an error for ``field`` if both include and exclude are set."""
    if selection is not None and selection.include and selection.exclude:
        yield ArgumentError(field, "only one of include and exclude can be set")


def validate_choices(
    field: str, values: Collection[str], choices: Collection[str], *, unique: bool = True
) -> Iterator[ArgumentError]:
    """Yield an error for each value that is not among the choices.

    With ``unique``, also yield an error if a value is repeated.
    """
    for value in values:
        if value not in choices:
            yield ArgumentError(field, f'"{value}" is not one of {", ".join(choices)}')
    if unique and len(set(values)) < len(values):
        yield ArgumentError(field, "a value is repeated")


def validate_selector(field: str, selector: LabelSelector | None) -> Iterator[ArgumentError]:
    """Yield an error if a label selector is invalid. None is valid."""
    try:
        selector_from_api(selector)
    except SelectorError as error:
        yield ArgumentError(field, error.what)


def validate_percentages(field: str, thresholds: Mapping[str, float]) -> Iterator[ArgumentError]:
    """Yield an error if there are no thresholds, and one for each threshold that is not from 0 to 100 percent."""
    if not thresholds:
        yield ArgumentError(field, "no threshold is set")
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            yield ArgumentError(f"{field}[{name}]", "must be from 0 to 100")
