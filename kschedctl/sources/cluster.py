"""What users of the library get as a Cluster: one with ways to read it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Self

from kschedctl import cluster
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION, KubeVersion
from kschedctl.api.observed.api_server import AS_BY_DEFAULT
from kschedctl.text.version import VERSION

WRITTEN_BY = f"kschedctl {VERSION}"


class Cluster(cluster.Cluster):
    """A cluster, from objects, files, a snapshot or an API server.

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
        """From files, folders, dumps and ``-``, the later ones adding to the earlier ones.

        What lists hold of a kind is taken as all of it; of kinds in no list nobody knows, unless ``assume_complete``.
        ``config`` is a KubeSchedulerConfiguration or its file; without it the one among the files counts, else the
        default. ``kube_version``: as for from_objects. Raises InputError for what cannot be read, ConfigurationError.
        """
        from kschedctl.sources.read import load_configuration_file, read  # noqa: PLC0415 - not all clusters are files

        KubeVersion.parse_supported(kube_version)
        files = read([os.fspath(path) for path in paths], recursive=recursive)
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
            api_server=files.api_server or AS_BY_DEFAULT,
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
        """From the cluster of a kubeconfig's context, or of the service account of the pod that this runs in.

        ``namespace``: where to look for what may not be listed in all. ``kube_version``: of the scheduler that is
        replayed, as for from_objects; None for the server's own. ``cache``: keep what is read in the user's folder for
        caches, and the next time read only what changed. Raises ClusterError, ConfigurationError, InputError.
        """
        from kschedctl.sources.live.connection import Access, connect  # noqa: PLC0415 - the client takes a while to import
        from kschedctl.sources.live.reading import Wishes, read_live  # noqa: PLC0415

        if kube_version is not None:
            KubeVersion.parse_supported(kube_version)
        connection = connect(Access(kubeconfig=kubeconfig, context=context))
        return cls._made_of(
            read_live(connection, Wishes(kube_version=kube_version, namespace=namespace, cache=cache)).cluster()
        )

    @classmethod
    def from_snapshot(cls, path: str | os.PathLike[str], *, kube_version: str | None = None) -> Self:
        """From a file that ``kschedctl snapshot save`` wrote.

        ``kube_version``: of the scheduler that is replayed, as for from_objects; None for that of the file. Raises
        InputError, ConfigurationError.
        """
        from kschedctl.sources.archive.file import read_archive  # noqa: PLC0415

        if kube_version is not None:
            KubeVersion.parse_supported(kube_version)
        archive = read_archive(os.fspath(path))
        return cls._made_of(
            archive if kube_version is None else replace(archive, kube_version=kube_version, warnings=())
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what scheduling reads of it to a file, as ``kschedctl snapshot save`` does, for ``from_snapshot``.

        No env, no secrets, no config maps. Raises InputError where it cannot be written.
        """
        from kschedctl.sources.archive.file import write_archive  # noqa: PLC0415 - few clusters are saved

        write_archive(self, os.fspath(path), written_by=WRITTEN_BY)

    @classmethod
    def _made_of(cls, read: cluster.Cluster) -> Self:
        return cls(**{field.name: getattr(read, field.name) for field in fields(read)})


def moment_of(read: cluster.Cluster) -> str:
    """The RFC 3339 time at which pods are as old as they are: when the cluster was read; of objects and files now."""
    return read.provenance.read_at if read.provenance else datetime.now(UTC).isoformat(timespec="seconds")
