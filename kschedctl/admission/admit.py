"""The admission of a manifest as kube-apiserver does it: defaults, admission plugins in their order, validation.

Upstream: pkg/kubeapiserver/options/plugins.go and the server's log of the plugins that it loads (v1.36). The server
applies several LimitRanges and ResourceQuotas in random order, so further possible outcomes are returned beside the
first.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any, TypeVar

import msgspec

from kschedctl.admission import (
    classes,
    defaults,
    limit_ranger,
    node_selector,
    resource_quota,
    service_account,
    tolerations,
)
from kschedctl.admission.request import BAD, CODES, INVALID, NOT_FOUND, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.api.component_flags import OPTIONAL_PLUGINS
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.objects import LimitRange, ResourceQuota
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import unknown_fields
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.reports.not_created import Admission, OtherOutcome
from kschedctl.scheduler.configuration.version_fields import build_validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Plugin = Callable[[AdmissionRequest], None]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
MAX_PERMUTED = 4
"""The maximum number of LimitRanges that are tried in every order. Of more, each comes first once."""
VALIDATION, POD_SECURITY = "Validation", "PodSecurity"


def admit(
    cluster: Cluster, manifest: JsonObject, *, namespace: str | None = None, plugins: Collection[str] = ()
) -> Admission:
    """Replay kube-apiserver 1.36's admission of a pod or another object, and return its outcome.

    ``namespace`` is the namespace of the request, by default the manifest's namespace. ``plugins`` are enabled in
    addition to the default plugins. If there are none, the optional plugins of the cluster's API server are enabled.
    Webhooks and policies are not called. LimitRanges and quotas apply in random order. Other possible outcomes are in
    the field ``varies`` of the outcome. Raises UsageError for an unknown plugin, and InputError if the
    manifest has no kind.

    >>> admit(Cluster.from_objects([]), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}).message
    'namespaces "default" not found'
    """
    cluster = cluster.with_admission_plugins(plugins)
    if not isinstance(manifest.get("kind"), str):
        raise InputError("kind: required")
    target_namespace = namespace or str(object_at(manifest, "metadata").get("namespace") or DEFAULT_NAMESPACE)
    first_outcome, *later_outcomes = iter_admission_outcomes(cluster, manifest, target_namespace)
    first_key = _get_outcome_key(first_outcome)
    other_answers = dict.fromkeys(
        (outcome.code, outcome.message) for outcome in later_outcomes if _get_outcome_key(outcome) != first_key
    )
    other_outcomes = tuple(OtherOutcome(code, message) for code, message in other_answers)
    return msgspec.structs.replace(first_outcome, varies=other_outcomes)


def _get_outcome_key(outcome: Admission) -> tuple[int, str | None, bytes]:
    """Return a key that is equal for outcomes with equal code, message and object."""
    return outcome.code, outcome.message, msgspec.json.encode(outcome.object)


def iter_admission_outcomes(
    cluster: Cluster,
    manifest: JsonObject,
    namespace: str,
    *,
    quotas: Sequence[ResourceQuota] | None = None,
    skipped: Collection[str] = (),
    annotated: bool = True,
) -> Iterator[Admission]:
    """Yield an outcome for each order of LimitRanges and quotas that may change the result.

    The order by name comes first, and outcomes may repeat. ``quotas`` are by default the quotas of the namespace.
    ``skipped`` names steps to skip, such as VALIDATION. With ``annotated``, outcomes that differ only in LimitRanger's
    annotation are yielded as well.
    """
    ranges = tuple(map(limit_ranger.with_api_defaults, cluster.list_in_namespace("limit_ranges", namespace)))
    all_quotas = tuple(cluster.list_in_namespace("resource_quotas", namespace) if quotas is None else quotas)
    kind = str(manifest["kind"])

    def run(
        mutating_order: Sequence[LimitRange],
        validating_order: Sequence[LimitRange],
        quota_order: Sequence[ResourceQuota],
    ) -> Admission:
        """Run admission once with LimitRanges and quotas in these orders."""
        obj = copy.deepcopy(dict(drop_nulls(manifest)))
        request = AdmissionRequest(
            cluster, kind, obj, namespace=namespace, limit_ranges=mutating_order, quotas=quota_order
        )
        return _AdmissionRun(request, validating_order, skipped).run()

    # The order in which defaults are set changes the annotation, and the object itself only if the defaults differ
    can_order_matter = annotated or limit_ranger.have_different_container_defaults(ranges)
    mutating_orders = list_limit_range_orders(ranges) if can_order_matter else [ranges]
    for mutating_order in mutating_orders:
        outcome = run(mutating_order, ranges, all_quotas)
        yield outcome
        # An object that is admitted in one order of the validating steps is admitted in all. Otherwise, the first
        # step that denies it decides the message, so that each has to come first once. The first rotation ran above.
        if not outcome.allowed:
            yield from (run(mutating_order, order, all_quotas) for order in list_rotations(ranges)[1:])
            yield from (run(mutating_order, ranges, order) for order in list_rotations(all_quotas)[1:])


def list_limit_range_orders(ranges: Sequence[LimitRange]) -> Iterable[Sequence[LimitRange]]:
    """Return the orders in which LimitRanges may set defaults, the order by name first.

    Of more than MAX_PERMUTED LimitRanges, only the rotations are returned.
    """
    return permutations(ranges) if len(ranges) <= MAX_PERMUTED else list_rotations(ranges)


def list_rotations(objects: Sequence[T]) -> list[Sequence[T]]:
    """Return the rotations of a sequence, in which each object comes first once.

    An empty sequence has one rotation, which is empty.
    """
    return [(*objects[i:], *objects[:i]) for i in range(len(objects))] or [()]


class _AdmissionRun:
    """One run of admission with a fixed order of LimitRanges and quotas."""

    def __init__(
        self, request: AdmissionRequest, validating_order: Sequence[LimitRange], skipped: Collection[str]
    ) -> None:
        self.request, self.validating_order = request, validating_order
        server = request.cluster.api_server
        self.skipped = {*OPTIONAL_PLUGINS, *server.disabled, *skipped}.difference(server.enabled_optional_plugins)
        self.warnings: list[str] = []

    def run(self) -> Admission:
        """Run all steps of admission, and return whether the object is admitted and how it is stored.

        If a step denies the object, the result has the message and no object.
        """
        try:
            self._run_steps()
        except NotAdmittedError as error:
            return Admission(
                CODES[error.reason],
                allowed=False,
                reason=error.reason,
                message=error.message,
                warnings=tuple(self.warnings),
                resource_defaults=tuple(self.request.resource_defaults),
            )
        return Admission(
            201,
            allowed=True,
            warnings=tuple(self.warnings),
            object=_build_stored_object(self.request),
            changed=tuple(self.request.changed),
            resource_defaults=tuple(self.request.resource_defaults),
        )

    def _run_steps(self) -> None:
        """Run decoding, the mutating plugins, validation and the validating plugins, except skipped steps.

        An object with only a generateName is named ``<generateName>*`` before validation. Raises
        NotAdmittedError if a step denies the object.
        """
        request = self.request
        self._decode_and_set_defaults()
        for name, plugin in _MUTATING:
            if name not in self.skipped:
                plugin(request)
        metadata = request.obj["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            request.name = f"{metadata['generateName']}*"
        if VALIDATION not in self.skipped:
            self._validate()

        # The validating plugins read the LimitRanges in another order than the mutating ones
        request.limit_ranges = self.validating_order
        for name, plugin in _VALIDATING:
            if name in self.skipped:
                continue
            if name == POD_SECURITY:
                self._check_pod_security()
            else:
                plugin(request)

    def _decode_and_set_defaults(self) -> None:
        """Decode the object as the API server would, and set its defaults and its namespace.

        Unknown fields are dropped with a warning. Other warnings are about fractions of a byte in a pod's amounts, and
        about the deprecated annotation for the class of a claim. Raises NotAdmittedError if an amount, or a pod's
        priority, cannot be decoded, or if the object has a different namespace from the request.
        """
        request = self.request
        self._drop_unknown_fields()
        if request.is_pod:
            _check_priority_type(request)
            self.warnings += _iter_fraction_warnings(request)

        meta = request.obj.setdefault("metadata", {})
        request.name = meta.get("name") or meta.get("generateName") or ""
        self._set_defaults()
        self._set_namespace(meta)
        if resource_quota.BETA_CLASS_ANNOTATION in request.annotations and request.kind == "PersistentVolumeClaim":
            message = 'deprecated since v1.8; use "storageClassName" attribute instead'
            self.warnings.append(f"metadata.annotations[{resource_quota.BETA_CLASS_ANNOTATION}]: {message}")

    def _set_defaults(self) -> None:
        """Set the object's defaults in place. Raises NotAdmittedError if an amount cannot be decoded."""
        request = self.request
        try:
            defaults.set_defaults(request)
        except QuantityError as error:
            version = request.obj.get("apiVersion", "v1")
            message = f'{request.kind} in version "{version}" cannot be handled as a {request.kind}'
            raise NotAdmittedError(BAD, f"{message}: {error.what}") from None

    def _set_namespace(self, metadata: Writable) -> None:
        """Set the namespace in the object's metadata to that of the request.

        Raises NotAdmittedError if the object has a different namespace.
        """
        own_namespace = metadata.get("namespace")
        if own_namespace and own_namespace != self.request.namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise NotAdmittedError(BAD, message)
        metadata["namespace"] = self.request.namespace

    def _drop_unknown_fields(self) -> None:
        """Remove the object's unknown fields in place, and add a warning about each."""
        obj: Any = self.request.obj
        for field in list(unknown_fields.iter_unknown_fields(obj)):
            self.warnings.append(str(field))
            *parent_path, name = field.path
            parent = obj
            for step in parent_path:
                parent = parent[step]
            del parent[name]

    def _validate(self) -> None:
        """Raise NotAdmittedError with all validation errors of the object, if there are any."""
        request = self.request
        errors = [str(error) for error in _validate_object(request)]
        if errors:
            message = ", ".join(errors)
            if len(errors) > 1:
                message = f"[{message}]"
            raise NotAdmittedError(INVALID, f'{request.kind} "{request.name}" is invalid: {message}')

    def _check_pod_security(self) -> None:
        """Check the pod or pod template against the namespace's Pod Security levels.

        Raises NotAdmittedError if a pod violates the enforced level, which does not apply to pod templates. Violations
        of the warn level are added to the warnings.
        """
        from kschedctl.admission import pod_security  # noqa: PLC0415 - only if the plugin runs

        request = self.request
        labels = request.namespace_object.metadata.labels if request.namespace_object else {}
        pod = pod_security.extract_pod(request.kind, request.obj)
        if not pod:
            return
        if request.is_pod:
            enforced_violations = pod_security.get_enforced_standard(labels).describe_violations(pod)
            if enforced_violations:
                raise request.build_denial_error(f"violates PodSecurity {enforced_violations}")
        warned_violations = pod_security.get_warn_standard(labels).describe_violations(pod)
        if warned_violations:
            self.warnings.append(f"would violate PodSecurity {warned_violations}")


