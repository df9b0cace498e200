"""Manifests in the files of `-f`: their validation, and the cluster to which commands apply them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import typer

from kschedctl.api.component_flags import DEFAULT_API_SERVER
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import Json, JsonObject, text_at
from kschedctl.api.kinds import get_api_kind
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.objects import ApiObject, ObjectMeta, Pod, Resources, StoredAutoscaler, Struct
from kschedctl.api.objects import Namespace as StoredNamespace
from kschedctl.api.objects import get_object_key as get_key
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import Key, PodTable
from kschedctl.api.queueing import QUEUE_LABEL
from kschedctl.api.workloads import (
    KINDS,
    POD_TEMPLATE_PATHS,
    StatefulSet,
    find_template,
    format_title,
    get_identity,
    is_non_install_hook,
    is_workload_manifest,
)
from kschedctl.cli.options import Source, Truth, parse_feature_gates
from kschedctl.cli.source import (
    CREATION_LIMIT_KINDS,
    NOTHING_MORE,
    LiveKinds,
    load_cluster,
    log_read_result,
    split_by_snapshot,
    warn_about_live_only_options,
    with_admission_plugins,
)
from kschedctl.cluster import CLUSTER_SCOPED, Cluster, describe_document
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.manifests import SKIPPED_HOOKS_NOTE
from kschedctl.sources.collector import Manifest
from kschedctl.sources.decoding import decode_document, iter_pod_resources, validate_quantities
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import ReadResult, load_configuration_file, read_paths
from kschedctl.text.counts import agreeing, first_few, join_words

log = logging.getLogger(__name__)
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace for manifests that do not set one.")
]


class Application(NamedTuple):
    """Manifests to apply to a cluster."""

    source: Source
    """The options that name the cluster."""
    cluster: Cluster
    manifests: list[Struct]
    places: dict[str, Place]
    """Name of an object such as `Pod shop/web` -> its place in a file."""
    written: Mapping[Owner, JsonObject] = MappingProxyType({})
    """The manifests as documents."""
    missing_namespaces: Mapping[str, str] = MappingProxyType({})
    """The namespaces that are assumed to be created first, each with a similar existing name or an empty string."""
    without_pods: tuple[str, ...] = ()
    """The new objects, such as `PodDisruptionBudget shop/web`, if nothing in the files creates pods."""


def read_manifests(source: Source, namespace: str | None, live: LiveKinds = NOTHING_MORE) -> dict[str, Application]:
    """Read the manifests to apply and their cluster, once per snapshot.

    Manifests are workloads and pods that have neither a UID nor a node. The workloads of the cluster that a new
    HorizontalPodAutoscaler in the files scales are manifests too. The cluster comes from the files if they contain a
    Node or are declared complete, otherwise from `--snapshot`, `--demo` or the live cluster. All other objects in the
    files are added to it. Objects without a namespace go to `namespace`, or to the namespace of the live cluster's
    context.

    Raises KschedctlError if a file or the cluster cannot be read, or if a manifest is invalid. Raises it as well if the
    files only have a HorizontalPodAutoscaler whose target does not exist.
    """
    if not source.filename:
        raise UsageError("no manifests", hint="give files with -f; -f - reads what helm template or kustomize prints")
    reading = read_paths(source.filename, recursive=source.recursive, find_builds=source.builds)
    log_read_result(reading)
    log_left_out_objects(reading)
    return {
        name: _prepare_application(named, reading, namespace, live) for name, named in split_by_snapshot(source).items()
    }


class Surroundings(NamedTuple):
    """The cluster around files, and their default namespace."""

    cluster: Cluster | None
    """The cluster to which the files add objects, or None if the files describe it themselves."""
    namespace: str | None
    """The namespace for objects that name none."""


def validate_and_load_surroundings(
    source: Source, reading: ReadResult, namespace: str | None, live: LiveKinds = NOTHING_MORE
) -> Surroundings:
    """Validate the objects around the workloads in the files, and load the cluster to which the files are applied.

    No cluster is loaded if the files have Nodes, or if they are assumed to be complete, unless there is a snapshot or
    the demo cluster. The namespace defaults to that of a live cluster's context. Raises KschedctlError if the cluster
    cannot be read or an object is invalid.
    """
    if reading.around:
        validate_objects_around_pods(reading.around)
    describe_themselves = bool(reading.objects.get("Node")) or source.assume_complete
    has_other_cluster = source.demo or bool(source.snapshot)
    if describe_themselves and not has_other_cluster:
        warn_about_live_only_options(source)
        return Surroundings(None, namespace)
    around = replace(source, filename=[])
    cluster = load_cluster(around, namespace, live=CREATION_LIMIT_KINDS.union(live))
    if around.live and cluster.provenance and not namespace:
        namespace = cluster.provenance.namespace
    return Surroundings(cluster, namespace)


def find_similar_name(name: str, names: Iterable[str]) -> str:
    """Return the name that is most similar, or an empty string if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for missing objects

    return next(iter(get_close_matches(name, sorted(names), 1, MIN_SIMILARITY)), "")


