"""Validation of any manifest that is a pod or contains a pod template, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kschedctl.api.field_errors import FieldError, Path, ValidationErrors, deduplicate
from kschedctl.api.objects import Struct
from kschedctl.api.pod_templates import POD_TEMPLATE_PATHS, USUAL_TEMPLATE_PATH
from kschedctl.api.validation import workloads, written
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.api.validation.pods import validate_pod

KINDS: dict[str, type[Struct]] = {
    "Pod": written.Pod,
    "PodTemplate": written.PodTemplate,
    "Deployment": written.Workload,
    "ReplicaSet": written.Workload,
    "ReplicationController": written.ReplicationController,
    "StatefulSet": written.Workload,
    "DaemonSet": written.Workload,
    "Job": written.Workload,
    "CronJob": written.CronJob,
}
"""The struct that ``validate_manifest`` takes for each kind."""

_RULES: dict[str, Callable[[Any, ValidationOptions], ValidationErrors]] = {
    "Pod": validate_pod,
    "PodTemplate": workloads.validate_pod_template,
    "Deployment": workloads.validate_deployment,
    "ReplicaSet": workloads.validate_replica_set,
    "ReplicationController": workloads.validate_replication_controller,
    "StatefulSet": workloads.validate_stateful_set,
    "DaemonSet": workloads.validate_daemon_set,
    "Job": workloads.validate_job,
    "CronJob": workloads.validate_cron_job,
}


def validate_manifest(kind: str, manifest: Struct, options: ValidationOptions) -> list[FieldError]:
    """Return the API server's validation errors of an object of one of KINDS, without duplicates, in its order.

    >>> [str(error) for error in validate_manifest("Pod", written.Pod(), ValidationOptions())]
    ['metadata.name: Required value: name or generateName is required', 'spec.containers: Required value']
    """
    return deduplicate(_RULES[kind](manifest, options))


def iter_pod_templates(kind: str, manifest: Struct) -> Iterator[tuple[written.Template, Path]]:
    """Yield the pod templates of an object of one of KINDS with their paths."""
    match manifest:
        case written.Pod():
            yield manifest, ()
        case written.Workload():
            template = workloads.add_claim_volumes(manifest.spec) if kind == "StatefulSet" else manifest.spec.template
            yield template, USUAL_TEMPLATE_PATH
        case written.ReplicationController():
            if manifest.spec.template is not None:
                yield manifest.spec.template, USUAL_TEMPLATE_PATH
        case written.CronJob():
            yield manifest.spec.job_template.spec.template, POD_TEMPLATE_PATHS["CronJob"]
