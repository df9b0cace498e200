"""A pod's priority and whether it preempts. Upstream: plugin/pkg/admission/priority/admission.go (v1.36)."""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.objects import PriorityClass
from kschedctl.api.priority import SYSTEM_CLASSES

PREEMPTS = "PreemptLowerPriority"


def fill_in(request: AdmissionRequest) -> None:
    """Priority and preemption policy of the pod's class. Raises NotAdmittedError."""
    if not request.is_pod:
        return
    spec = request.spec
    found = _class(request)
    if found is not None and not spec.get("priorityClassName"):
        spec["priorityClassName"] = found.metadata.name
        request.changed.append(f"priorityClassName {found.metadata.name} by PriorityClass {found.metadata.name}")
    priority = found.value if found else 0
    policy = (found.preemption_policy if found else None) or PREEMPTS
    given, wanted = spec.get("priority"), spec.get("preemptionPolicy")
    computed = "priority admission controller computed {} from the given PriorityClass name"
    if given is not None and given != priority:
        said = f"the integer value of priority ({given}) must not be provided in pod spec"
        raise request.forbidden(f"{said}; {computed.format(priority)}")
    if wanted is not None and wanted != policy:
        said = f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec"
        raise request.forbidden(f"{said}; {computed.format(policy)}")
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _class(request: AdmissionRequest) -> PriorityClass | None:
    """The pod's class; without one the global default of the lowest value, if there is one. Raises NotAdmittedError."""
    classes, name = request.cluster.priority_classes, request.spec.get("priorityClassName")
    if name:
        found = next((each for each in (*classes, *SYSTEM_CLASSES) if each.metadata.name == name), None)
        if found is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
        return found
    defaults = [each for each in classes if each.global_default]
    return min(defaults, key=lambda each: each.value) if defaults else None