HPA = "HorizontalPodAutoscaler"
MIN_SIMILARITY = 0.75
"""The similarity of two names from which one may be a misspelling of the other."""


class _DecodedManifest(NamedTuple):
    """A manifest of a pod or workload, as a document and as a struct."""

    manifest: Manifest
    workload: Struct


def _prepare_application(source: Source, reading: ReadResult, namespace: str | None, live: LiveKinds) -> Application:
    """Split the objects in the files into manifests to apply and objects of the cluster, and validate the manifests.

    The manifests get the default namespace. Namespaces that they name are added to the cluster if they do not exist.
    Raises KschedctlError if a manifest is invalid or the cluster cannot be read.
    """
    # Existing pods belong to the cluster, and all other pods and workloads are applied.
    decoded = _decode_manifests(reading)
    listed_pods = _find_pods_only_in_tables(reading)
    workloads = [entry.workload for entry in decoded]
    workloads += [pod for pod in listed_pods.iter_unbound_pods() if not is_existing_pod(pod)]
    pods = (workload for workload in workloads if isinstance(workload, Pod))
    existing_pods = listed_pods.apply_changes(
        {_get_pod_key(pod): pod if is_existing_pod(pod) else None for pod in pods}
    )

    # Build the cluster from the files, or add their objects to the cluster around them.
    outer_cluster, namespace = validate_and_load_surroundings(source, reading, namespace, live)
    objects = with_default_namespace(reading.objects, existing_pods, namespace)
    if outer_cluster is None:
        cluster = build_cluster_from_files(source, reading, objects)
    else:
        cluster = outer_cluster.with_objects(objects)

    # Add the namespaces that the applied objects need.
    applied = [with_namespace(workload, namespace) for workload in workloads if not is_existing_pod(workload)]
    existing_names = {existing.metadata.name for existing in cluster.namespaces}
    cluster = add_missing_namespaces(cluster, map(get_identity, applied), source)

    # Validate the manifests of applied objects.
    applied_manifests = [entry.manifest for entry in decoded if not is_existing_pod(entry.workload)]
    if applied_manifests:
        validate_manifests(applied_manifests, cluster, namespace)

    # Record where each object is in the files, and its document.
    read_workloads = [(with_namespace(entry.workload, namespace), entry.manifest) for entry in decoded]
    places = {format_title(workload): manifest.place for workload, manifest in read_workloads}
    documents = {get_identity(workload): manifest.document for workload, manifest in read_workloads}
    similar_names = find_similar_namespaces(cluster, existing_names)

    # Add the workloads of the cluster that new autoscalers scale.
    scaled = find_scaled_workloads(reading, cluster, namespace, set(map(get_identity, applied)))
    new_objects: list[str] = []
    if not applied and not scaled:
        _reject_new_autoscalers(reading, cluster, namespace)
        kinds = [kind for kind in reading.objects if kind != "Pod"]
        new_objects += (_format_object_title(kind, obj) for kind, obj in _iter_new_objects(reading, kinds, namespace))
    documents |= _find_stored_documents(reading, set(map(get_identity, scaled)), namespace)
    return Application(
        source,
        cluster,
        [*applied, *scaled],
        places,
        documents,
        missing_namespaces=similar_names,
        without_pods=tuple(new_objects),
    )


def find_scaled_workloads(
    reading: ReadResult, cluster: Cluster, namespace: str | None, applied: Set[Owner]
) -> list[Struct]:
    """Return the workloads of the cluster that new autoscalers in the files scale, apart from the applied ones.

    Autoscalers without a namespace are in ``namespace``, or in the default one if it is None.
    """
    new_autoscalers = _find_new_autoscalers(reading, namespace)
    if not new_autoscalers:
        return []
    from kschedctl.replay.controllers import stored_workloads  # noqa: PLC0415 - only for autoscalers

    return stored_workloads.find_autoscaled_workloads(cluster, new_autoscalers, applied)