def _validate_object(request: AdmissionRequest) -> Sequence[object]:
    """Return the validation errors of the object, or none if objects of its kind cannot be validated.

    The validation of a pod includes the fields that scheduling does not read.
    """
    from kschedctl.admission.unscheduled_fields import validate_unscheduled_fields  # noqa: PLC0415 - only if validated
    from kschedctl.api.validation import around_pods, manifests  # noqa: PLC0415 - only if validated

    kind, obj = request.kind, request.obj
    object_copy = {**obj, "metadata": {**obj["metadata"]}}
    if kind in manifests.KINDS:
        struct = convert_builtins(object_copy, manifests.KINDS[kind])
        options = build_validation_options(FeatureGates(request.cluster.kube_version, request.cluster.feature_gates))
        errors: list[object] = list(manifests.validate_manifest(kind, struct, options))
        if request.is_pod:
            errors += validate_unscheduled_fields(request)
        return errors
    if kind in around_pods.KINDS:
        return around_pods.validate_object(kind, convert_builtins(object_copy, around_pods.KINDS[kind]))
    return ()


def _iter_fraction_warnings(request: AdmissionRequest) -> Iterator[str]:
    """Yield a warning about each fraction of a byte in the requests and limits of a pod's containers."""
    for name in ("initContainers", "containers"):
        for index, container in enumerate(request.spec.get(name) or ()):
            for part in ("limits", "requests"):
                amounts = (container.get("resources") or {}).get(part) or {}
                for resource in ("memory", "ephemeral-storage"):
                    text = str(amounts.get(resource, ""))
                    if text.endswith("m"):  # the suffix for thousandths
                        path = f"spec.{name}[{index}].resources.{part}[{resource}]"
                        yield f'{path}: fractional byte value "{text}" is invalid, must be an integer'


