"""Objects by which Kueue and Volcano decide when a workload may start, limited to the fields that an analysis reads.

Upstream: apis/kueue/v1beta1 and v1beta2 of kubernetes-sigs/kueue, pkg/apis/scheduling/v1beta1 and
pkg/apis/batch/v1alpha1 of volcano-sh/apis. Where v1beta2 renamed a field of Kueue, both names are read.
"""

from __future__ import annotations

from kschedctl.api.objects import Condition, Int64, ObjectMeta, PodTemplateSpec, Resources, Struct


class KueuePodSet(Struct, frozen=True):
    """The pods of a Kueue Workload that share a template."""

    name: str = "main"
    count: Int64 = 1
    template: PodTemplateSpec = PodTemplateSpec()


class KueueWorkloadSpec(Struct, frozen=True):
    queue_name: str = ""
    active: bool | None = None
    priority: Int64 | None = None
    pod_sets: tuple[KueuePodSet, ...] = ()


class KueuePodSetAssignment(Struct, frozen=True):
    """What Kueue assigned to one pod set."""

    name: str = "main"
    flavors: dict[str, str] = {}
    """The chosen flavor of each resource."""
    resource_usage: Resources = {}
    """The quota that the pod set reserves."""


class KueueAdmission(Struct, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[KueuePodSetAssignment, ...] = ()


class KueueAdmissionCheckState(Struct, frozen=True):
    name: str = ""
    state: str = ""
    message: str = ""


class KueueWorkloadStatus(Struct, frozen=True):
    admission: KueueAdmission | None = None
    admission_checks: tuple[KueueAdmissionCheckState, ...] = ()
    conditions: tuple[Condition, ...] = ()


class KueueWorkload(Struct, frozen=True):
    """A Workload of Kueue. Its pods start once quota is reserved for all of them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KueueWorkloadSpec = KueueWorkloadSpec()
    status: KueueWorkloadStatus = KueueWorkloadStatus()


class KueueResourceQuota(Struct, frozen=True):
    name: str = ""
    nominal_quota: str | int | float = 0
    borrowing_limit: str | int | float | None = None


class KueueFlavorQuotas(Struct, frozen=True):
    name: str = ""
    resources: tuple[KueueResourceQuota, ...] = ()


class KueueResourceGroup(Struct, frozen=True):
    """Resources that get their flavor together."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[KueueFlavorQuotas, ...] = ()


class ClusterQueueSpec(Struct, frozen=True):
    """The quota and the cohort of a ClusterQueue."""

    resource_groups: tuple[KueueResourceGroup, ...] = ()
    cohort: str = ""
    """The name of ``cohort_name`` in v1beta1."""
    cohort_name: str = ""
    stop_policy: str | None = None


class KueueResourceUsage(Struct, frozen=True):
    name: str = ""
    total: str | int | float = 0


class KueueFlavorUsage(Struct, frozen=True):
    name: str = ""
    resources: tuple[KueueResourceUsage, ...] = ()


class ClusterQueueStatus(Struct, frozen=True):
    flavors_reservation: tuple[KueueFlavorUsage, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ClusterQueue(Struct, frozen=True):
    """A ClusterQueue of Kueue, which holds quota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class LocalQueueSpec(Struct, frozen=True):
    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueueStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class LocalQueue(Struct, frozen=True):
    """A LocalQueue of Kueue, through which a namespace uses a ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class VolcanoQueueSpec(Struct, frozen=True):
    capability: Resources = {}
    """The most that the queue's PodGroups may use together."""


class VolcanoQueueStatus(Struct, frozen=True):
    state: str = ""
    allocated: Resources = {}


class VolcanoQueue(Struct, frozen=True):
    """A Queue of Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: VolcanoQueueStatus = VolcanoQueueStatus()


class VolcanoTask(Struct, frozen=True):
    """The pods of a Volcano Job that share a template."""

    name: str = ""
    replicas: Int64 = 1
    template: PodTemplateSpec = PodTemplateSpec()


class VolcanoJobSpec(Struct, frozen=True):
    queue: str = ""
    min_available: Int64 = 0
    tasks: tuple[VolcanoTask, ...] = ()


class VolcanoJobState(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class VolcanoJobStatus(Struct, frozen=True):
    state: VolcanoJobState = VolcanoJobState()


class VolcanoJob(Struct, frozen=True):
    """A Job of Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()
