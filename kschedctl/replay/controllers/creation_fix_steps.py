"""TODO."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.admission.node_selector import of_namespace
from kschedctl.admission.pod_security_policy import ENFORCE, LEVELS, enforced
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.objects import Namespace, ObjectMeta, PriorityClass, RuntimeClass, ServiceAccount, Struct
from kschedctl.api.priority import SYSTEM_CLASSES, SYSTEM_PREFIX
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.limit_range_bounds import ResourceSetting, find_allowed_resources
from kschedctl.replay.object_keys import ObjectKey

_SET = "|".join(
    (
        r"allowPrivilegeEscalation != false \([^()]* must set securityContext\.allowPrivilegeEscalation=false\)",
        r'unrestricted capabilities \([^()]* must set securityContext\.capabilities\.drop=\["ALL"\]\)',
        r"runAsNonRoot != true \(pod or [^()]* must set securityContext\.runAsNonRoot=true\)",
        r"seccompProfile \(pod or [^()]* must set securityContext\.seccompProfile\.type to [^()]*\)",
    )
)
_ALL_TO_SET = re.compile(rf"(?:{_SET})(?:, (?:{_SET}))*")
"""What level restricted says of a pod that lacks nothing but settings. Upstream: pod-security-admission/policy."""
NO_ACCOUNT = "error looking up service account"
SECURITY = "violates PodSecurity"
AND_PROFILE = " and seccompProfile.type=RuntimeDefault"
NEAR = 0.75
"""How alike two names have to be for one to be taken for the other."""


class StepKind(StrEnum):
    """The kinds of steps, by which users choose among fixes."""

    CREATE_SERVICE_ACCOUNT = "CreateServiceAccount"
    CREATE_PRIORITY_CLASS = "CreatePriorityClass"
    CORRECT_PRIORITY_CLASS = "CorrectPriorityClass"
    CREATE_RUNTIME_CLASS = "CreateRuntimeClass"
    CORRECT_RUNTIME_CLASS = "CorrectRuntimeClass"
    CREATE_NAMESPACE = "CreateNamespace"
    OTHER_NODE_SELECTOR = "OtherNodeSelector"
    DROP_OVERHEAD = "DropOverhead"
    SET_SECURITY_CONTEXT = "SetSecurityContext"
    ENFORCE_LESS = "EnforceLess"
    SET_RESOURCES = "SetResources"
    OTHER_RESOURCES = "OtherResources"
    RAISE_RESOURCE_QUOTA = "RaiseResourceQuota"


Edit = Callable[[Writable], None]
"""Changes the spec of a pod, which is written to."""


class AroundPod(NamedTuple):
    """An object before, None for one that is created, and after; ``more``: fields that are not read of its kind."""

    before: Struct | None
    after: Struct
    more: Mapping[str, Json] = {}

    @property
    def name(self) -> str:
        return ObjectKey.of(self.after).name  # type: ignore[arg-type]


class Way(NamedTuple):
    """One change of a ``kind``: ``what`` in words; ``edit``: of the pod as it is written, ``objects``: around it.

    ``weakens``: the guarantee that is given up.
    """

    kind: StepKind
    what: str
    edit: Edit | None = None
    objects: tuple[AroundPod, ...] = ()
    weakens: str = ""

    @property
    def by(self) -> str:
        return "author" if self.edit is not None else "operator"


class RefusedPod(NamedTuple):
    """A pod as it is sent to the API server, and why that refuses it."""

    cluster: Cluster
    namespace: str
    manifest: JsonObject
    message: str

    @property
    def spec(self) -> JsonObject:
        return object_at(self.manifest, "spec")


def ways(refused: RefusedPod) -> Iterator[Way]:
    """What might help against this refusal, the best first."""
    yield from next((known(refused) for words, known in _WAYS.items() if words in refused.message), _bounds(refused))


# -- objects that are not there --------------------------------------------------------------------------------------


def _created(made: Any, said: str = "", more: Mapping[str, Json] = {}) -> Way:
    return Way(
        StepKind(f"Create{type(made).__name__}"),
        f"create {ObjectKey.of(made)}{said}",
        objects=(AroundPod(None, made, more),),
    )


def _namespace(refused: RefusedPod) -> Iterator[Way]:
    yield _created(Namespace(ObjectMeta(refused.namespace)))


def _account(refused: RefusedPod) -> Iterator[Way]:
    name = refused.message.rpartition('serviceaccount "')[2].partition('"')[0]
    yield _created(ServiceAccount(ObjectMeta(name, refused.namespace)))


def _priority_class(refused: RefusedPod) -> Iterator[Way]:
    name = str(refused.spec.get("priorityClassName"))
    known = [found.metadata.name for found in (*refused.cluster.priority_classes, *SYSTEM_CLASSES)]
    for right in get_close_matches(name, known, n=1, cutoff=NEAR):
        what = f"use PriorityClass {right} instead of {name}, which does not exist"
        yield Way(StepKind.CORRECT_PRIORITY_CLASS, what, partial(_set_class, "priorityClassName", right))
    if name.startswith(SYSTEM_PREFIX):
        return
    yield _created(
        PriorityClass(ObjectMeta(name)), ", here with value 0, which pods without a class have", {"value": 0}
    )


def _set_class(field: str, name: str, spec: Writable) -> None:
    """Set a field of the pod's spec that names a class."""
    spec[field] = name