def _build_stored_object(request: AdmissionRequest) -> JsonObject:
    """Build the shown part of the object as the API server would store it.

    This part consists of the spec and of the object's names, labels, annotations and finalizers. A name that is still
    to be generated is shown as its prefix with "*". For a pod, the part also has the QoS class and whether the pod gets
    a token volume.
    """
    meta = request.obj["metadata"]
    names = ("name", "namespace", "generateName", "labels", "annotations", "finalizers")
    metadata: Writable = {name: meta[name] for name in names if meta.get(name)}
    if not meta.get("name") and meta.get("generateName"):
        metadata["name"] = f"{meta['generateName']}*"
    stored_object: Writable = {"metadata": metadata, "spec": request.spec}
    if request.is_pod:
        stored_object["qosClass"] = _compute_qos_class(request)
        stored_object["tokenVolume"] = service_account.has_token_volume(request)
    return stored_object


def _compute_qos_class(request: AdmissionRequest) -> str:
    """Return the pod's quality of service class. Upstream: ComputePodQOS.

    It is BestEffort if there are no requests or limits of CPU and memory, and Guaranteed if all requests equal limits
    above 0. Otherwise, it is Burstable. If the pod has resources at pod level, only these count.
    """
    if resource_quota.is_best_effort(request):
        return "BestEffort"
    for resources in resource_quota.list_qos_resources(request):
        limits = defaults.parse_amounts(resources.get("limits") or {})
        requests = defaults.parse_amounts(resources.get("requests") or {})
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None or limit.mantissa == 0:
                return "Burstable"
            if name in requests and requests[name] != limit:  # without a request, the limit is requested
                return "Burstable"
    return "Guaranteed"


