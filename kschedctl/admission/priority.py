"""A pod's priority and whether it preempts. Upstream: plugin/pkg/admission/priority/admission.go (v1.36)."""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.objects import PriorityClass
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.scheduler.framework.feature_gates import FeatureGates

GROUPS = "scheduling.k8s.io/"
PREEMPTS = "PreemptLowerPriority"


def fill_in(request: AdmissionRequest) -> None:
    """Priority and preemption policy of the pod's class, or the priority of a group's. Raises NotAdmittedError."""
    if request.kind == "PodGroup" and str(request.obj.get("apiVersion", "")).startswith(GROUPS):
        _of_group(request)
    if not request.is_pod:
        return
    spec = request.spec
    priority_class = _class(request)
    if priority_class is not None and not spec.get("priorityClassName"):
        spec["priorityClassName"] = priority_class.metadata.name
        request.changed.append(
            f"priorityClassName {priority_class.metadata.name} by PriorityClass {priority_class.metadata.name}"
        )
    priority = priority_class.value if priority_class else 0
    policy = (priority_class.preemption_policy if priority_class else None) or PREEMPTS
    given, wanted = spec.get("priority"), spec.get("preemptionPolicy")
    computed = "priority admission controller computed {} from the given PriorityClass name"
    if given is not None and given != priority:
        said = f"the integer value of priority ({given}) must not be provided in pod spec"
        raise request.forbidden(f"{said}; {computed.format(priority)}")
    if wanted is not None and wanted != policy:
        said = f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec"
        raise request.forbidden(f"{said}; {computed.format(policy)}")
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _of_group(request: AdmissionRequest) -> None:
    """Only where groups of pods preempt as one."""
    cluster = request.cluster
    if not FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("WorkloadAwarePreemption"):
        return
    priority_class, spec = _class(request), request.spec
    priority, given = priority_class.value if priority_class else 0, spec.get("priority")
    if given is not None and given != priority:
        said = f"priority set in the pod group ({given}) must match the priority computed ({priority})"
        raise request.forbidden(f"{said} based on the priority class set in the spec")
    spec["priority"] = priority
    if priority_class is not None:
        spec["priorityClassName"] = priority_class.metadata.name


def _class(request: AdmissionRequest) -> PriorityClass | None:
    """The pod's class; without one the global default of the lowest value, if there is one. Raises NotAdmittedError."""
    classes, name = request.cluster.priority_classes, request.spec.get("priorityClassName")
    if name:
        priority_class = next((known for known in (*classes, *SYSTEM_CLASSES) if known.metadata.name == name), None)
        if priority_class is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
        return priority_class
    defaults = [known for known in classes if known.global_default]
    return min(defaults, key=lambda known: known.value) if defaults else None