def _reject_new_autoscalers(reading: ReadResult, cluster: Cluster, namespace: str | None) -> None:
    """Raise UsageError for the first new autoscaler in the files, if there is one.

    This must only be called if the cluster has none of the workloads that the new autoscalers scale. Autoscalers
    without a namespace are in `namespace`, or in the default one if it is None.
    """
    new_autoscalers = _find_new_autoscalers(reading, namespace)
    if not new_autoscalers:
        return
    autoscaler = new_autoscalers[0]  # like the others, it has no target in the cluster
    from kschedctl.replay.controllers import stored_workloads, workload_pods  # noqa: PLC0415 - only for an error

    target = stored_workloads.get_scale_target(autoscaler)
    suggestions = workload_pods.suggest_workloads(cluster, target.name, target.kind)
    did_you_mean = f"did you mean {join_words(suggestions[:3], 'or')}?" if suggestions else ""
    raise UsageError(
        f"its target {target} is not among the workloads of the cluster",
        where=_format_object_title(HPA, autoscaler),
        hint=did_you_mean or "apply its target together with it",
    )


def _find_new_autoscalers(reading: ReadResult, namespace: str | None) -> list[StoredAutoscaler]:
    """Return the new autoscalers in the files. Those without a namespace get ``namespace``, or the default one."""
    return [autoscaler for _, autoscaler in _iter_new_objects(reading, [HPA], namespace)]


def _find_stored_documents(reading: ReadResult, owners: Set[Owner], namespace: str | None) -> dict[Owner, JsonObject]:
    """Return the documents of those owners that the files contain as existing workloads."""
    documents = {}
    for document, _ in reading.stored:
        own_namespace, name = get_object_key(document["metadata"])
        owner = Owner(str(document["kind"]), own_namespace or namespace or DEFAULT_NAMESPACE, name)
        if owner in owners:
            documents[owner] = document
    return documents


def _iter_new_objects(reading: ReadResult, kinds: Iterable[str], namespace: str | None) -> Iterator[tuple[str, Any]]:
    """Yield (kind, object) for each object of these kinds that has no UID, so that it is still to be created.

    Objects in files that also have nodes are left out, because such files describe a cluster. Objects without a
    namespace get ``namespace``, or the default one if it is None.
    """
    files_with_nodes = reading.origins.get_files("Node")
    for kind in kinds:
        if reading.origins.get_files(kind) <= files_with_nodes:
            continue  # every object of the kind is in a file with nodes, or there is none
        objects: Sequence[Any] = reading.objects.get(kind, ())
        for obj in objects:
            file = reading.origins.get_file(kind, *get_key(obj))
            if obj.metadata.uid or file in files_with_nodes:
                continue
            if kind in CLUSTER_SCOPED:
                yield kind, obj
            else:
                yield kind, with_namespace(obj, namespace or DEFAULT_NAMESPACE)


def _format_object_title(kind: str, obj: ApiObject) -> str:
    """Return the title of an object, such as `PriorityClass high` or `ResourceQuota shop/compute`."""
    return f"{kind} {'/'.join(filter(None, get_key(obj)))}"


def _decode_manifests(reading: ReadResult) -> list[_DecodedManifest]:
    """Decode the pods and workloads, except Helm hooks that run on neither install nor upgrade.

    Raises InputError with file, document and field if one is malformed.
    """
    return [
        _DecodedManifest(manifest, decode_manifest(manifest))
        for manifest in reading.manifests
        if is_workload_manifest(manifest.document) and not is_non_install_hook(manifest.document)
    ]


def _find_pods_only_in_tables(reading: ReadResult) -> PodTable:
    """Return the pods that have no manifest.

    Long lists of pods are decoded as a table, and other pods as manifests. A pod with the name of a manifest is left
    out of the table.
    """
    pods_with_manifests = [
        get_object_key(manifest.document["metadata"])
        for manifest in reading.manifests
        if is_workload_manifest(manifest.document) and manifest.document["kind"] == "Pod"
    ]
    return reading.pods.apply_changes(dict.fromkeys(pods_with_manifests))  # a pod changed to None is removed