def check_namespace(request: AdmissionRequest) -> None:
    """Run the NamespaceLifecycle plugin.

    Raises NotAdmittedError if the namespace does not exist or is being terminated.
    """
    namespace = request.namespace_object
    if namespace is None:
        raise NotAdmittedError(NOT_FOUND, f'namespaces "{request.namespace}" not found')
    if namespace.status.phase == "Terminating" or namespace.metadata.deletion_timestamp:
        message = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        raise request.build_denial_error(message)


def _set_pull_policy_to_always(request: AdmissionRequest) -> None:
    """Run the AlwaysPullImages plugin: set the pull policy of all containers of a pod to Always."""
    if not request.is_pod:
        return
    for container in (*request.containers, *request.init_containers):
        container["imagePullPolicy"] = "Always"


def _check_anti_affinity_topology(request: AdmissionRequest) -> None:
    """Run the LimitPodHardAntiAffinityTopology plugin.

    Raises NotAdmittedError if a required anti-affinity term of a pod has a topologyKey other than the hostname label.
    """
    anti_affinity = object_at(request.spec, "affinity", "podAntiAffinity") if request.is_pod else {}
    for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():  # type: ignore[attr-defined]
        if term.get("topologyKey") != HOSTNAME:
            prefix = "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey"
            raise request.build_denial_error(
                f"{prefix} {term.get('topologyKey', '')} but only key {HOSTNAME} is allowed"
            )


def _skip_step(request: AdmissionRequest) -> None:
    """Do nothing, for a step that is run elsewhere."""


_MUTATING: Sequence[tuple[str, Plugin]] = (
    ("NamespaceLifecycle", check_namespace),
    ("LimitRanger", limit_ranger.add_default_resources),
    ("ServiceAccount", service_account.set_service_account),
    ("AlwaysPullImages", _set_pull_policy_to_always),
    ("PodNodeSelector", node_selector.add_node_selector),
    ("Priority", classes.set_priority),
    ("DefaultTolerationSeconds", tolerations.add_default_tolerations),
    ("PodTolerationRestriction", tolerations.add_namespace_tolerations),
    ("ExtendedResourceToleration", tolerations.add_extended_resource_tolerations),
    ("DefaultStorageClass", classes.set_default_storage_class),
    ("StorageObjectInUseProtection", classes.add_protection_finalizer),
    ("RuntimeClass", classes.apply_runtime_class),
)
_VALIDATING: Sequence[tuple[str, Plugin]] = (
    ("LimitPodHardAntiAffinityTopology", _check_anti_affinity_topology),
    ("LimitRanger", limit_ranger.check_limit_range_bounds),
    (POD_SECURITY, _skip_step),  # _AdmissionRun runs it, as it warns
    ("PodNodeSelector", node_selector.check_node_selector),
    ("PodTolerationRestriction", tolerations.check_toleration_whitelist),
    ("RuntimeClass", classes.check_overhead_matches_class),
    ("ResourceQuota", resource_quota.check_quotas),
)


def _check_priority_type(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the pod's priority is not an int32, because the API server cannot decode it.

    The message names the JSON type of the value, as Go's does. A missing priority is valid.
    """
    spec = request.obj.get("spec")
    priority = spec.get("priority") if isinstance(spec, dict) else None
    if priority is None:
        return
    is_integer = isinstance(priority, int) and not isinstance(priority, bool)
    if is_integer and INT32_MIN <= priority <= INT32_MAX:
        return
    match priority:
        case bool():
            value = "bool"
        case str():
            value = "string"
        case int() | float():
            value = f"number {json.dumps(priority)}"
        case list():
            value = "array"
        case _:
            value = "object"
    version = request.obj.get("apiVersion", "v1")
    prefix = f'{request.kind} in version "{version}" cannot be handled as a {request.kind}'
    target = "Go struct field PodSpec.spec.priority of type int32"
    raise NotAdmittedError(BAD, f"{prefix}: json: cannot unmarshal {value} into {target}")


INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