def _runtime_class(refused: RefusedPod) -> Iterator[Way]:
    name = str(refused.spec.get("runtimeClassName"))
    if f'RuntimeClass "{name}" not found' in refused.message:
        known = [found.metadata.name for found in refused.cluster.runtime_classes]
        for right in get_close_matches(name, known, n=1, cutoff=NEAR):
            what = f"use RuntimeClass {right} instead of {name}, which does not exist"
            yield Way(StepKind.CORRECT_RUNTIME_CLASS, what, partial(_set_class, "runtimeClassName", right))
        said = ", here with a handler of that name, which the container runtimes of the nodes have to know"
        yield _created(RuntimeClass(ObjectMeta(name)), said, {"handler": name})
    elif "Overhead" in refused.message:
        yield Way(StepKind.DROP_OVERHEAD, "leave overhead to the RuntimeClass", _without_overhead)


def _without_overhead(spec: Writable) -> None:
    spec.pop("overhead", None)


def _runtime_selector(refused: RefusedPod) -> Iterator[Way]:
    """The class's value of the label that the pod wants to have otherwise."""
    key, _, value = refused.message.rpartition("nodeSelector[")[0].partition("nodeSelector[")[2].partition("] = ")
    value = value.partition(";")[0]
    what = f"set nodeSelector {key}={value}, as RuntimeClass {refused.spec.get('runtimeClassName')} has it"
    yield Way(StepKind.OTHER_NODE_SELECTOR, what, partial(_selecting, {key: value}))


def _namespace_selector(refused: RefusedPod) -> Iterator[Way]:
    """The values of the namespace for the labels that the pod wants to have otherwise."""
    request = AdmissionRequest(refused.cluster, "Pod", {}, refused.namespace)
    own: Any = refused.spec.get("nodeSelector") or {}
    wanted = {key: value for key, value in of_namespace(request).items() if own.get(key, value) != value}
    listed = ",".join(f"{key}={value}" for key, value in wanted.items())
    yield Way(
        StepKind.OTHER_NODE_SELECTOR, f"set nodeSelector {listed}, as the namespace has it", partial(_selecting, wanted)
    )


def _selecting(labels: Mapping[str, str], spec: Writable) -> None:
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}


# -- Pod Security ----------------------------------------------------------------------------------------------------


def _pod_security(refused: RefusedPod) -> Iterator[Way]:
    """The security context that the level asks for; the strictest level that admits the pod as it is."""
    namespace = next((found for found in refused.cluster.namespaces if found.metadata.name == refused.namespace), None)
    if namespace is None:
        return
    standard = enforced(namespace.metadata.labels)
    if not standard.forbidden(_restricted(refused.manifest)):
        yield _secured(refused)
    weaker = (standard._replace(level=level) for level in reversed(LEVELS[: LEVELS.index(standard.level)]))
    admitting = (each.level for each in weaker if not each.forbidden(refused.manifest))
    yield from (_weakened(namespace, standard.level, level) for level in list(admitting)[:1])


