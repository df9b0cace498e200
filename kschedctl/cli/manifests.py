"""What ``-f`` names where manifests are applied: files that hold them, and maybe a cluster too."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from kschedctl.admission.hooks import NAME_LABEL
from kschedctl.admission.unknown import is_missing_namespace
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import Json, JsonObject, text_at
from kschedctl.api.kinds import get_api_kind
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.objects import Namespace as StoredNamespace
from kschedctl.api.objects import ObjectMeta, Pod, Resources, Struct
from kschedctl.api.observed.api_server import AS_BY_DEFAULT
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import Key, PodTable
from kschedctl.api.workloads import KINDS, CronJob, StatefulSet, identity, is_not_installed, makes_pods, title
from kschedctl.cli.options import Source, Truth, feature_gates
from kschedctl.cli.refusals import refuse_invalid, refuse_invalid_around
from kschedctl.cli.source import NOTHING_MORE, WHAT_LIMITS, LiveKinds, as_told, load, sources, tell_read
from kschedctl.cluster import CLUSTER_SCOPED, Cluster, describe
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.manifests import SKIPPED_HOOKS_NOTE
from kschedctl.sources.collector import Manifest
from kschedctl.sources.quantities import check_quantities, pod_resources
from kschedctl.sources.read import ReadResult, load_configuration_file, read
from kschedctl.sources.typed import typed as typed_document
from kschedctl.text.counts import first_few

log = logging.getLogger(__name__)
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of manifests that name none.")
]


class Application(NamedTuple):
    """A cluster that ``source`` names, and manifests to apply; ``places``: ``Pod shop/web`` -> where it stands.

    ``written``: the manifests as documents.
    """

    source: Source
    cluster: Cluster
    manifests: list[Struct]
    places: dict[str, str]
    written: Mapping[Owner, JsonObject] = MappingProxyType({})


def read_manifests(source: Source, namespace: str | None, live: LiveKinds = NOTHING_MORE) -> dict[str, Application]:
    """The manifests to apply, what makes pods, has no UID and no node, and the cluster; each snapshot by its name.

    The cluster is the files' where they hold a Node or are all that there is, else that of ``--snapshot`` or
    ``--demo``, else the live one. What else the files hold is part of it. What names no namespace goes to
    ``namespace``, else to that of the live cluster's context. Raises KschedctlError.
    """
    if not source.filename:
        raise UsageError("no manifests", hint="give files with -f; - reads what helm template or kustomize print")
    reading = read(source.filename, recursive=source.recursive, builds=source.builds)
    tell_read(reading)
    tell_left_out(reading)
    return {name: _applied(named, reading, namespace, live) for name, named in sources(source).items()}


class Surroundings(NamedTuple):
    """``cluster``: what files add to, None where they describe it; ``namespace``: of what names none."""

    cluster: Cluster | None
    namespace: str | None


def surroundings(
    source: Source, reading: ReadResult, namespace: str | None, live: LiveKinds = NOTHING_MORE
) -> Surroundings:
    """None where the files hold a Node or are all that there is, else ``--snapshot``, ``--demo`` or the live cluster.

    Raises KschedctlError.
    """
    refuse_invalid_around(reading.around)
    if (reading.objects.get("Node") or source.assume_complete) and not (source.demo or source.snapshot):
        return Surroundings(None, namespace)
    around = replace(source, filename=[])
    cluster = load(around, namespace, live=WHAT_LIMITS.and_also(live))
    if around.live and cluster.provenance and not namespace:
        namespace = cluster.provenance.namespace
    return Surroundings(cluster, namespace)


class _Written(NamedTuple):
    """A manifest of what makes pods, as somebody wrote it, and typed."""

    manifest: Manifest
    workload: Struct


def _applied(source: Source, reading: ReadResult, namespace: str | None, live: LiveKinds) -> Application:
    """The cluster with what the files hold for it, and the manifests that they hold. Raises KschedctlError."""
    written = _written(reading)
    listed = _pods_of_lists(reading)
    workloads = [*(entry.workload for entry in written), *(pod for pod in listed.iter_unbound() if not exists(pod))]
    pods = (workload for workload in workloads if isinstance(workload, Pod))
    stored = listed.apply_changes({_named(pod): pod if exists(pod) else None for pod in pods})
    around, namespace = surroundings(source, reading, namespace, live)
    objects = placed(reading.objects, stored, namespace)
    cluster = cluster_of(source, reading, objects) if around is None else around.with_objects(objects)
    new = [in_namespace(workload, namespace) for workload in workloads if not exists(workload)]
    cluster = with_missing_namespaces(cluster, map(identity, new), source)
    refuse_invalid([entry.manifest for entry in written if not exists(entry.workload)], cluster, namespace)
    places = {title(in_namespace(entry.workload, namespace)): str(entry.manifest.place) for entry in written}
    documents = {identity(in_namespace(entry.workload, namespace)): entry.manifest.document for entry in written}
    return Application(source, cluster, new, places, documents)


def _written(reading: ReadResult) -> list[_Written]:
    """Raises InputError that names file, document and field."""
    makers = (m for m in reading.manifests if makes_pods(m.document) and not is_not_installed(m.document))
    return [_Written(manifest, typed_manifest(manifest)) for manifest in makers]


def _pods_of_lists(reading: ReadResult) -> PodTable:
    """The pods that were read as objects alone, those of long lists: of all others there is a manifest."""
    pods = (m.document["metadata"] for m in reading.manifests if makes_pods(m.document) and m.document["kind"] == "Pod")
    return reading.pods.apply_changes({key_of(metadata): None for metadata in pods})


def cluster_of(source: Source, reading: ReadResult, objects: Mapping[str, Sequence[Struct]]) -> Cluster:
    """The cluster that files describe, less what is applied to it."""
    cluster = Cluster.of(
        objects,
        configuration=load_configuration_file(source.config) if source.config else reading.configuration,
        feature_gates=feature_gates(source.feature_gates),
        kube_version=source.kube_version or KUBE_VERSION,
        origins=reading.origins,
        gaps=reading.left_out if source.assume_complete else reading.gaps,
        autoscaler=reading.autoscaler,
        api_server=reading.api_server or AS_BY_DEFAULT,
    )
    return as_told(cluster, source)


def with_missing_namespaces(cluster: Cluster, workloads: Iterable[Owner], source: Source) -> Cluster:
    """Return the cluster with the namespaces of new workloads that it lacks, and say so, unless the user declines it.

    ``helm template`` prints no Namespace, since ``helm install --create-namespace`` makes it.
    """
    if source.assume_namespaces is Truth.FALSE:
        return cluster
    missing = [
        name for name in dict.fromkeys(each.namespace for each in workloads) if is_missing_namespace(cluster, name)
    ]
    if not missing:
        return cluster
    log.warning(
        "note: taken for created: %s %s, which the cluster does not have; --assume-namespaces=false asks without",
        "namespace" if len(missing) == 1 else "namespaces",
        first_few(missing),
    )
    labels = ({NAME_LABEL: name} for name in missing)
    created = [StoredNamespace(ObjectMeta(name, labels=own)) for name, own in zip(missing, labels, strict=True)]
    return cluster.with_objects({"Namespace": created})


def tell_left_out(reading: ReadResult) -> None:
    """Say what the files hold that is neither applied nor a part of the cluster."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in reading.skipped.items() if kind not in KINDS)
    if kinds:
        log.warning("note: left out, as kinds that scheduling does not read and that make no pods here: %s", kinds)
    _tell_custom_resources(reading)
    _tell_kustomizations(reading)
    tell_hooks(reading)


