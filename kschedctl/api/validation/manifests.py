"""Validation of any manifest that is a pod or contains a pod template, by kind.

Upstream: pkg/apis/{apps,batch}/validation/validation.go and, for a ReplicationController,
pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.api.field_errors import (
    FieldError,
    Path,
    TypedString,
    ValidationErrors,
    deduplicate_errors,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.objects import LabelSelector, PersistentVolumeClaimVolumeSource, Struct
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.api.validation import ValidationOptions, names, written
from kschedctl.api.validation.names import validate_label_selector, validate_object_meta
from kschedctl.api.validation.pods import validate_pod, validate_template
from kschedctl.api.validation.volumes import validate_claim_spec
from kschedctl.api.validation.written import (
    CronJob,
    PodSpec,
    PodTemplate,
    ReplicationController,
    RollingUpdate,
    Strategy,
    Template,
    Volume,
    Workload,
    WorkloadSpec,
)
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, USUAL_TEMPLATE_PATH

SPEC: Path = ("spec",)
NOT_MATCHING = "`selector` does not match template `labels`"
MANAGEMENT_POLICIES = ("OrderedReady", "Parallel")
COMPLETION_MODES = ("NonIndexed", "Indexed")
MAX_INDEXED_PARALLELISM = 100_000
"""The maximum parallelism of an indexed Job."""
_MAX_CRON_JOB_NAME_LENGTH = 52

_STRATEGIES = ("Recreate", "RollingUpdate")


def validate_pod_template(manifest: PodTemplate, options: ValidationOptions) -> ValidationErrors:
    """Validate a PodTemplate. Upstream: ValidatePodTemplate."""
    yield from validate_object_meta(manifest.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from validate_template(manifest.template, ("template",), options)


def validate_deployment(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Validate a Deployment. Upstream: ValidateDeployment."""
    yield from validate_replica_set(workload, options)
    yield from _validate_deployment_strategy(workload.spec.strategy, (*SPEC, "strategy"))


def validate_replica_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Validate a ReplicaSet. Upstream: ValidateReplicaSet."""
    spec = workload.spec
    yield from validate_object_meta(workload.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from _validate_not_negative(spec.replicas, (*SPEC, "replicas"))
    yield from _validate_selector(spec.selector, "deployment")  # upstream's message, also for a ReplicaSet
    yield from _validate_selected_template(spec, options, selector_message="invalid label selector")
    yield from _validate_restart_policy(spec.template)


def validate_stateful_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Validate a StatefulSet. Upstream: ValidateStatefulSet.

    Volumes of claim templates replace volumes of the same name.
    """
    spec = workload.spec
    policy = workload.spec.pod_management_policy
    yield from validate_object_meta(workload.metadata, ("metadata",), names.validate_dns_label)
    if policy not in ("", *MANAGEMENT_POLICIES):
        rule = "must be '{}' or '{}'".format(*MANAGEMENT_POLICIES)
        yield invalid((*SPEC, "podManagementPolicy"), TypedString(policy), rule)
    for i, claim_template in enumerate(spec.volume_claim_templates):
        yield from validate_claim_spec(claim_template.spec, (*SPEC, "volumeClaimTemplates", i, "spec"))
    yield from _validate_not_negative(spec.replicas, (*SPEC, "replicas"))
    yield from _validate_not_negative(spec.ordinals.start, (*SPEC, "ordinals", "start"))
    yield from _validate_selector(spec.selector, "statefulset")
    yield from _validate_selected_template(
        replace(spec, template=add_claim_volumes(spec)), options, selector_message=""
    )
    yield from _validate_restart_policy(spec.template)