def build_cluster_from_files(source: Source, reading: ReadResult, objects: Mapping[str, Sequence[Struct]]) -> Cluster:
    """Build the cluster that the files describe, with the configuration and version from the options.

    Unless --config is given, the configuration comes from the files. Unless the files are declared complete, each kind
    without a complete list in the files is a gap.
    """
    # Even if the files are complete, the kinds of objects that could not be read are gaps
    gaps = reading.left_out if source.assume_complete else reading.gaps
    cluster = Cluster.of(
        objects,
        configuration=load_configuration_file(source.config) if source.config else reading.configuration,
        feature_gates=parse_feature_gates(source.feature_gates),
        kube_version=source.kube_version or KUBE_VERSION,
        origins=reading.origins,
        gaps=gaps,
        autoscaler=reading.autoscaler,
        api_server=reading.api_server or DEFAULT_API_SERVER,
    )
    return with_admission_plugins(cluster, source)


def add_missing_namespaces(cluster: Cluster, workloads: Iterable[Owner], source: Source) -> Cluster:
    """Add and log the namespaces that new workloads name but the cluster does not have.

    Nothing is added with `--assume-namespaces=false`. A missing namespace is normal for charts: `helm template` prints
    no Namespace, because `helm install --create-namespace` creates it.
    """
    if source.assume_namespaces is Truth.FALSE:
        return cluster
    names = dict.fromkeys(workload.namespace for workload in workloads)
    if not names:
        return cluster
    from kschedctl.admission.not_replayed import NAME_LABEL, is_missing_namespace  # noqa: PLC0415 - only for new objects

    missing = [name for name in names if is_missing_namespace(cluster, name)]
    if not missing:
        return cluster
    log.warning(
        "note: %s %s not exist in the cluster and %s assumed to be created first (--assume-namespaces=false "
        "prevents that)",
        agreeing(len(missing), "namespace", "namespaces"),
        f"{first_few(missing)} {agreeing(len(missing), 'does', 'do')}",
        agreeing(len(missing), "is", "are"),
    )
    created = [StoredNamespace(ObjectMeta(name, labels={NAME_LABEL: name})) for name in missing]
    return cluster.with_objects({"Namespace": created})


def find_similar_namespaces(cluster: Cluster, given_namespaces: set[str]) -> dict[str, str]:
    """Map each namespace that was added to the given ones to a similar name among these, or an empty string."""
    added_namespaces = {namespace.metadata.name for namespace in cluster.namespaces} - given_namespaces
    return {name: find_similar_name(name, given_namespaces) for name in sorted(added_namespaces)}


def log_left_out_objects(reading: ReadResult) -> None:
    """Log the objects in the files that are neither applied nor part of the cluster."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in reading.skipped.items() if kind not in KINDS)
    if kinds:
        log.warning("note: left out, because they neither affect scheduling nor create pods here: %s", kinds)
    _log_unchecked_custom_resources(reading)
    _log_skipped_kustomizations(reading)
    log_skipped_hooks(reading)


def _log_unchecked_custom_resources(reading: ReadResult) -> None:
    """Log which new custom resources are not checked because their operators create pods of unknown shape.

    Resources with a UID are left out: they exist in a cluster, where their operators have already seen them.
    """
    unknown = set()
    for kind, objects in reading.objects.items():
        for resource in objects:
            if not isinstance(resource, OperatorResource) or _has_known_pods(resource):
                continue
            if resource.metadata.uid:
                continue
            api_kind = resource.resource_kind if isinstance(resource, CustomResource) else get_api_kind(kind)
            unknown.add((api_kind, resource.metadata.name))
    if unknown:
        listed = first_few([f"{kind}/{name}" for kind, name in sorted(unknown)])
        log.warning("note: not checked: %s (kschedctl does not know what pods their operators create)", listed)


def _has_known_pods(resource: OperatorResource) -> bool:
    """Return whether the resource names a queue of Kueue, which knows its pods."""
    return QUEUE_LABEL in resource.metadata.labels and bool(resource.pod_sets.pod_sets)


def _log_skipped_kustomizations(reading: ReadResult) -> None:
    """Warn that a Kustomization was skipped because `--kustomize` is not given."""
    if "Kustomization" in reading.skipped:
        log.warning(
            "note: a Kustomization was not built, so its patches are missing; "
            "use --kustomize, or pipe the output of kubectl kustomize to -f -"
        )


def log_skipped_hooks(reading: ReadResult) -> None:
    """Log the workload manifests that are skipped because they are Helm hooks other than install hooks."""
    hooks = [
        describe_document(manifest.document)
        for manifest in reading.manifests
        if is_workload_manifest(manifest.document) and is_non_install_hook(manifest.document)
    ]
    if hooks:
        log.warning("note: %s: %s", SKIPPED_HOOKS_NOTE, ", ".join(hooks))


def decode_manifest(manifest: Manifest) -> Struct:
    """Decode a pod or workload. Raises InputError with file, document and field if it is malformed."""
    document, place = manifest
    workload: Any = decode_document(document, KINDS[str(document["kind"])], place)  # all of these kinds have metadata
    if not (workload.metadata.name or workload.metadata.generate_name):
        raise place.error("required", "metadata.name")
    validate_quantities(_iter_template_resources(workload), lambda: place)
    return cast("Struct", workload)


def _iter_template_resources(workload: Struct) -> Iterator[tuple[str, Resources]]:
    """Yield the path and the amounts of all requests, limits and overhead in a workload's templates.

    The templates are the pod template, if the workload has one, and the claim templates of a StatefulSet.
    """
    template = find_template(workload)
    if template is not None:
        path = POD_TEMPLATE_PATHS[get_identity(workload).kind]
        yield from ((f"{'.'.join(path)}.{field}", amounts) for field, amounts in iter_pod_resources(template.spec))
    if isinstance(workload, StatefulSet):
        for index, claim in enumerate(workload.spec.volume_claim_templates):
            yield f"spec.volumeClaimTemplates[{index}].spec.resources.requests", claim.spec.resources.requests


def is_existing_pod(workload: Struct) -> bool:
    """Return whether the object is a pod that exists in a cluster: it has a UID or a node."""
    return isinstance(workload, Pod) and bool(workload.metadata.uid or workload.spec.node_name)


def _get_pod_key(pod: Pod) -> Key:
    """Return the pod's namespace and name."""
    return pod.metadata.namespace, pod.metadata.name