def _tell_custom_resources(reading: ReadResult) -> None:
    """Say which custom resources in the files would have pods that nobody here knows."""
    unknown = {
        (resource.resource_kind if isinstance(resource, CustomResource) else get_api_kind(kind), resource.metadata.name)
        for kind, objects in reading.objects.items()
        for resource in objects
        if isinstance(resource, OperatorResource) and not resource.metadata.uid
    }
    if unknown:
        listed = first_few([f"{kind}/{name}" for kind, name in sorted(unknown)])
        log.warning("note: not checked: %s, whose operators create pods of a shape that kschedctl cannot know", listed)


def _tell_kustomizations(reading: ReadResult) -> None:
    if "Kustomization" in reading.skipped:
        log.warning(
            "note: a Kustomization is not built: its files are taken as they stand, without its patches; "
            "--kustomize builds it, or kubectl kustomize, whose output -f - reads"
        )


def tell_hooks(reading: ReadResult) -> None:
    """Say which manifests Helm does not create."""
    hooks = [describe(m.document) for m in reading.manifests if makes_pods(m.document) and is_not_installed(m.document)]
    if hooks:
        log.warning("note: %s: %s", SKIPPED_HOOKS_NOTE, ", ".join(hooks))


def typed_manifest(manifest: Manifest) -> Struct:
    """What makes pods, as somebody wrote it. Raises InputError that names file, document and field."""
    document, place = manifest
    workload: Any = typed_document(document, KINDS[str(document["kind"])], place)
    if not (workload.metadata.name or workload.metadata.generate_name):
        raise place.error("required", "metadata.name")
    check_quantities(_quantities(workload), lambda: place)
    stored: Struct = workload
    return stored


def _quantities(workload: Struct) -> Iterator[tuple[str, Resources]]:
    """Path -> resources, of what a workload asks for; the reader looks at those of pods."""
    spec, path = workload.spec, "spec"  # type: ignore[attr-defined]
    if isinstance(workload, CronJob):
        spec, path = workload.spec.job_template.spec, "spec.jobTemplate.spec"
    template = getattr(spec, "template", None)
    if template is not None:
        yield from ((f"{path}.template.{field}", amounts) for field, amounts in pod_resources(template.spec))
    if isinstance(workload, StatefulSet):
        for index, claim in enumerate(workload.spec.volume_claim_templates):
            yield f"spec.volumeClaimTemplates[{index}].spec.resources.requests", claim.spec.resources.requests


def exists(workload: Struct) -> bool:
    """Whether it is a pod that a cluster has."""
    return isinstance(workload, Pod) and bool(workload.metadata.uid or workload.spec.node_name)


def _named(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name


def key_of(metadata: Json) -> Key:
    """Namespace and name, empty where it says none."""
    return text_at(metadata, "namespace"), text_at(metadata, "name")


def placed(objects: Mapping[str, Sequence[object]], pods: PodTable, namespace: str | None) -> dict[str, Sequence[Any]]:
    """The objects by kind, and these pods; those of kinds that have namespaces in this one where they name none."""
    others = {
        kind: some if kind in CLUSTER_SCOPED else [in_namespace(some_object, namespace) for some_object in some]
        for kind, some in objects.items()
        if kind != "Pod"
    }
    return others | {"Pod": pods.with_default_namespace(namespace or DEFAULT_NAMESPACE)}


def in_namespace(obj: Any, namespace: str | None) -> Any:
    """The object in this namespace, if there is one, unless it names one itself."""
    if obj.metadata.namespace or not namespace:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=namespace))