def validate_daemon_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Validate a DaemonSet. Upstream: ValidateDaemonSet."""
    spec = workload.spec
    yield from validate_object_meta(workload.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from validate_label_selector(spec.selector, (*SPEC, "selector"))
    yield from _validate_selector_matches(spec)
    if spec.selector is not None and _is_empty(spec.selector):
        yield invalid((*SPEC, "selector"), spec.selector, "empty selector is invalid for daemonset")
    yield from validate_template(spec.template, USUAL_TEMPLATE_PATH, options)
    yield from _validate_restart_policy(spec.template)


def validate_replication_controller(controller: ReplicationController, options: ValidationOptions) -> ValidationErrors:
    """Validate a ReplicationController. Upstream: ValidateReplicationController.

    The selector defaults to the labels of the template. Without a template, the selector is not compared with any
    labels.
    """
    spec = controller.spec
    yield from validate_object_meta(controller.metadata, ("metadata",), names.validate_dns_subdomain)
    labels = spec.template.metadata.labels if spec.template else {}
    selector = spec.selector or labels
    if not selector:
        yield required((*SPEC, "selector"))
    yield from _validate_not_negative(spec.replicas, (*SPEC, "replicas"))
    if spec.template is None:
        yield required(USUAL_TEMPLATE_PATH)
        return
    if not selector.items() <= labels.items():
        yield invalid((*USUAL_TEMPLATE_PATH, "metadata", "labels"), labels, NOT_MATCHING)
    yield from validate_template(spec.template, USUAL_TEMPLATE_PATH, options)
    yield from _validate_restart_policy(spec.template)


def validate_job(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Validate a Job. Upstream: ValidateJob.

    The selector is validated only if it is set by hand, because the API server otherwise generates it. In an indexed
    Job, the name of the last pod must be a DNS label.
    """
    spec = workload.spec
    name = workload.metadata.name
    yield from validate_object_meta(workload.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from _validate_job_spec(spec, SPEC, options)
    if spec.manual_selector:
        if spec.selector is None:
            yield required((*SPEC, "selector"))
        yield from validate_label_selector(spec.selector, (*SPEC, "selector"))
        yield from _validate_selector_matches(spec)
    if spec.completion_mode == "Indexed" and spec.completions and spec.completions > 0 and name:
        last = f"{name}-{spec.completions - 1}"
        if names.validate_dns_label(last):
            rule = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid(("metadata", "name"), name, rule)


def validate_cron_job(manifest: CronJob, options: ValidationOptions) -> ValidationErrors:
    """Validate a CronJob. Upstream: ValidateCronJobCreate.

    The name may have at most _MAX_CRON_JOB_NAME_LENGTH characters. The syntax of the schedule is not checked.
    """
    job_spec_path: Path = POD_TEMPLATE_PATHS["CronJob"][:-1]  # the last step leads from the Job's spec to the template
    spec = manifest.spec.job_template.spec
    name = manifest.metadata.name
    yield from validate_object_meta(manifest.metadata, ("metadata",), names.validate_dns_subdomain)
    if not manifest.spec.schedule:
        yield required((*SPEC, "schedule"))
    yield from _validate_job_spec(spec, job_spec_path, options)
    if spec.selector is not None:
        yield invalid((*job_spec_path, "selector"), spec.selector, "`selector` will be auto-generated")
    if spec.manual_selector:
        yield not_supported((*job_spec_path, "manualSelector"), True, ("nil", "false"))
    if len(name.encode()) > _MAX_CRON_JOB_NAME_LENGTH:
        yield invalid(("metadata", "name"), name, f"must be no more than {_MAX_CRON_JOB_NAME_LENGTH} characters")


def _validate_job_spec(spec: WorkloadSpec, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate the spec of a Job or of a CronJob's Jobs. Upstream: ValidateJobSpec."""
    yield from _validate_not_negative(spec.parallelism, (*path, "parallelism"))
    yield from _validate_not_negative(spec.completions or 0, (*path, "completions"))
    yield from _validate_completion_mode(spec, path)
    yield from validate_template(spec.template, (*path, "template"), options)
    field_path = (*path, "template", "spec", "restartPolicy")
    policy = spec.template.spec.restart_policy
    if policy in ("", "Always"):
        yield required(field_path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(field_path, TypedString(policy), ("OnFailure", "Never"))


def _validate_completion_mode(spec: WorkloadSpec, path: Path) -> ValidationErrors:
    """Validate the completion mode of a Job.

    An indexed Job must have completions, and a parallelism of at most MAX_INDEXED_PARALLELISM.
    """
    mode = spec.completion_mode
    if mode is not None and mode not in COMPLETION_MODES:
        yield not_supported((*path, "completionMode"), TypedString(mode), COMPLETION_MODES)
    if mode != "Indexed":
        return
    if spec.completions is None:
        yield required((*path, "completions"), "when completion mode is Indexed")
    if spec.parallelism > MAX_INDEXED_PARALLELISM:
        rule = f"must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        yield invalid((*path, "parallelism"), spec.parallelism, rule)


def _validate_selector(selector: LabelSelector | None, kind: str) -> ValidationErrors:
    """Validate that a workload has a valid, non-empty selector. ``kind`` is the kind in upstream's message."""
    if selector is None:
        yield required((*SPEC, "selector"))
        return
    yield from validate_label_selector(selector, (*SPEC, "selector"))
    if _is_empty(selector):
        yield invalid((*SPEC, "selector"), selector, f"empty selector is invalid for {kind}")


def _validate_selected_template(
    spec: WorkloadSpec, options: ValidationOptions, *, selector_message: str
) -> ValidationErrors:
    """Validate the template, and that the selector matches it.

    If the selector is invalid, only this is reported, with ``selector_message``.
    """
    try:
        selector_from_api(spec.selector)
    except SelectorError:
        yield invalid((*SPEC, "selector"), spec.selector, selector_message)
        return
    has_empty_selector = spec.selector is not None and _is_empty(spec.selector)
    if not has_empty_selector:  # which is an error of its own
        yield from _validate_selector_matches(spec)
    yield from validate_template(spec.template, USUAL_TEMPLATE_PATH, options)


def _validate_selector_matches(spec: WorkloadSpec) -> ValidationErrors:
    """Validate that the selector matches the template's labels. A missing selector matches nothing.

    Nothing is reported for an invalid selector, which is reported elsewhere.
    """
    labels = spec.template.metadata.labels
    try:
        matches = selector_from_api(spec.selector).matches(labels)
    except SelectorError:
        return
    if not matches:
        yield invalid((*USUAL_TEMPLATE_PATH, "metadata", "labels"), labels or None, NOT_MATCHING)


def _is_empty(selector: LabelSelector) -> bool:
    """Return whether the selector has no requirements."""
    return not selector.match_labels and not selector.match_expressions


def _validate_restart_policy(pods: Template) -> ValidationErrors:
    """Validate that the pods of a controller are always restarted."""
    if pods.spec.restart_policy not in ("", "Always"):
        field_path = (*USUAL_TEMPLATE_PATH, "spec", "restartPolicy")
        yield not_supported(field_path, TypedString(pods.spec.restart_policy), ("Always",))


def add_claim_volumes(spec: WorkloadSpec) -> Template:
    """Return a StatefulSet's template with the volumes of its claim templates.

    These volumes replace volumes of the same name.
    """
    claim_volumes = tuple(
        Volume(claim_template.metadata.name, PersistentVolumeClaimVolumeSource(claim_template.metadata.name))
        for claim_template in spec.volume_claim_templates
    )
    claim_names = {volume.name for volume in claim_volumes}
    pods: PodSpec = spec.template.spec
    other_volumes = tuple(volume for volume in pods.volumes if volume.name not in claim_names)
    return replace(spec.template, spec=replace(pods, volumes=(*claim_volumes, *other_volumes)))


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
    "PodTemplate": validate_pod_template,
    "Deployment": validate_deployment,
    "ReplicaSet": validate_replica_set,
    "ReplicationController": validate_replication_controller,
    "StatefulSet": validate_stateful_set,
    "DaemonSet": validate_daemon_set,
    "Job": validate_job,
    "CronJob": validate_cron_job,
}


def validate_manifest(kind: str, manifest: Struct, options: ValidationOptions) -> list[FieldError]:
    """Return the API server's validation errors of an object of one of KINDS, without duplicates, in its order.

    >>> [str(error) for error in validate_manifest("Pod", written.Pod(), ValidationOptions())]
    ['metadata.name: Required value: name or generateName is required', 'spec.containers: Required value']
    """
    return deduplicate_errors(_RULES[kind](manifest, options))


def iter_pod_templates(kind: str, manifest: Struct) -> Iterator[tuple[written.Template, Path]]:
    """Yield each pod template in a manifest with its path. ``kind`` is the manifest's kind, one of KINDS.

    A StatefulSet's template gets the volumes of its claim templates.
    """
    match manifest:
        case written.Pod():
            yield manifest, ()
        case written.Workload():
            template = add_claim_volumes(manifest.spec) if kind == "StatefulSet" else manifest.spec.template
            yield template, USUAL_TEMPLATE_PATH
        case written.ReplicationController():
            if manifest.spec.template is not None:
                yield manifest.spec.template, USUAL_TEMPLATE_PATH
        case written.CronJob():
            yield manifest.spec.job_template.spec.template, POD_TEMPLATE_PATHS["CronJob"]


class _PrintedRollingUpdate(msgspec.Struct, frozen=True, rename="pascal"):
    """The settings of a rolling update as upstream prints them."""

    max_unavailable: int | str
    max_surge: int | str


class _PrintedStrategy(msgspec.Struct, frozen=True, rename="pascal"):
    """A strategy as upstream prints it."""

    type: str
    rolling_update: _PrintedRollingUpdate | None


def _to_printed_update(update: RollingUpdate | None) -> _PrintedRollingUpdate | None:
    """Return the settings of a rolling update as upstream prints them in errors. None stays None."""
    if update is None:
        return None
    return _PrintedRollingUpdate(update.max_unavailable or 0, update.max_surge or 0)


def _validate_deployment_strategy(update: Strategy, path: Path) -> ValidationErrors:
    """Validate a Deployment's update strategy. Upstream: ValidateDeploymentStrategy."""
    if update.type not in ("", *_STRATEGIES):
        yield not_supported(path, _PrintedStrategy(update.type, _to_printed_update(update.rolling_update)), _STRATEGIES)
    elif update.type == "Recreate":
        if update.rolling_update is not None:
            rule = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden((*path, "rollingUpdate"), rule)
    elif update.rolling_update is not None:
        yield from _validate_surge_and_unavailable(
            update.rolling_update.max_surge, update.rolling_update.max_unavailable, path
        )


def _validate_surge_and_unavailable(
    surge: int | str | None, unavailable: int | str | None, path: Path
) -> ValidationErrors:
    """Validate maxSurge and maxUnavailable of a rolling update, which both default to 25 %.

    At most one of the two may be 0.
    """
    surge = "25%" if surge is None else surge
    unavailable = "25%" if unavailable is None else unavailable
    update_path = (*path, "rollingUpdate")
    yield from validate_non_negative_int_or_percent(unavailable, (*update_path, "maxUnavailable"))
    yield from validate_non_negative_int_or_percent(surge, (*update_path, "maxSurge"))
    if _parse_int_or_percent(surge) == _parse_int_or_percent(unavailable) == 0:
        yield invalid(
            (*update_path, "maxUnavailable"),
            _to_printed_int_or_percent(unavailable),
            "may not be 0 when `maxSurge` is 0",
        )
    yield from validate_at_most_100_percent(unavailable, (*update_path, "maxUnavailable"))


def validate_non_negative_int_or_percent(value: int | str, path: Path) -> ValidationErrors:
    """Validate that a value is a non-negative integer or a percentage.

    Upstream: ValidatePositiveIntOrPercent.
    """
    if isinstance(value, int):
        yield from _validate_not_negative(value, path)
    elif not re.fullmatch(r"[0-9]+%", value):
        example = "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        rule = f"a valid percent string must be a numeric string followed by an ending '%' {example}"
        yield invalid(path, TypedString(value), rule)


def validate_at_most_100_percent(value: int | str, path: Path) -> ValidationErrors:
    """Validate a percentage of at most 100 %. Upstream: IsNotMoreThan100Percent."""
    if isinstance(value, str) and value.endswith("%") and _parse_int_or_percent(value) > 100:
        yield invalid(path, TypedString(value), "must not be greater than 100%")


def _parse_int_or_percent(value: int | str) -> int:
    """Return the number in an int, a percentage or the text of an integer, or 0 for any other text.

    Numbers in text that exceed an int64 are clamped to it, as with Go's strconv.Atoi.
    """
    if isinstance(value, int):
        return value
    if not re.fullmatch(r"[0-9]+%|[+-]?[0-9]+", value):
        return 0
    is_negative = value.startswith("-")
    digits = value.strip("+-%").lstrip("0") or "0"
    if len(digits) > len(str(INT64_MAX)):  # int() would raise ValueError for thousands of digits
        return INT64_MIN if is_negative else INT64_MAX
    number = -int(digits) if is_negative else int(digits)
    return min(max(number, INT64_MIN), INT64_MAX)


def _to_printed_int_or_percent(value: int | str) -> int | TypedString:
    """Return an integer or percentage as upstream prints it in errors."""
    return value if isinstance(value, int) else TypedString(value)


def _validate_not_negative(number: int, path: Path) -> ValidationErrors:
    """Validate a number of at least 0. Upstream: ValidateNonnegativeField."""
    if number < 0:
        yield invalid(path, number, "must be greater than or equal to 0")
