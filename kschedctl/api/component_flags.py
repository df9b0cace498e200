"""The flags of kube-apiserver and of the Cluster Autoscaler that affect answers, read from their containers.

Upstream: pkg/kubeapiserver/options/plugins.go, plugin/pkg/admission/defaulttolerationseconds (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, object_at

API_SERVER, API_SERVER_NAMESPACE = "kube-apiserver", "kube-system"
OPTIONAL_PLUGINS = (
    *("AlwaysPullImages", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PodNodeSelector"),
    "PodTolerationRestriction",
)
"""Replayed admission plugins that are off by default."""
OTHER_PLUGINS = frozenset(
    (
        *("AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists", "LimitRanger"),
        *("ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "ImagePolicyWebhook", "PodSecurity"),
        *("DefaultTolerationSeconds", "EventRateLimit", "DefaultStorageClass", "StorageObjectInUseProtection"),
        *("PodGroupProtection", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass"),
        *("CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction"),
        *("DefaultIngressClass", "DenyServiceExternalIPs", "PodTopologyLabels", "PodGroupWorkloadExists"),
        *("NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator", "MutatingAdmissionPolicy"),
        *("MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota"),
        *("AlwaysDeny", "Priority"),
    )
)
"""Admission plugins that are on by default or do not affect any answer."""
ENABLED, DISABLED = "enable-admission-plugins", "disable-admission-plugins"
NOT_READY, UNREACHABLE = "default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds"
API_SERVER_FLAGS = frozenset((ENABLED, DISABLED, NOT_READY, UNREACHABLE))
DEFAULT_TOLERATION_SECONDS = 300
"""The number of seconds for which pods stay on a node that is not ready or unreachable, by default."""
MOST_PLUGINS = 100


class ApiServerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """The flags of one kube-apiserver."""

    where: str = ""
    """The pod it runs in, or "" if none was read."""
    enabled: tuple[str, ...] = ()
    """Plugins enabled in addition to the defaults."""
    disabled: tuple[str, ...] = ()
    """Default plugins that are disabled."""
    told_by: str = ""
    """The source of the list of plugins, such as a flag."""
    not_ready_seconds: int = DEFAULT_TOLERATION_SECONDS
    unreachable_seconds: int = DEFAULT_TOLERATION_SECONDS

    @property
    def enabled_optional_plugins(self) -> tuple[str, ...]:
        """The enabled plugins that are off by default."""
        return tuple(name for name in OPTIONAL_PLUGINS if name in self.enabled and name not in self.disabled)

    @property
    def description(self) -> str:
        """A description of the known flags that affect answers, each with its source, or "" if no flag is known."""
        settings = []
        if self.enabled_optional_plugins:
            settings.append(f"admission plugins {', '.join(self.enabled_optional_plugins)} ({self.told_by})")
        if self.where:  # the flags of a kube-apiserver were read
            seconds = (
                f"not-ready tolerated for {self.not_ready_seconds} s, unreachable for {self.unreachable_seconds} s"
            )
            settings.append(f"{seconds} ({self.where})")
        return "; ".join(settings)

    def with_plugins(self, names: Iterable[str], told_by: str) -> ApiServerInstance:
        """Return the instance with these plugins enabled, or the instance itself if there are none."""
        enabled = tuple(names)
        return msgspec.structs.replace(self, enabled=enabled, disabled=(), told_by=told_by) if enabled else self


DEFAULT_API_SERVER = ApiServerInstance()


def find_api_server(owners: Iterable[ContainerOwner], kind: str = "") -> ApiServerInstance | None:
    """Return the first kube-apiserver that one of the pods or workloads runs, with its flags, or None.

    Only owners in kube-system whose kube-apiserver has at least one relevant flag count. ``kind`` is the kind of owners
    that do not state their kind.
    """
    for owner in owners:
        if owner.metadata.namespace != API_SERVER_NAMESPACE:
            continue
        for container in owner.containers:
            if container.runs(API_SERVER) and any(name in API_SERVER_FLAGS for name, _ in iter_flags(container.words)):
                return _build_api_server_instance(owner.describe(kind), container.words)
    return None


def read_api_server(document: JsonObject) -> ApiServerInstance | None:
    """Return the kube-apiserver that a pod's document runs, with its flags.

    Return None if the document is not a pod of kube-apiserver or is malformed.
    """
    if document.get("kind") != "Pod" or not may_run(document, API_SERVER):
        return None
    try:
        return find_api_server([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # the error is reported where the object is decoded as its own kind


def anonymize_api_server(instance: ApiServerInstance) -> ApiServerInstance:
    """Return the instance without its location and without admission plugins that Kubernetes does not have."""
    known_plugins = OTHER_PLUGINS.union(OPTIONAL_PLUGINS)
    enabled = tuple(name for name in instance.enabled if name in known_plugins)
    disabled = tuple(name for name in instance.disabled if name in known_plugins)
    return msgspec.structs.replace(instance, where="", told_by="", enabled=enabled, disabled=disabled)


def _build_api_server_instance(where: str, words: tuple[str, ...]) -> ApiServerInstance:
    """Build an instance from the relevant flags in the command line of a kube-apiserver.

    Each time a flag occurs, at most MOST_PLUGINS of its values are kept. ``where`` describes the place of the command
    line.
    """
    values_by_flag: dict[str, list[str]] = {}
    for name, value in iter_flags(words):
        if name in API_SERVER_FLAGS:
            values_by_flag.setdefault(name, []).extend(part.strip() for part in value.split(",")[:MOST_PLUGINS])
    return ApiServerInstance(
        where,
        tuple(values_by_flag.get(ENABLED, ())),
        disabled=tuple(values_by_flag.get(DISABLED, ())),
        told_by=f"--{ENABLED} of {where}",
        not_ready_seconds=_parse_seconds(values_by_flag.get(NOT_READY)),
        unreachable_seconds=_parse_seconds(values_by_flag.get(UNREACHABLE)),
    )


def _parse_seconds(values: list[str] | None) -> int:
    """Parse the last value of a flag as seconds, or return the default if it is missing or not a number."""
    text = values[-1] if values else ""
    return int(text) if text.isdecimal() and len(text) < 19 else DEFAULT_TOLERATION_SECONDS


AUTOSCALER = "cluster-autoscaler"


_AUTOSCALER_SWITCHES = frozenset(
    (
        *("balance-similar-node-groups", "scale-down-unready-enabled", "skip-nodes-with-system-pods"),
        *("skip-nodes-with-local-storage", "skip-nodes-with-custom-controller-pods", "ignore-daemonsets-utilization"),
        *("ignore-mirror-pods-utilization", "force-ds", "scale-up-from-zero", "scale-down-enabled"),
        "scaleup-simulation-for-skipped-node-groups-enabled",
    )
)
"""Flags that need no value."""


_NAMING_FLAGS = frozenset(
    (
        *("nodes", "startup-taint", "ignore-taint", "status-taint", "balancing-label", "balancing-ignore-label"),
        *("gpu-total", "namespace"),
    )
)
"""Flags whose values are names chosen by users."""


AUTOSCALER_FLAGS = _AUTOSCALER_SWITCHES | {
    *("expander", "scale-down-utilization-threshold", "scale-down-gpu-utilization-threshold"),
    *("scale-down-unneeded-time", "scale-down-unready-time", "min-replica-count", "new-pod-scale-up-delay"),
    *("blocking-system-pod-distruption-timeout", "max-nodes-total", "max-nodes-per-scaleup", "cloud-provider"),
    *("max-scale-down-parallelism", "max-drain-parallelism", "expendable-pods-priority-cutoff"),
    *("scale-down-delay-after-add", "cores-total", "memory-total", *_NAMING_FLAGS),
}
"""The flags that are read because they decide how groups grow and shrink."""


_MAX_FLAG_VALUES, _MAX_VALUE_LENGTH = 1000, 4096


_AUTOSCALER_OWNERS = ("Deployment", "StatefulSet", "DaemonSet", "Pod")


class AutoscalerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """The flags of one Cluster Autoscaler."""

    where: str
    """The object whose container it is."""
    version: str = ""
    """The tag of its image."""
    flags: dict[str, tuple[str, ...]] = {}
    """All values of each flag."""


def find_cluster_autoscaler(owners: Iterable[ContainerOwner], kind: str = "") -> AutoscalerInstance | None:
    """Return the first Cluster Autoscaler that one of the pods or workloads runs, with its flags, or None.

    ``kind`` is the kind of owners that do not state their kind.
    """
    for owner in owners:
        for container in owner.containers:
            if container.runs(AUTOSCALER):
                return AutoscalerInstance(owner.describe(kind), container.tag, _parse_autoscaler_flags(container.words))
    return None


def read_autoscaler(document: JsonObject) -> AutoscalerInstance | None:
    """Return the Cluster Autoscaler that the document of a pod or workload runs, with its flags.

    Return None if the document is not a pod or workload of the Cluster Autoscaler or is malformed.
    """
    if document.get("kind") not in _AUTOSCALER_OWNERS or not may_run(document, AUTOSCALER):
        return None
    try:
        return find_cluster_autoscaler([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # the error is reported where the object is decoded as its own kind


def anonymize_autoscaler(instance: AutoscalerInstance) -> AutoscalerInstance:
    """Return the instance without anything that identifies the cluster."""
    flags = {name: values for name, values in instance.flags.items() if name not in _NAMING_FLAGS}
    return AutoscalerInstance("", instance.version, flags)


def _parse_autoscaler_flags(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return all values of each flag in AUTOSCALER_FLAGS. Excess values and overlong values are cut off."""
    values_by_flag: dict[str, list[str]] = {}
    for name, value in iter_flags(words, _AUTOSCALER_SWITCHES):
        if name not in AUTOSCALER_FLAGS:
            continue
        values = values_by_flag.setdefault(name, [])
        if len(values) < _MAX_FLAG_VALUES:
            values.append(value[:_MAX_VALUE_LENGTH])
    return {name: tuple(values) for name, values in values_by_flag.items()}


