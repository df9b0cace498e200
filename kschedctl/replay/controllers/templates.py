"""What the pods of a workload are made of, wherever its kind has it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kschedctl.api.objects import PodSpec, PodTemplateSpec, Struct
from kschedctl.api.workloads import CronJob


def template_spec(workload: Any) -> PodSpec:
    """What a workload's pods are made of."""
    spec = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    pod_spec: PodSpec = (spec.template or PodTemplateSpec()).spec
    return pod_spec


def with_template_spec(workload: Any, pod: PodSpec) -> Struct:
    """The workload with pods that are made of this."""
    if isinstance(workload, CronJob):
        job = workload.spec.job_template
        made = replace(job.spec, template=replace(job.spec.template, spec=pod))
        return replace(workload, spec=replace(workload.spec, job_template=replace(job, spec=made)))
    template = replace(workload.spec.template or PodTemplateSpec(), spec=pod)
    changed: Struct = replace(workload, spec=replace(workload.spec, template=template))
    return changed
