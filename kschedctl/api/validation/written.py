"""Manifests with all fields that validation reads, which are more than scheduling reads (see kschedctl.api.objects).

Upstream: staging/src/k8s.io/api/{core,apps,batch}/v1/types.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.json_values import Json
from kschedctl.api.objects import Struct


class Port(api.ContainerPort, frozen=True):
    name: str = ""


class VolumeMount(Struct, frozen=True):
    name: str = ""
    mount_path: str = ""


class Container(api.Container, frozen=True):
    ports: tuple[Port, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class Volume(api.Volume, frozen=True):
    """A volume. Sources that scheduling does not read are kept undecoded."""

    empty_dir: Any = None
    host_path: Any = None
    git_repo: Json = None
    secret: Json = None
    nfs: Json = None
    glusterfs: Json = None
    flocker: Json = None
    cephfs: Json = None
    quobyte: Json = None
    downward_api: Json = msgspec.field(default=None, name="downwardAPI")
    fc: Json = None
    flex_volume: Json = None
    config_map: Json = None
    photon_persistent_disk: Json = None
    storageos: Json = None
    projected: Json = None
    scale_io: Json = msgspec.field(default=None, name="scaleIO")
    csi: Any = None


class PodSpec(api.PodSpec, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    runtime_class_name: str | None = None
    restart_policy: str = ""


class Template(Struct, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: PodSpec = PodSpec()


class Pod(Template, frozen=True):
    """A pod that is about to be created, without a status."""


class RollingUpdate(Struct, frozen=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(Struct, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class Ordinals(Struct, frozen=True):
    start: int = 0


class PodTemplate(Struct, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    template: Template = Template()


class WorkloadSpec(Struct, frozen=True):
    """The spec of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    replicas: int = 1
    selector: api.LabelSelector | None = None
    template: Template = Template()
    strategy: Strategy = Strategy()
    pod_management_policy: str = ""
    volume_claim_templates: tuple[api.PersistentVolumeClaim, ...] = ()
    ordinals: Ordinals = Ordinals()
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str | None = None
    manual_selector: bool = False


class Workload(Struct, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class CronJobSpec(Struct, frozen=True):
    schedule: str = ""
    job_template: Workload = Workload()


class CronJob(Struct, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: int = 1
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    template: Template | None = None


class ReplicationController(Struct, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class StorageClass(api.StorageClass, frozen=True):
    reclaim_policy: str | None = None


class ScaleTarget(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    min_replicas: int | None = None
    max_replicas: int = 0
    scale_target_ref: ScaleTarget = ScaleTarget()


class Autoscaler(Struct, frozen=True):
    """A HorizontalPodAutoscaler without its metrics."""

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: AutoscalerSpec = AutoscalerSpec()


AROUND_PODS: dict[str, type[Struct]] = {
    "PodDisruptionBudget": api.PodDisruptionBudget,
    "PriorityClass": api.PriorityClass,
    "PersistentVolumeClaim": api.PersistentVolumeClaim,
    "StorageClass": StorageClass,
    "HorizontalPodAutoscaler": Autoscaler,
}
"""The struct of each validated kind that neither is a pod nor creates pods."""
