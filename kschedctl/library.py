"""The public Python API: ``kschedctl.Cluster`` and ``kschedctl.explain``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from kschedctl import cluster
from kschedctl.studies.explain import explain

__all__ = ["Cluster", "explain"]


class Cluster(cluster.Cluster):
    """A cluster, from objects or from files."""

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        *,
        recursive: bool = False,
        admit: bool = False,
    ) -> Self:
        """From files, folders, dumps and ``-``, the later ones adding to the earlier ones.

        ``config`` is a KubeSchedulerConfiguration or its file; without it the one among the files counts, else the
        default. Raises InputError for what cannot be read.
        """
        from kschedctl.sources.read import load_configuration_file, read  # noqa: PLC0415 - not all clusters are files

        found = read([os.fspath(path) for path in paths], recursive=recursive)
        if config is not None and not isinstance(config, Mapping):
            config = load_configuration_file(os.fspath(config))
        return cls.of(
            found.objects,
            configuration=found.configuration if config is None else config,
            feature_gates=feature_gates or {},
            admit=admit,
            origins=found.origins,
            skipped=found.skipped,
            warnings=found.warnings,
        )
