"""What holds the template of pods. Upstream: pkg/apis/{apps,batch}/validation/validation.go and, for a
ReplicationController, pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, invalid, not_supported, required
from kschedctl.api.labels import SelectorError, from_label_selector
from kschedctl.api.objects import LabelSelector, PersistentVolumeClaimVolumeSource
from kschedctl.api.validation import names
from kschedctl.api.validation.metadata import object_meta
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.api.validation.pods import template
from kschedctl.api.validation.selectors import label_selector
from kschedctl.api.validation.strategies import not_negative, strategy
from kschedctl.api.validation.volumes import claim
from kschedctl.api.validation.written import (
    CronJob,
    PodSpec,
    PodTemplate,
    ReplicationController,
    Template,
    Volume,
    Workload,
    WorkloadSpec,
)

SPEC: Path = ("spec",)
NOT_MATCHING = "`selector` does not match template `labels`"
MANAGEMENT_POLICIES = ("OrderedReady", "Parallel")
COMPLETION_MODES = ("NonIndexed", "Indexed")
MOST_PARALLEL = 100_000
"""Pods side by side of an indexed Job."""
_LONGEST_CRON_JOB = 52


def pod_template(manifest: PodTemplate, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidatePodTemplate."""
    yield from object_meta(manifest.metadata, ("metadata",), names.dns_subdomain)
    yield from template(manifest.template, ("template",), options)


