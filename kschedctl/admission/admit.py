"""A manifest as the API server takes it: defaults, the plugins of admission in their order, plain validation.

Upstream: pkg/kubeapiserver/options/plugins.go and the server's log of the plugins that it loads (v1.36). Several
LimitRanges and ResourceQuotas are gone through in random order: what else may come out is told beside the answer.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any, TypeVar

import msgspec

from kschedctl.admission import (
    defaults,
    limit_ranger,
    node_selector,
    pod_security_policy,
    priority,
    resource_quota,
    runtime_class,
    service_account,
    storage_class,
    tolerations,
)
from kschedctl.admission.request import BAD, CODES, INVALID, NOT_FOUND, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.unscheduled_fields import validate_unscheduled_fields
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import LimitRange, ResourceQuota
from kschedctl.api.observed.api_server import OPTIONAL_PLUGINS
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import around_pods, manifests, unknown_fields
from kschedctl.cluster import Cluster, without_nulls
from kschedctl.errors import InputError
from kschedctl.reports.admission import Admission, OtherOutcome
from kschedctl.scheduler.configuration.validation_options import validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Plugin = Callable[[AdmissionRequest], None]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
MOST_PERMUTED = 4
"""How many LimitRanges are tried in each order; of more each comes first once."""
VALIDATION, POD_SECURITY = "Validation", "PodSecurity"


def admit(
    cluster: Cluster, manifest: JsonObject, *, namespace: str | None = None, plugins: Collection[str] = ()
) -> Admission:
    """What kube-apiserver 1.36 makes of a manifest of a Pod, a PersistentVolumeClaim or another object.

    ``namespace``: to which it is sent, else its own; ``plugins``: those that are on besides the default ones, else
    those of the cluster's API server. Webhooks and policies are not asked. Raises UsageError for what is no plugin,
    InputError for what is no object.

    >>> admit(Cluster.from_objects([]), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}).message
    'namespaces "default" not found'
    """
    cluster = cluster.with_admission_plugins(plugins)
    if not isinstance(manifest.get("kind"), str):
        raise InputError("kind: required")
    sent_to = namespace or str(object_at(manifest, "metadata").get("namespace") or DEFAULT_NAMESPACE)
    first, *more = outcomes(cluster, manifest, sent_to)
    others = {(other.code, other.message): other for other in more if _said(other) != _said(first)}
    return msgspec.structs.replace(first, varies=tuple(OtherOutcome(c, m) for c, m in others))


def _said(outcome: Admission) -> tuple[int, str | None, bytes]:
    return outcome.code, outcome.message, msgspec.json.encode(outcome.object)


def outcomes(
    cluster: Cluster,
    manifest: JsonObject,
    namespace: str,
    *,
    quotas: Sequence[ResourceQuota] | None = None,
    without: Collection[str] = (),
    annotated: bool = True,
) -> Iterator[Admission]:
    """What may come out, in whichever order the server goes through LimitRanges and quotas; the first is by name.

    ``quotas``: those that count, else the namespace's; ``without``: the steps that are left out, also VALIDATION;
    ``annotated``: also what differs only in the annotation that says which LimitRange came last.
    """
    ranges = tuple(map(limit_ranger.stored, cluster.in_namespace("limit_ranges", namespace)))
    counters = tuple(cluster.in_namespace("resource_quotas", namespace) if quotas is None else quotas)
    kind = str(manifest["kind"])

    def tried(
        filling: Sequence[LimitRange], checking: Sequence[LimitRange], counting: Sequence[ResourceQuota]
    ) -> Admission:
        obj = copy.deepcopy(dict(without_nulls(manifest)))
        request = AdmissionRequest(cluster, kind, obj, namespace, filling, counting)
        return _Try(request, checking, without).outcome()

    for filling in orders(ranges) if annotated or limit_ranger.differ(ranges) else (ranges,):
        first = tried(filling, ranges, counters)
        yield first
        if not first.allowed:  # whom one order of those that only check admits, all do
            yield from (tried(filling, order, counters) for order in each_first(ranges)[1:])
            yield from (tried(filling, ranges, order) for order in each_first(counters)[1:])


def orders(ranges: Sequence[LimitRange]) -> Iterable[Sequence[LimitRange]]:
    """The orders in which LimitRanges may give defaults, the first by name."""
    return permutations(ranges) if len(ranges) <= MOST_PERMUTED else each_first(ranges)


def each_first(objects: Sequence[T]) -> list[Sequence[T]]:
    """The objects as often as they are, each time another one first."""
    return [(*objects[i:], *objects[:i]) for i in range(len(objects))] or [()]


class _Try:
    """One way through admission. ``checking``: the LimitRanges in the order in which they set bounds."""

    def __init__(self, request: AdmissionRequest, checking: Sequence[LimitRange], without: Collection[str]) -> None:
        self.request, self.checking = request, checking
        server = request.cluster.api_server
        self.left_out = {*OPTIONAL_PLUGINS, *server.disabled, *without}.difference(server.enabled_optional_plugins)
        self.warnings: list[str] = []

    def outcome(self) -> Admission:
        try:
            self._run()
        except NotAdmittedError as error:
            return Admission(CODES[error.reason], False, error.reason, error.message, tuple(self.warnings))
        return Admission(
            201, True, warnings=tuple(self.warnings), object=_stored(self.request), changed=tuple(self.request.changed)
        )

    def _run(self) -> None:
        request = self.request
        self._decode()
        for name, plugin in _MUTATING:
            if name not in self.left_out:
                plugin(request)
        if request.obj["metadata"].get("generateName") and not request.obj["metadata"].get("name"):
            request.name = f"{request.obj['metadata']['generateName']}*"
        if VALIDATION not in self.left_out:
            self._validate()
        request.limit_ranges = self.checking
        for name, plugin in _VALIDATING:
            if name in self.left_out:
                continue
            if name == POD_SECURITY:
                self._pod_security()
            else:
                plugin(request)

    def _decode(self) -> None:
        """The object as the API knows it, with its defaults. Raises NotAdmittedError."""
        request = self.request
        for field in list(unknown_fields.find_unknown_fields(request.obj)):
            self.warnings.append(str(field))
            inner: Any = request.obj
            for step in field.path[:-1]:
                inner = inner[step]
            del inner[field.path[-1]]
        if request.is_pod:
            _check_priority_type(request)
            self.warnings += _fractions(request)
        meta = request.obj.setdefault("metadata", {})
        request.name = meta.get("name") or meta.get("generateName") or ""
        own = meta.get("namespace")
        try:
            defaults.fill_in(request)
        except QuantityError as error:
            version = request.obj.get("apiVersion", "v1")
            said = f'{request.kind} in version "{version}" cannot be handled as a {request.kind}'
            raise NotAdmittedError(BAD, f"{said}: {error.what}") from None
        if own and own != request.namespace:
            said = "the namespace of the provided object does not match the namespace sent on the request"
            raise NotAdmittedError(BAD, said)
        meta["namespace"] = request.namespace
        if resource_quota.BETA_CLASS in request.annotations and request.kind == "PersistentVolumeClaim":
            said = 'deprecated since v1.8; use "storageClassName" attribute instead'
            self.warnings.append(f"metadata.annotations[{resource_quota.BETA_CLASS}]: {said}")

    def _validate(self) -> None:
        """Plain validation. Raises NotAdmittedError with all that is wrong."""
        request = self.request
        faults = [str(fault) for fault in _faults(request)]
        if faults:
            said = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise NotAdmittedError(INVALID, f'{request.kind} "{request.name}" is invalid: {said}')

    def _pod_security(self) -> None:
        """The levels of the namespace. Raises NotAdmittedError for a pod that is not of the enforced one."""
        request = self.request
        labels = request.namespace_object.metadata.labels if request.namespace_object else {}
        pod = pod_security_policy.pod_of(request.kind, request.obj)
        if not pod:
            return
        if request.is_pod and (refused := pod_security_policy.enforced(labels).forbidden(pod)):
            raise request.forbidden(f"violates PodSecurity {refused}")
        if warned := pod_security_policy.warned(labels).forbidden(pod):
            self.warnings.append(f"would violate PodSecurity {warned}")


def _faults(request: AdmissionRequest) -> Sequence[object]:
    kind, obj = request.kind, request.obj
    named = {**obj, "metadata": {**obj["metadata"]}}
    if kind in manifests.KINDS:
        made = convert_builtins(named, manifests.KINDS[kind])
        options = validation_options(FeatureGates(request.cluster.kube_version, request.cluster.feature_gates))
        return [
            *manifests.validate_manifest(kind, made, options),
            *(validate_unscheduled_fields(request) if request.is_pod else ()),
        ]
    if kind in around_pods.KINDS:
        return around_pods.validate_object(kind, convert_builtins(named, around_pods.KINDS[kind]))
    return ()


def _fractions(request: AdmissionRequest) -> Iterator[str]:
    """Bytes that are no whole number are warned of."""
    for name in ("initContainers", "containers"):
        for at, container in enumerate(request.spec.get(name) or ()):
            for part in ("limits", "requests"):
                amounts = (container.get("resources") or {}).get(part) or {}
                for resource in ("memory", "ephemeral-storage"):
                    text = str(amounts.get(resource, ""))
                    if text.endswith("m"):
                        where = f"spec.{name}[{at}].resources.{part}[{resource}]"
                        yield f'{where}: fractional byte value "{text}" is invalid, must be an integer'


def _stored(request: AdmissionRequest) -> JsonObject:
    """The metadata that decides, the spec, and what follows from it."""
    meta = request.obj["metadata"]
    names = ("name", "namespace", "generateName", "labels", "annotations", "finalizers")
    kept: Writable = {name: meta[name] for name in names if meta.get(name)}
    if not meta.get("name") and meta.get("generateName"):
        kept["name"] = f"{meta['generateName']}*"
    stored: Writable = {"metadata": kept, "spec": request.spec}
    if request.is_pod:
        stored["qosClass"] = _quality(request)
        stored["tokenVolume"] = service_account.has_token_volume(request)
    return stored


def _quality(request: AdmissionRequest) -> str:
    """Upstream: ComputePodQOS."""
    if resource_quota.is_best_effort(request):
        return "BestEffort"
    own = request.spec.get("resources")
    parts = [own] if own else [c.get("resources") or {} for c in (*request.containers, *request.init_containers)]
    for part in parts:
        limits = defaults.amounts(part.get("limits") or {})
        requests = defaults.amounts(part.get("requests") or {})
        for name in ("cpu", "memory"):
            if name not in limits or not limits[name].mantissa or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def check_namespace(request: AdmissionRequest) -> None:
    """NamespaceLifecycle. Raises NotAdmittedError."""
    stored = request.namespace_object
    if stored is None:
        raise NotAdmittedError(NOT_FOUND, f'namespaces "{request.namespace}" not found')
    if stored.status.phase == "Terminating" or stored.metadata.deletion_timestamp:
        said = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        raise request.forbidden(said)


def _always_pull(request: AdmissionRequest) -> None:
    """AlwaysPullImages."""
    for container in (*request.containers, *request.init_containers) if request.is_pod else ():
        container["imagePullPolicy"] = "Always"


def _hard_anti_affinity(request: AdmissionRequest) -> None:
    """LimitPodHardAntiAffinityTopology. Raises NotAdmittedError."""
    anti = object_at(request.spec, "affinity", "podAntiAffinity") if request.is_pod else {}
    for term in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ():  # type: ignore[attr-defined]
        if term.get("topologyKey") != HOSTNAME:
            where = "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey"
            raise request.forbidden(f"{where} {term.get('topologyKey', '')} but only key {HOSTNAME} is allowed")


def _nothing(request: AdmissionRequest) -> None:
    """A step that is made elsewhere."""


_MUTATING: Sequence[tuple[str, Plugin]] = (
    ("NamespaceLifecycle", check_namespace),
    ("LimitRanger", limit_ranger.fill_in),
    ("ServiceAccount", service_account.fill_in),
    ("AlwaysPullImages", _always_pull),
    ("PodNodeSelector", node_selector.fill_in),
    ("Priority", priority.fill_in),
    ("DefaultTolerationSeconds", tolerations.for_nodes_that_go),
    ("PodTolerationRestriction", tolerations.of_namespace),
    ("ExtendedResourceToleration", tolerations.for_extended_resources),
    ("DefaultStorageClass", storage_class.fill_in),
    ("StorageObjectInUseProtection", storage_class.protect),
    ("RuntimeClass", runtime_class.fill_in),
)
_VALIDATING: Sequence[tuple[str, Plugin]] = (
    ("LimitPodHardAntiAffinityTopology", _hard_anti_affinity),
    ("LimitRanger", limit_ranger.check),
    (POD_SECURITY, _nothing),
    ("PodNodeSelector", node_selector.check),
    ("PodTolerationRestriction", tolerations.check_whitelist),
    ("RuntimeClass", runtime_class.check),
    ("ResourceQuota", resource_quota.check),
)


def _check_priority_type(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the pod's priority is no int32: the API server cannot decode such an object."""
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
    cannot = f'{request.kind} in version "{version}" cannot be handled as a {request.kind}'
    target = "Go struct field PodSpec.spec.priority of type int32"
    raise NotAdmittedError(BAD, f"{cannot}: json: cannot unmarshal {value} into {target}")


INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
