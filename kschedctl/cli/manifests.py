"""What ``-f`` names where manifests are applied: files that hold them, and maybe a cluster too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.objects import Pod, Struct
from kschedctl.cli.options import Source, feature_gates
from kschedctl.cli.source import load
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.scheduler.feature_gates import KUBE_VERSION
from kschedctl.sources.read import ReadResult, load_configuration_file, read

Manifests = list[Mapping[str, Any] | Struct]


def read_manifests(source: Source, namespace: str | None) -> tuple[Cluster, Manifests]:
    """The cluster, and the manifests to apply to it: what makes pods, has no UID and no node.

    The cluster is the files' where they hold a Node, else that of ``--snapshot`` or ``--demo``, else the live one. What
    else the files hold is part of it. Raises KschedctlError.
    """
    if not source.filename:
        raise UsageError("no manifests", hint="give files with -f; - reads what helm template or kustomize print")
    found = read(source.filename, recursive=source.recursive)
    documents = [m.document for m in found.manifests if not _is_bound(m.document)]
    applied = {_key(d["metadata"]) for d in documents if d["kind"] == "Pod"}
    objects = dict(found.objects)
    others = [pod for pod in objects.pop("Pod", []) if isinstance(pod, Pod) and pod.key not in applied]
    new = [pod for pod in others if not (pod.metadata.uid or pod.spec.node_name)]  # of long lists, not kept as written
    if len(new) < len(others):
        objects["Pod"] = [pod for pod in others if pod.metadata.uid or pod.spec.node_name]
    if found.objects.get("Node") and not (source.demo or source.snapshot):
        cluster = _cluster_of(source, found, objects)
    else:
        cluster = load(replace(source, filename=[]), namespace).with_objects(objects)
    return cluster, [*(_in_namespace(document, namespace) for document in documents), *new]


def _cluster_of(source: Source, found: ReadResult, objects: Mapping[str, list[Struct]]) -> Cluster:
    return Cluster.of(
        objects,
        configuration=load_configuration_file(source.config) if source.config else found.configuration,
        feature_gates=feature_gates(source.feature_gates),
        kube_version=source.kube_version or KUBE_VERSION,
        origins=found.origins,
    )


def _is_bound(document: Mapping[str, Any]) -> bool:
    return document["kind"] == "Pod" and bool((document.get("spec") or {}).get("nodeName"))


def _key(metadata: Mapping[str, Any]) -> str:
    return f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{metadata.get('name') or ''}"


def _in_namespace(document: Mapping[str, Any], namespace: str | None) -> Mapping[str, Any]:
    """The manifest in the namespace of the command line, where it names none itself."""
    metadata = document.get("metadata") or {}
    if metadata.get("namespace") or not namespace:
        return document
    return {**document, "metadata": {**metadata, "namespace": namespace}}