def deployment(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateDeployment."""
    yield from replica_set(workload, options)
    yield from strategy(workload.spec.strategy, (*SPEC, "strategy"))


def replica_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateReplicaSet."""
    spec = workload.spec
    yield from object_meta(workload.metadata, ("metadata",), names.dns_subdomain)
    yield from not_negative(spec.replicas, (*SPEC, "replicas"))
    yield from _selector(spec.selector, "deployment")
    yield from _selected(spec, options, "invalid label selector")
    yield from _restarts_always(spec.template)


def stateful_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateStatefulSet; the claims that it makes take the place of volumes of their name."""
    spec, policy = workload.spec, workload.spec.pod_management_policy
    yield from object_meta(workload.metadata, ("metadata",), names.dns_label)
    if policy not in ("", *MANAGEMENT_POLICIES):
        rule = "must be '{}' or '{}'".format(*MANAGEMENT_POLICIES)
        yield invalid((*SPEC, "podManagementPolicy"), TypedString(policy), rule)
    for i, claim_template in enumerate(spec.volume_claim_templates):
        yield from claim(claim_template.spec, (*SPEC, "volumeClaimTemplates", i, "spec"))
    yield from not_negative(spec.replicas, (*SPEC, "replicas"))
    yield from not_negative(spec.ordinals.start, (*SPEC, "ordinals", "start"))
    yield from _selector(spec.selector, "statefulset")
    yield from _selected(replace(spec, template=with_claims(spec)), options, "")
    yield from _restarts_always(spec.template)


def daemon_set(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateDaemonSet."""
    spec = workload.spec
    yield from object_meta(workload.metadata, ("metadata",), names.dns_subdomain)
    yield from label_selector(spec.selector, (*SPEC, "selector"))
    yield from _matching(spec)
    if spec.selector is not None and _is_empty(spec.selector):
        yield invalid((*SPEC, "selector"), spec.selector, "empty selector is invalid for daemonset")
    yield from template(spec.template, (*SPEC, "template"), options)
    yield from _restarts_always(spec.template)


def replication_controller(controller: ReplicationController, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateReplicationController; without a selector it gets the labels of its template."""
    spec = controller.spec
    yield from object_meta(controller.metadata, ("metadata",), names.dns_subdomain)
    labels = spec.template.metadata.labels if spec.template else {}
    selector = spec.selector or labels
    if not selector:
        yield required((*SPEC, "selector"))
    yield from not_negative(spec.replicas, (*SPEC, "replicas"))
    if spec.template is None:
        yield required((*SPEC, "template"))
        return
    if not selector.items() <= labels.items():
        yield invalid((*SPEC, "template", "metadata", "labels"), labels, NOT_MATCHING)
    yield from template(spec.template, (*SPEC, "template"), options)
    yield from _restarts_always(spec.template)


def job(workload: Workload, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateJob; its selector is made by the API server, unless it is given by hand."""
    spec, name = workload.spec, workload.metadata.name
    yield from object_meta(workload.metadata, ("metadata",), names.dns_subdomain)
    yield from _job_spec(spec, SPEC, options)
    if spec.manual_selector:
        if spec.selector is None:
            yield required((*SPEC, "selector"))
        yield from label_selector(spec.selector, (*SPEC, "selector"))
        yield from _matching(spec)
    if spec.completion_mode == "Indexed" and spec.completions and spec.completions > 0 and name:
        last = f"{name}-{spec.completions - 1}"
        if names.dns_label(last):
            rule = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid(("metadata", "name"), name, rule)


def cron_job(manifest: CronJob, options: ValidationOptions) -> ValidationErrors:
    """Upstream: ValidateCronJobCreate; when it runs is not looked at."""
    path: Path = (*SPEC, "jobTemplate", "spec")
    spec, name = manifest.spec.job_template.spec, manifest.metadata.name
    yield from object_meta(manifest.metadata, ("metadata",), names.dns_subdomain)
    if not manifest.spec.schedule:
        yield required((*SPEC, "schedule"))
    yield from _job_spec(spec, path, options)
    if spec.selector is not None:
        yield invalid((*path, "selector"), spec.selector, "`selector` will be auto-generated")
    if spec.manual_selector:
        yield not_supported((*path, "manualSelector"), True, ("nil", "false"))
    if len(name.encode()) > _LONGEST_CRON_JOB:
        yield invalid(("metadata", "name"), name, f"must be no more than {_LONGEST_CRON_JOB} characters")


def _job_spec(spec: WorkloadSpec, path: Path, options: ValidationOptions) -> ValidationErrors:
    yield from not_negative(spec.parallelism, (*path, "parallelism"))
    yield from not_negative(spec.completions or 0, (*path, "completions"))
    yield from _completion_mode(spec, path)
    yield from template(spec.template, (*path, "template"), options)
    at, policy = (*path, "template", "spec", "restartPolicy"), spec.template.spec.restart_policy
    if policy in ("", "Always"):
        yield required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(at, TypedString(policy), ("OnFailure", "Never"))


def _completion_mode(spec: WorkloadSpec, path: Path) -> ValidationErrors:
    mode = spec.completion_mode
    if mode is not None and mode not in COMPLETION_MODES:
        yield not_supported((*path, "completionMode"), TypedString(mode), COMPLETION_MODES)
    if mode != "Indexed":
        return
    if spec.completions is None:
        yield required((*path, "completions"), "when completion mode is Indexed")
    if spec.parallelism > MOST_PARALLEL:
        rule = f"must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed"
        yield invalid((*path, "parallelism"), spec.parallelism, rule)


def _selector(selector: LabelSelector | None, kind: str) -> ValidationErrors:
    if selector is None:
        yield required((*SPEC, "selector"))
        return
    yield from label_selector(selector, (*SPEC, "selector"))
    if _is_empty(selector):
        yield invalid((*SPEC, "selector"), selector, f"empty selector is invalid for {kind}")


def _selected(spec: WorkloadSpec, options: ValidationOptions, fault: str) -> ValidationErrors:
    """The template, unless the selector is one that nobody can apply."""
    try:
        from_label_selector(spec.selector)
    except SelectorError:
        yield invalid((*SPEC, "selector"), spec.selector, fault)
        return
    if spec.selector is None or not _is_empty(spec.selector):
        yield from _matching(spec)
    yield from template(spec.template, (*SPEC, "template"), options)


def _matching(spec: WorkloadSpec) -> ValidationErrors:
    """A selector that is missing matches nothing."""
    labels = spec.template.metadata.labels
    try:
        matches = from_label_selector(spec.selector).matches(labels)
    except SelectorError:
        return
    if not matches:
        yield invalid((*SPEC, "template", "metadata", "labels"), labels or None, NOT_MATCHING)


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _restarts_always(pods: Template) -> ValidationErrors:
    if pods.spec.restart_policy not in ("", "Always"):
        at = (*SPEC, "template", "spec", "restartPolicy")
        yield not_supported(at, TypedString(pods.spec.restart_policy), ("Always",))


def with_claims(spec: WorkloadSpec) -> Template:
    """The template of a StatefulSet with the volumes that its claims become."""
    made = tuple(
        Volume(claim_template.metadata.name, PersistentVolumeClaimVolumeSource(claim_template.metadata.name))
        for claim_template in spec.volume_claim_templates
    )
    taken = {volume.name for volume in made}
    pods: PodSpec = spec.template.spec
    kept = tuple(volume for volume in pods.volumes if volume.name not in taken)
    return replace(spec.template, spec=replace(pods, volumes=(*made, *kept)))