def get_object_key(metadata: Json) -> Key:
    """Return namespace and name of an object's metadata. A missing one is ""."""
    return text_at(metadata, "namespace"), text_at(metadata, "name")


def with_default_namespace(
    objects: Mapping[str, Sequence[object]], pods: PodTable, namespace: str | None
) -> dict[str, Sequence[Any]]:
    """Return the objects and the pods by kind. Objects that name no namespace get ``namespace``.

    Kinds without namespaces are left as they are. If ``namespace`` is None, pods get the namespace `default`.
    """
    result: dict[str, Sequence[Any]] = {}
    for kind, objects_of_kind in objects.items():
        if kind in CLUSTER_SCOPED:
            result[kind] = objects_of_kind
        elif kind != "Pod":
            result[kind] = [with_namespace(obj, namespace) for obj in objects_of_kind]
    result["Pod"] = pods.with_default_namespace(namespace or DEFAULT_NAMESPACE)
    return result


def with_namespace(obj: Any, namespace: str | None) -> Any:
    """Return the object in this namespace, unless it names one itself."""
    if obj.metadata.namespace or not namespace:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=namespace))


def validate_manifests(manifests: Iterable[Manifest], cluster: Cluster, namespace: str | None = None) -> None:
    """Raise InputError if the API server would reject any of these pods and workloads.

    The error lists all problems of all manifests. `namespace` applies to manifests that name none. Do not pass objects
    that have a UID, because they exist already.
    """
    from kschedctl.api.validation.manifests import KINDS as MANIFEST_KINDS  # noqa: PLC0415 - only for new objects
    from kschedctl.replay.denials import find_creation_denials, raise_errors  # noqa: PLC0415 - only for new objects
    from kschedctl.sources.documents.positions import locate_field  # noqa: PLC0415 - only for new objects

    errors = []
    for document, place in manifests:
        decoded = decode_document(document, MANIFEST_KINDS[str(document["kind"])], place)
        for refusal in find_creation_denials(document, decoded, cluster, namespace or "", admission=False):
            errors.append(locate_field(place, refusal.path).error(refusal.message, hint=refusal.hint))
    raise_errors(errors)


def validate_objects_around_pods(manifests: Iterable[Manifest]) -> None:
    """Raise InputError if the API server would reject one of these PDBs, classes, claims or autoscalers.

    The error lists all problems of all objects.
    """
    from kschedctl.api.validation import around_pods  # noqa: PLC0415 - only for new objects
    from kschedctl.replay.denials import find_validation_errors, raise_errors  # noqa: PLC0415 - only for new objects
    from kschedctl.sources.documents.positions import locate_field  # noqa: PLC0415 - only for new objects

    errors = []
    for document, place in manifests:
        decoded = decode_document(document, around_pods.KINDS[str(document["kind"])], place)
        errors += [
            locate_field(place, denial.path).error(denial.message)
            for denial in find_validation_errors(document, decoded)
        ]
    raise_errors(errors)