def secured_as_told(refused: RefusedPod) -> Iterator[Way]:
    """The same for a pod whose security context is not read, where the API server names all that it has to set."""
    namespace = next((found for found in refused.cluster.namespaces if found.metadata.name == refused.namespace), None)
    level, _, broken = refused.message.partition(f'{SECURITY} "')[2].partition(": ")
    if not _ALL_TO_SET.fullmatch(broken):
        return
    way = _secured(refused)
    if "seccompProfile" not in broken:
        way = way._replace(what=way.what.replace(AND_PROFILE, ""), edit=_restrict_but_profile)
    yield way
    if namespace is not None and level.startswith("restricted"):
        yield _weakened(namespace, "restricted", "baseline")  # which asks for nothing of that


def _secured(refused: RefusedPod) -> Way:
    names = ", ".join(str(container.get("name", "")) for container in _containers(refused.spec))
    of_each = f"allowPrivilegeEscalation=false and capabilities.drop=[ALL] of {names}"
    what = f"set securityContext: runAsNonRoot=true{AND_PROFILE} of the pod, {of_each}"
    return Way(StepKind.SET_SECURITY_CONTEXT, f"{what} (the image has to run as a user other than root)", _restrict)


def _restricted(manifest: JsonObject) -> JsonObject:
    changed: Writable = copy.deepcopy(dict(manifest))
    _restrict(changed.setdefault("spec", {}))
    return changed


def _weakened(namespace: Namespace, before: str, level: str) -> Way:
    meta = namespace.metadata
    after = replace(namespace, metadata=replace(meta, labels={**meta.labels, ENFORCE: level}))
    what = f"enforce Pod Security {level} in namespace {meta.name} instead of {before}"
    weakens = f"all pods of namespace {meta.name} may do what {before} forbids"
    return Way(StepKind.ENFORCE_LESS, what, objects=(AroundPod(namespace, after),), weakens=weakens)


def _restrict(spec: Writable) -> None:
    _restrict_but_profile(spec)
    spec["securityContext"].setdefault("seccompProfile", {"type": "RuntimeDefault"})


def _restrict_but_profile(spec: Writable) -> None:
    spec.setdefault("securityContext", {})["runAsNonRoot"] = True
    for container in _containers(spec):
        context: Writable = container.setdefault("securityContext", {})
        context["allowPrivilegeEscalation"] = False
        context.setdefault("capabilities", {})["drop"] = ["ALL"]


def _containers(spec: JsonObject) -> list[Writable]:
    found: list[Writable] = []
    for part in ("containers", "initContainers"):
        found += spec.get(part) or []  # type: ignore[arg-type]
    return found


# -- LimitRanges -----------------------------------------------------------------------------------------------------


def _bounds(refused: RefusedPod) -> Iterator[Way]:
    """The requests and limits nearest to those that are written which all LimitRanges allow."""
    amounts = find_allowed_resources(refused.cluster, refused.namespace, refused.manifest)
    if amounts:
        yield Way(StepKind.OTHER_RESOURCES, ", ".join(amount.description for amount in amounts), partial(_set, amounts))


def _set(amounts: list[ResourceSetting], spec: Writable) -> None:
    for amount in amounts:
        container = next(c for c in _containers(spec) if c.get("name") == amount.container)
        container.setdefault("resources", {}).setdefault(amount.part, {})[amount.resource] = amount.amount


_WAYS: Mapping[str, Callable[[RefusedPod], Iterator[Way]]] = {
    NO_ACCOUNT: _account,
    "conflict: runtimeClass.scheduling.nodeSelector": _runtime_selector,
    "conflicts with its namespace node label selector": _namespace_selector,
    'namespaces "': _namespace,
    "pod rejected: Pod": _runtime_class,
    "no PriorityClass with name": _priority_class,
    "pod rejected: RuntimeClass": _runtime_class,
    SECURITY: _pod_security,
}
