"""The admission plugins that apply class objects: Priority, RuntimeClass, DefaultStorageClass, and claim protection.

Upstream: plugin/pkg/admission/{priority,runtimeclass,storage} (v1.36). Claim protection is the plugin
StorageObjectInUseProtection.
"""

from __future__ import annotations

import msgspec

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.resource_quota import BETA_CLASS_ANNOTATION
from kschedctl.admission.tolerations import merge_tolerations
from kschedctl.api.objects import PriorityClass, RuntimeClass, RuntimeClassScheduling, StorageClass
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.scheduler.framework.feature_gates import FeatureGates

GROUPS = "scheduling.k8s.io/"
PREEMPTS = "PreemptLowerPriority"


def set_priority(request: AdmissionRequest) -> None:
    """Run the Priority plugin: set the priority and preemption policy of a pod, or the priority of a PodGroup.

    Raises NotAdmittedError if the class does not exist, or if the object's own values differ from those of its class.
    """
    if request.is_pod:
        _set_pod_priority(request)
    elif request.kind == "PodGroup" and str(request.obj.get("apiVersion", "")).startswith(GROUPS):
        _set_group_priority(request)


def _set_pod_priority(request: AdmissionRequest) -> None:
    """Set the priority, the preemption policy and, by default, the PriorityClass of a pod.

    A pod that names no class gets the global default class, and the request records this change. Raises
    NotAdmittedError if the class does not exist, or if the pod's own values differ from those of its class.
    """
    spec = request.spec
    priority_class = _find_priority_class(request)
    priority = 0
    policy = PREEMPTS
    if priority_class is not None:
        name = priority_class.metadata.name
        if not spec.get("priorityClassName"):
            spec["priorityClassName"] = name
            request.changed.append(f"priorityClassName {name} by PriorityClass {name}")
        priority = priority_class.value
        policy = priority_class.preemption_policy or PREEMPTS

    # The pod's own values have to be those of its class
    pod_priority = spec.get("priority")
    pod_policy = spec.get("preemptionPolicy")
    explanation = "priority admission controller computed {} from the given PriorityClass name"
    if pod_priority is not None and pod_priority != priority:
        message = f"the integer value of priority ({pod_priority}) must not be provided in pod spec"
        raise request.build_denial_error(f"{message}; {explanation.format(priority)}")
    if pod_policy is not None and pod_policy != policy:
        message = f"the string value of PreemptionPolicy ({pod_policy}) must not be provided in pod spec"
        raise request.build_denial_error(f"{message}; {explanation.format(policy)}")
    spec["priority"] = priority
    spec["preemptionPolicy"] = policy


def _set_group_priority(request: AdmissionRequest) -> None:
    """Set the priority and the PriorityClass of a PodGroup. Do nothing if the feature gate for this is off.

    Raises NotAdmittedError if the class does not exist, or if the group's own priority differs from that of its class.
    """
    cluster = request.cluster
    if not FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("WorkloadAwarePreemption"):
        return
    priority_class = _find_priority_class(request)
    spec = request.spec
    priority = priority_class.value if priority_class else 0
    group_priority = spec.get("priority")
    if group_priority is not None and group_priority != priority:
        message = f"priority set in the pod group ({group_priority}) must match the priority computed ({priority})"
        raise request.build_denial_error(f"{message} based on the priority class set in the spec")
    spec["priority"] = priority
    if priority_class is not None:
        spec["priorityClassName"] = priority_class.metadata.name


def _find_priority_class(request: AdmissionRequest) -> PriorityClass | None:
    """Return the PriorityClass that the object names, or else the global default with the lowest value.

    Return None if the object names no class and there is no default. Raises NotAdmittedError if the named class does
    not exist.
    """
    classes = request.cluster.priority_classes
    name = request.spec.get("priorityClassName")
    if name:
        for priority_class in (*classes, *SYSTEM_CLASSES):
            if priority_class.metadata.name == name:
                return priority_class
        raise request.build_denial_error(f"no PriorityClass with name {name} was found")
    defaults = [priority_class for priority_class in classes if priority_class.global_default]
    return min(defaults, key=lambda priority_class: priority_class.value, default=None)


REJECTED = "pod rejected: "


