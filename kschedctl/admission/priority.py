"""The admission plugin Priority, which sets a pod's priority and preemption policy.

Upstream: plugin/pkg/admission/priority/admission.go (v1.36).
"""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.objects import PriorityClass
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.scheduler.framework.feature_gates import FeatureGates

GROUPS = "scheduling.k8s.io/"
PREEMPTS = "PreemptLowerPriority"


def set_priority(request: AdmissionRequest) -> None:
    """Set priority and preemption policy of a pod, or the priority of a PodGroup. Raises NotAdmittedError."""
    if request.kind == "PodGroup" and str(request.obj.get("apiVersion", "")).startswith(GROUPS):
        _set_group_priority(request)
    if not request.is_pod:
        return
    spec = request.spec
    priority_class = _find_class(request)
    if priority_class is not None and not spec.get("priorityClassName"):
        spec["priorityClassName"] = priority_class.metadata.name
        request.changed.append(
            f"priorityClassName {priority_class.metadata.name} by PriorityClass {priority_class.metadata.name}"
        )
    priority = priority_class.value if priority_class else 0
    policy = (priority_class.preemption_policy if priority_class else None) or PREEMPTS
    pod_priority, pod_policy = spec.get("priority"), spec.get("preemptionPolicy")
    explanation = "priority admission controller computed {} from the given PriorityClass name"
    if pod_priority is not None and pod_priority != priority:
        message = f"the integer value of priority ({pod_priority}) must not be provided in pod spec"
        raise request.forbidden(f"{message}; {explanation.format(priority)}")
    if pod_policy is not None and pod_policy != policy:
        message = f"the string value of PreemptionPolicy ({pod_policy}) must not be provided in pod spec"
        raise request.forbidden(f"{message}; {explanation.format(policy)}")
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _set_group_priority(request: AdmissionRequest) -> None:
    """Set the priority of a PodGroup if groups preempt as one. Raises NotAdmittedError."""
    cluster = request.cluster
    if not FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("WorkloadAwarePreemption"):
        return
    priority_class, spec = _find_class(request), request.spec
    priority, group_priority = priority_class.value if priority_class else 0, spec.get("priority")
    if group_priority is not None and group_priority != priority:
        message = f"priority set in the pod group ({group_priority}) must match the priority computed ({priority})"
        raise request.forbidden(f"{message} based on the priority class set in the spec")
    spec["priority"] = priority
    if priority_class is not None:
        spec["priorityClassName"] = priority_class.metadata.name


def _find_class(request: AdmissionRequest) -> PriorityClass | None:
    """Return the named PriorityClass, else the global default with the lowest value, or None.

    Raises NotAdmittedError if the named class does not exist.
    """
    classes, name = request.cluster.priority_classes, request.spec.get("priorityClassName")
    if name:
        priority_class = next(
            (candidate for candidate in (*classes, *SYSTEM_CLASSES) if candidate.metadata.name == name), None
        )
        if priority_class is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
        return priority_class
    defaults = [candidate for candidate in classes if candidate.global_default]
    return min(defaults, key=lambda candidate: candidate.value) if defaults else None