class ContainerCommand(msgspec.Struct, frozen=True):
    """The image and command line of a container."""

    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of command and arguments."""
        return (*(self.command or ()), *(self.args or ()))

    @property
    def tag(self) -> str:
        """The tag of the image, or an empty string."""
        _, tag = self._split_image_name_and_tag()
        return tag

    def runs(self, program: str) -> bool:
        """Return whether the container runs a program, judging by its image or the first word of its command.

        The image's name only has to begin with the name of the program.
        """
        image_name, _ = self._split_image_name_and_tag()
        if image_name.startswith(program):
            return True
        return bool(self.words) and self.words[0].rpartition("/")[2] == program

    def _split_image_name_and_tag(self) -> tuple[str, str]:
        """Return the last part of the image's name, such as "kube-scheduler", and its tag."""
        without_digest, _, _ = self.image.partition("@")
        _, _, last_part = without_digest.rpartition("/")
        repository, _, tag = last_part.partition(":")
        return repository, tag


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[ContainerCommand, ...] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _OwnerSpec(msgspec.Struct, frozen=True):
    containers: tuple[ContainerCommand, ...] | None = None
    template: _Template | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class ContainerOwner(msgspec.Struct, frozen=True):
    """A workload or pod reduced to the command lines of its containers."""

    kind: str = ""
    metadata: _Meta = _Meta()
    spec: _OwnerSpec = _OwnerSpec()

    @property
    def containers(self) -> tuple[ContainerCommand, ...]:
        """The containers of the pod or of the pod template."""
        template = self.spec.template.spec.containers if self.spec.template else None
        return (*(self.spec.containers or ()), *(template or ()))

    def describe(self, kind: str) -> str:
        """Return ``Pod kube-system/name``. ``kind`` is used if the object does not state its kind."""
        return f"{self.kind or kind} {self.metadata.namespace}/{self.metadata.name}"


def may_run(document: JsonObject, program: str) -> bool:
    """Return whether a pod or pod template mentions the program in its containers. This is a fast first check."""
    spec = object_at(document, "spec")
    containers = [*_list_containers(spec), *_list_containers(object_at(spec, "template", "spec"))]
    return any(program in str(container) for container in containers)


def _list_containers(spec: JsonObject) -> Iterable[object]:
    """Return the containers of a pod spec. The result is empty if the containers are not a list."""
    containers = spec.get("containers")
    return containers if isinstance(containers, list) else ()


def iter_flags(words: tuple[str, ...], switches: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each flag in a command line.

    A flag is written ``--name=value`` or ``--name value``. A flag in ``switches`` may stand alone and then has the
    value ``true``. Any other flag at the end of the command line has the value "".
    """
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            if equals:
                yield name, value
            elif name in switches:
                yield name, "true"
            else:
                yield name, following
