"""The Cluster class of the library, which adds constructors for files, snapshots and API servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Self

from kschedctl import cluster
from kschedctl.api.component_flags import DEFAULT_API_SERVER
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION, KubeVersion
from kschedctl.text.version import VERSION

WRITTEN_BY = f"kschedctl {VERSION}"


class Cluster(cluster.Cluster):
    """A cluster read from objects, files, a snapshot or an API server.

    >>> Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    <kschedctl.Cluster: 1 Node; kube-scheduler 1.36>
    """

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        config: JsonObject | str | os.PathLike[str] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        *,
        recursive: bool = False,
        admit: bool = False,
        assume_complete: bool = False,
        kube_version: str = KUBE_VERSION,
    ) -> Self:
        """Read a cluster from files, folders, dumps and ``-``. Later paths add to earlier ones.

        Kinds for which a list was read are complete. All other kinds are unknown, not absent, unless
        ``assume_complete`` is true. ``config`` is a KubeSchedulerConfiguration or its file. By default, the
        configuration among the files is used, or kube-scheduler's default if there is none. ``kube_version`` is as in
        from_objects. Raises InputError if a file cannot be read, and ConfigurationError if the configuration is
        invalid.
        """
        from kschedctl.sources.read import load_configuration_file, read_paths  # noqa: PLC0415 - not all clusters are files

        KubeVersion.parse_supported(kube_version)
        files = read_paths([os.fspath(path) for path in paths], recursive=recursive)
        if config is not None and not isinstance(config, Mapping):
            config = load_configuration_file(os.fspath(config))
        return cls.of(
            files.objects,
            configuration=files.configuration if config is None else config,
            feature_gates=feature_gates or {},
            kube_version=kube_version,
            admit=admit,
            origins=files.origins,
            skipped=files.skipped,
            warnings=files.warnings,
            gaps=files.left_out if assume_complete else files.gaps,
            autoscaler=files.autoscaler,
            api_server=files.api_server or DEFAULT_API_SERVER,
        )

    @classmethod
    def from_live(
        cls,
        context: str | None = None,
        *,
        kubeconfig: str | None = None,
        namespace: str | None = None,
        kube_version: str | None = None,
        cache: bool = False,
    ) -> Self:
        """Read the cluster of a kubeconfig context or, inside a pod, the pod's own cluster.

        ``namespace`` is the namespace to read for kinds that may not be listed in all namespaces. ``kube_version`` is
        the version of the replayed scheduler, as in from_objects, or None for the server's own version. If ``cache`` is
        true, the answers are stored in the user's cache folder, so that the next call reads only changes. Raises
        ClusterError if the API server fails, and ConfigurationError or InputError if its responses cannot be used.
        """
        from kschedctl.sources.live.connection import Access, connect  # noqa: PLC0415 - the client takes a while to import
        from kschedctl.sources.live.reading import ReadingOptions, read_live_cluster  # noqa: PLC0415

        if kube_version is not None:
            KubeVersion.parse_supported(kube_version)
        connection = connect(Access(kubeconfig=kubeconfig, context=context))
        options = ReadingOptions(kube_version=kube_version, namespace=namespace, cache=cache)
        return cls._from_base(read_live_cluster(connection, options).build_cluster())

    @classmethod
    def from_snapshot(cls, path: str | os.PathLike[str], *, kube_version: str | None = None) -> Self:
        """Read a cluster from a file that ``kschedctl snapshot save`` wrote.

        ``kube_version`` is the version of the replayed scheduler, or None for the version in the file. Raises
        InputError if the snapshot cannot be read, and ConfigurationError if the configuration is invalid.
        """
        from kschedctl.sources.archive_file import read_archive  # noqa: PLC0415

        if kube_version is not None:
            KubeVersion.parse_supported(kube_version)
        saved_cluster = read_archive(os.fspath(path))
        if kube_version is not None:
            saved_cluster = replace(saved_cluster, kube_version=kube_version, warnings=())
        return cls._from_base(saved_cluster)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the cluster to a snapshot file, as ``kschedctl snapshot save`` does.

        The file contains only what scheduling reads: no env, no Secrets, and only Kueue's and autoscalers' ConfigMaps.
        Raises InputError if the file cannot be written.
        """
        from kschedctl.sources.archive_file import write_archive  # noqa: PLC0415 - few clusters are saved

        write_archive(self, os.fspath(path), written_by=WRITTEN_BY)

    @classmethod
    def _from_base(cls, base: cluster.Cluster) -> Self:
        """Return the cluster as an instance of this class, with the same field values."""
        return cls(**{field.name: getattr(base, field.name) for field in fields(base)})


def get_read_time(read_cluster: cluster.Cluster) -> str:
    """Return the RFC 3339 time at which a live cluster was read, or the present time for files and objects."""
    if read_cluster.provenance:
        return read_cluster.provenance.read_at
    return datetime.now(UTC).isoformat(timespec="seconds")
