"""From the options to a Cluster, and to the pod of a manifest that is not in the cluster yet."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kschedctl import demo
from kschedctl.api.objects import Pod
from kschedctl.cli.options import Source, feature_gates
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError

log = logging.getLogger(__name__)
Origins = Mapping[tuple[str, str, str], str]


def load(source: Source) -> Cluster:
    """The cluster that the options name. Raises KschedctlError."""
    if not source.filename and not source.demo:
        raise UsageError("no cluster to look at", hint="give files with -f, or try --demo")
    files = [*(map(str, demo.files()) if source.demo else ()), *source.filename]
    cluster = _read(files, source)
    log.info("read %s nodes and %s pods", f"{len(cluster.nodes):,}", f"{len(cluster.pods):,}")
    return cluster


def _read(names: list[str], source: Source) -> Cluster:
    documents = [(name, document) for name in names for document in _documents(name)]
    config = next(_documents(source.config), None) if source.config else None
    cluster = Cluster.from_objects((d for _, d in documents), config, feature_gates(source.feature_gates))
    origins = {}
    for name, document in documents:
        for item in document["items"] if "items" in document else [document]:
            meta = item["metadata"]
            namespace = "" if item["kind"] == "Node" else meta.get("namespace", "default")
            origins[item["kind"], namespace, meta.get("name", "")] = name
    return replace(cluster, kube_version=source.kube_version, origins=origins)


def _documents(name: str) -> Iterator[Any]:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        if data[:1] == b"{":
            yield msgspec.json.decode(data)
        else:
            yield from (d for d in yaml.load_all(data, yaml.CSafeLoader) if d)
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=name) from None
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        raise InputError(" ".join(str(error).split()), where=name) from None


def manifest_pod(cluster: Cluster) -> Pod | None:
    """The pod to explain when none is named: the only Pod of a file without nodes, not bound yet.

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