def apply_runtime_class(request: AdmissionRequest) -> None:
    """Run the RuntimeClass plugin: add the overhead, node selector and tolerations of the class to the pod.

    An added overhead is recorded as a change of the request. Raises NotAdmittedError if the class does not exist, or if
    its overhead or selector conflicts with the pod's.
    """
    runtime_class = _find_runtime_class(request)
    if runtime_class is None:
        return
    spec = request.spec
    overhead = runtime_class.overhead.pod_fixed if runtime_class.overhead else {}
    if overhead:
        pod_overhead = spec.get("overhead")
        if pod_overhead is None:
            request.changed.append(f"overhead by RuntimeClass {runtime_class.metadata.name}")
        elif parse_quantities(pod_overhead) != parse_quantities(overhead):
            raise request.build_denial_error(f"{REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    if runtime_class.scheduling is not None:
        _apply_runtime_class_scheduling(request, runtime_class.scheduling)


def _apply_runtime_class_scheduling(request: AdmissionRequest, scheduling: RuntimeClassScheduling) -> None:
    """Add the node selector and tolerations of a RuntimeClass to the pod.

    Raises NotAdmittedError if the selector conflicts with the pod's.
    """
    pod_selector = request.spec.get("nodeSelector") or {}
    for key, value in scheduling.node_selector.items():
        if key in pod_selector and pod_selector[key] != value:
            message = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise request.build_denial_error(f"{message}; pod.spec.nodeSelector[{key}] = {pod_selector[key]}")
    if scheduling.node_selector:
        request.spec["nodeSelector"] = {**pod_selector, **scheduling.node_selector}
    if scheduling.tolerations:
        added: list[Writable] = [msgspec.to_builtins(toleration) for toleration in scheduling.tolerations]
        request.spec["tolerations"] = merge_tolerations(request.spec.get("tolerations") or [], added)


def check_overhead_matches_class(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the pod has an overhead but its RuntimeClass has none or does not exist."""
    if not request.is_pod or not request.spec.get("overhead"):
        return
    runtime_class = _find_runtime_class(request)
    if runtime_class is None or runtime_class.overhead is None or not runtime_class.overhead.pod_fixed:
        raise request.build_denial_error(
            f"{REJECTED}Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


def _find_runtime_class(request: AdmissionRequest) -> RuntimeClass | None:
    """Return the RuntimeClass that a pod names, or None if the pod names none or the object is not a pod.

    Raises NotAdmittedError if the class does not exist, or if its name is empty.
    """
    name = request.spec.get("runtimeClassName") if request.is_pod else None
    if name is None:
        return None
    if not name:
        raise NotAdmittedError(INTERNAL, "resource name may not be empty")
    for runtime_class in request.cluster.runtime_classes:
        if runtime_class.metadata.name == name:
            return runtime_class
    raise request.build_denial_error(f'{REJECTED}RuntimeClass "{name}" not found')


DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"


def set_default_storage_class(request: AdmissionRequest) -> None:
    """Run the DefaultStorageClass plugin: set the newest default StorageClass of a claim that names none.

    Of equally new classes, the first by name is used. The request records the change. The claim is unchanged if there
    is no default class, or if it names its class in the deprecated annotation.
    """
    if request.kind != "PersistentVolumeClaim" or request.spec.get("storageClassName") is not None:
        return
    if BETA_CLASS_ANNOTATION in request.annotations:
        return
    defaults = [storage_class for storage_class in request.cluster.storage_classes if is_default_class(storage_class)]
    if defaults:
        defaults.sort(key=lambda storage_class: storage_class.metadata.name)
        newest = max(defaults, key=lambda storage_class: storage_class.metadata.creation_timestamp or "")
        request.spec["storageClassName"] = newest.metadata.name
        request.changed.append(f"storageClassName {newest.metadata.name} as the default StorageClass")


def is_default_class(storage_class: StorageClass) -> bool:
    """Return whether the class is marked as default."""
    return any(storage_class.metadata.annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS)


def add_protection_finalizer(request: AdmissionRequest) -> None:
    """Run the StorageObjectInUseProtection plugin: add the finalizer that keeps a claim while it is in use."""
    if request.kind == "PersistentVolumeClaim":
        finalizers = request.obj["metadata"].setdefault("finalizers", [])
        if PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PROTECTION_FINALIZER)
