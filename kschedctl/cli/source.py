"""From the options to a Cluster, and to the pod of a file that holds nothing but what is asked about."""

from __future__ import annotations

import logging

from kschedctl import demo
from kschedctl.api.objects import Pod
from kschedctl.cli.options import Source, feature_gates
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.sources.read import ReadResult, load_configuration_file, read

log = logging.getLogger(__name__)


def load(source: Source) -> Cluster:
    """The cluster that the options name. Raises KschedctlError."""
    if not source.filename and not source.demo:
        raise UsageError("no cluster to look at", hint="give files with -f, or try --demo")
    embedded = [str(file) for file in demo.files()] if source.demo else []
    found = read([*embedded, *source.filename], recursive=source.recursive)
    _tell(found)
    return Cluster.of(
        found.objects,
        configuration=load_configuration_file(source.config) if source.config else found.configuration,
        feature_gates=feature_gates(source.feature_gates),
        kube_version=source.kube_version,
        origins=found.origins,
    )


def _tell(found: ReadResult) -> None:
    for warning in found.warnings:
        log.warning("warning: %s", warning)
    log.info("read %s", ", ".join(f"{len(objects):,} {kind}" for kind, objects in found.objects.items()) or "nothing")
    if found.skipped:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in found.skipped.items())
        log.info("skipped what scheduling does not read: %s", counts)
    if found.skipped_files:
        log.info("skipped %s files that are neither JSON nor YAML", f"{found.skipped_files:,}")


def lone_pod(cluster: Cluster) -> Pod | None:
    """The pod to explain when none is named: the only Pod of a file without nodes, not bound.

    None when no file or more than one is like that: then the files describe a cluster.
    """
    files = {key: _file(origin) for key, origin in cluster.origins.items()}
    with_nodes = {file for (kind, _, _), file in files.items() if kind == "Node"}
    pods: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        file = files.get(("Pod", pod.metadata.namespace, pod.metadata.name))
        if file is not None and file not in with_nodes:
            pods.setdefault(file, []).append(pod)
    alone = [found[0] for found in pods.values() if len(found) == 1 and not found[0].spec.node_name]
    return alone[0] if len(alone) == 1 else None


def _file(origin: str) -> str:
    """``pod.yaml`` of ``pod.yaml, document 3``."""
    return origin.rpartition(", document ")[0] or origin
