"""The arguments of the descheduler's plugins: what each may say, its defaults, and what upstream refuses.

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
WHOLE_CONDITIONS = ("DisruptionTarget", "PodResizePending", "PodResizeInProgress")
"""The conditions of pods of which all is kept but times."""


class Fault(NamedTuple):
    """What is wrong with a field of arguments."""

    field: str
    what: str


class ChosenNamespaces(Struct, frozen=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PluginArguments(Struct, frozen=True):
    """Base of the arguments of a plugin. A document may name their own kind, which nobody reads."""

    api_version: str = ""
    kind: str = ""

    def faults(self) -> Iterator[Fault]:
        """Why upstream refuses them."""
        yield from ()

    def defaulted(self) -> Self:
        """With what upstream sets where nothing is said."""
        return self

    def not_replayed(self) -> Iterator[str]:
        """What of them is not replayed."""
        yield from ()

    @property
    def reads_containers(self) -> bool:
        """Whether they ask what the containers of a pod have been through."""
        return False


class SelectingArguments(PluginArguments, frozen=True):
    """Arguments that say which pods a plugin looks at."""

    namespaces: ChosenNamespaces | None = None
    label_selector: LabelSelector | None = None

    def faults(self) -> Iterator[Fault]:
        yield from one_of_both("namespaces", self.namespaces)
        yield from faults_of_selector("labelSelector", self.label_selector)


class PriorityThreshold(Struct, frozen=True):
    value: Int32 | None = None
    name: str = ""


class ProtectedStorageClass(Struct, frozen=True):
    name: str = ""


class PodsWithPVCConfig(Struct, frozen=True):
    protected_storage_classes: tuple[ProtectedStorageClass, ...] = ()


class PodProtectionsConfig(Struct, frozen=True):
    pods_with_pvc: PodsWithPVCConfig | None = msgspec.field(default=None, name="PodsWithPVC")


class PodProtections(Struct, frozen=True):
    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: PodProtectionsConfig | None = None


class DefaultEvictorArgs(PluginArguments, frozen=True):
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
        """Which pods are kept: by ``podProtections``, or by the older fields where that says nothing."""
        said = self.pod_protections
        if said.extra_enabled or said.default_disabled:
            return frozenset((*set(DEFAULT_PROTECTIONS).difference(said.default_disabled), *said.extra_enabled))
        kept = {
            "PodsWithLocalStorage": not self.evict_local_storage_pods,
            "DaemonSetPods": not self.evict_daemon_set_pods,
            "SystemCriticalPods": not self.evict_system_critical_pods,
            "FailedBarePods": not self.evict_failed_bare_pods,
            "PodsWithPVC": self.ignore_pvc_pods,
            "PodsWithoutPDB": self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, protected in kept.items() if protected)

    @property
    def storage_classes(self) -> frozenset[str]:
        """The storage classes whose claims protect a pod; empty for all."""
        config = self.pod_protections.config
        pvc = config.pods_with_pvc if config else None
        return frozenset(entry.name for entry in pvc.protected_storage_classes) if pvc else frozenset()

    @property
    def seconds(self) -> float | None:
        """The least age of a pod. Raises InputError."""
        return None if self.min_pod_age is None else parse_duration(self.min_pod_age)

    def faults(self) -> Iterator[Fault]:
        threshold, said = self.priority_threshold, self.pod_protections
        if threshold is not None and threshold.value is not None and threshold.name:
            yield Fault("priorityThreshold", "only one of value and name can be set")
        if threshold is not None and (threshold.value or 0) > 2 * 10**9:
            yield Fault("priorityThreshold.value", "must be at most 2000000000")
        if self.no_eviction_policy not in ("", "Preferred", "Mandatory"):
            yield Fault("noEvictionPolicy", f'"{self.no_eviction_policy}" is none of Preferred, Mandatory')
        yield from faults_of_selector("labelSelector", self.label_selector)
        yield from faults_of_selector("namespaceLabelSelector", self.namespace_label_selector)
        older = (
            *(self.evict_local_storage_pods, self.evict_daemon_set_pods, self.evict_system_critical_pods),
            *(self.ignore_pvc_pods, self.evict_failed_bare_pods, self.ignore_pods_without_pdb),
        )
        if any(older) and (said.extra_enabled or said.default_disabled):
            yield Fault("podProtections", "cannot be combined with the older fields, such as evictLocalStoragePods")
        yield from one_of("podProtections.extraEnabled", said.extra_enabled, EXTRA_PROTECTIONS)
        yield from one_of("podProtections.defaultDisabled", said.default_disabled, DEFAULT_PROTECTIONS)
        if "PodsWithPVC" in said.extra_enabled and "" in self.storage_classes:
            yield Fault("podProtections.config.PodsWithPVC.protectedStorageClasses", "a name is missing")
        try:
            self.seconds  # noqa: B018 - read for its error
        except InputError as error:
            yield Fault("minPodAge", error.what)


class RemovePodsViolatingNodeAffinityArgs(SelectingArguments, frozen=True):
    node_affinity_type: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        if not self.node_affinity_type:
            yield Fault("nodeAffinityType", "must be set")
        yield from super().faults()


class RemovePodsViolatingNodeTaintsArgs(SelectingArguments, frozen=True):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] | None = None

    def faults(self) -> Iterator[Fault]:
        if self.excluded_taints and self.included_taints:
            yield Fault("includedTaints", "cannot be combined with excludedTaints")
        yield from super().faults()


class RemovePodsViolatingInterPodAntiAffinityArgs(SelectingArguments, frozen=True):
    pass


class RemovePodsViolatingTopologySpreadConstraintArgs(SelectingArguments, frozen=True):
    constraints: tuple[str, ...] = ()
    topology_balance_node_fit: bool = True

    def faults(self) -> Iterator[Fault]:
        yield from one_of("constraints", self.constraints, ("DoNotSchedule", "ScheduleAnyway"), once=False)
        yield from super().faults()


class RemoveDuplicatesArgs(PluginArguments, frozen=True):
    namespaces: ChosenNamespaces | None = None
    exclude_owner_kinds: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        yield from one_of_both("namespaces", self.namespaces)


class EvictionLimitPerNode(Struct, frozen=True):
    node: Unsigned | None = None


class PrometheusQuery(Struct, frozen=True):
    query: str = ""


class MetricsUtilization(Struct, frozen=True):
    metrics_server: bool = False
    source: str = ""
    prometheus: PrometheusQuery | None = None

    def faults(self) -> Iterator[Fault]:
        if self.source == "KubernetesMetrics" and (self.metrics_server or self.prometheus is not None):
            yield Fault("metricsUtilization.source", "KubernetesMetrics excludes metricsServer and prometheus")
        if self.source == "Prometheus" and not (self.prometheus and self.prometheus.query):
            yield Fault("metricsUtilization.prometheus.query", "must be set")


class UtilizationArguments(PluginArguments, frozen=True):
    """What both plugins have that look at how full nodes are: percent by resource."""

    thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    number_of_nodes: int = 0
    evictable_namespaces: ChosenNamespaces | None = None

    def faults(self) -> Iterator[Fault]:
        if self.evictable_namespaces is not None and self.evictable_namespaces.include:
            yield Fault("evictableNamespaces.include", "only exclude can be set")
        yield from of_percentages("thresholds", self.thresholds)

    @property
    def resources(self) -> tuple[str, ...]:
        """Those of which the use is looked at."""
        return tuple(dict.fromkeys((*self.thresholds, CPU, MEMORY, PODS)))


class LowNodeUtilizationArgs(UtilizationArguments, frozen=True):
    use_deviation_thresholds: bool = False
    target_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    metrics_utilization: MetricsUtilization | None = None
    eviction_limits: EvictionLimitPerNode | None = None

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        yield from of_percentages("targetThresholds", self.target_thresholds)
        if self.thresholds.keys() != self.target_thresholds.keys():
            yield Fault("targetThresholds", "must be of the same resources as thresholds")
        elif not self.use_deviation_thresholds:
            for name, percent in self.thresholds.items():
                if percent > self.target_thresholds[name]:
                    yield Fault(f"thresholds[{name}]", "is greater than in targetThresholds")
        yield from self.metrics_utilization.faults() if self.metrics_utilization else ()

    def not_replayed(self) -> Iterator[str]:
        if self.metrics_utilization is not None:
            yield "metricsUtilization: what pods use is not known, only what they request"


class HighNodeUtilizationArgs(UtilizationArguments, frozen=True):
    eviction_modes: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        yield from one_of("evictionModes", self.eviction_modes, (ONLY_THRESHOLDING,), once=False)


class OwnerKinds(Struct, frozen=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PodConditionFilter(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Unsigned | None = None

    @property
    def is_known(self) -> bool:
        """Whether it asks for what is kept of pods: of Ready only whether it holds, of others no times."""
        if self.min_time_since_last_transition_seconds is not None:
            return False
        return (self.type == "Ready" and not self.reason) or self.type in WHOLE_CONDITIONS

    def selects(self, condition: Condition) -> bool:
        """Whether a condition is as the filter says, times aside."""
        return (
            self.type in ("", condition.type)
            and self.status in ("", condition.status)
            and self.reason in ("", condition.reason)
        )


class PodLifeTimeArgs(SelectingArguments, frozen=True):
    owner_kinds: OwnerKinds | None = None
    max_pod_life_time_seconds: Unsigned | None = None
    states: tuple[str, ...] = ()
    conditions: tuple[PodConditionFilter, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        yield from one_of_both("ownerKinds", self.owner_kinds)
        yield from one_of("states", self.states, (*PHASES, *REASONS, *CONTAINER_STATES), once=False)
        for number, condition in enumerate(self.conditions):
            if condition == PodConditionFilter():
                yield Fault(f"conditions[{number}]", "says nothing")
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            yield Fault("", "one of maxPodLifeTimeSeconds, states, conditions and exitCodes must be set")

    @property
    def reads_containers(self) -> bool:
        return bool(self.exit_codes) or any(state in CONTAINER_STATES for state in self.states)

    def not_replayed(self) -> Iterator[str]:
        if not all(condition.is_known for condition in self.conditions):
            yield f"conditions but for the status of Ready, and {', '.join(WHOLE_CONDITIONS)} without times"


class RemovePodsHavingTooManyRestartsArgs(SelectingArguments, frozen=True):
    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        if self.pod_restart_threshold < 1:
            yield Fault("podRestartThreshold", "must be 1 or more")
        yield from one_of("states", self.states, ("Running", "CrashLoopBackOff"), once=False)

    @property
    def reads_containers(self) -> bool:
        return True


class RemoveFailedPodsArgs(SelectingArguments, frozen=True):
    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Unsigned | None = None
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False

    def defaulted(self) -> Self:
        return self if self.min_pod_lifetime_seconds is not None else replace(self, min_pod_lifetime_seconds=3600)

    @property
    def reads_containers(self) -> bool:
        return bool(self.reasons or self.exit_codes)


def one_of_both(field: str, said: ChosenNamespaces | OwnerKinds | None) -> Iterator[Fault]:
    if said is not None and said.include and said.exclude:
        yield Fault(field, "only one of include and exclude can be set")


def one_of(field: str, values: Collection[str], known: Collection[str], once: bool = True) -> Iterator[Fault]:
    for value in values:
        if value not in known:
            yield Fault(field, f'"{value}" is none of {", ".join(known)}')
    if once and len(set(values)) < len(values):
        yield Fault(field, "names something twice")


def faults_of_selector(field: str, selector: LabelSelector | None) -> Iterator[Fault]:
    try:
        selector_from_api(selector)
    except SelectorError as error:
        yield Fault(field, error.what)


def of_percentages(field: str, thresholds: Mapping[str, float]) -> Iterator[Fault]:
    if not thresholds:
        yield Fault(field, "no threshold is set")
    for name, percent in thresholds.items():
        if not 0 <= percent <= 100:
            yield Fault(f"{field}[{name}]", "must be from 0 to 100")
