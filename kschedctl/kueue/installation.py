"""The installation of Kueue in a cluster: its release, its Configuration, and features in use that are not replayed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KUEUE_MAP
from kschedctl.api.queueing import KueueRelease, KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.text.counts import counted

CONFIG_KEY = "controller_manager_config.yaml"
"""The key of the ConfigMap that holds the Configuration."""
_IMAGE = re.compile(r"(?:^|/)kueue:v?0\.(\d+)(?:[.\-+]|$)")
_MINOR_OF_OLDEST = 19

_REPLACED_SLICE_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Upstream: WorkloadSliceReplacementFor in pkg/workloadslicing/workloadslicing.go."""


class KueueInstallation(NamedTuple):
    """The Kueue that is replayed."""

    release: KueueRelease = KueueRelease.V0_20
    configuration: JsonObject = {}  # noqa: RUF012 - never changed
    """Kueue's Configuration, empty for the defaults."""
    doubt: str = ""
    """The difference between the cluster's Kueue and the replayed one, or ""."""


def detect_installation(cluster: Cluster) -> KueueInstallation:
    """Detect which release of Kueue is installed and how it is configured.

    The release is taken from the cluster's record or, failing that, from Kueue's Deployment. Otherwise, the newest is
    assumed. The Configuration is taken from Kueue's ConfigMap. If it cannot be read, the defaults are assumed, which is
    recorded in ``doubt``.

    >>> detect_installation(Cluster.from_objects([])).release.value
    '0.20'
    """
    installation = _detect_release(cluster)
    config_map = next((stored for stored in cluster.config_maps if stored.metadata.name == KUEUE_MAP), None)
    if config_map is not None:
        try:
            configuration = parse_configuration(config_map.data.get(CONFIG_KEY, ""))
        except InputError as error:
            where = f"ConfigMap {config_map.metadata.namespace}/{KUEUE_MAP}"
            return _with_doubt(installation, f"{where}: {error.what}; Kueue's defaults are assumed")
        return installation._replace(configuration=configuration)

    # The cluster may have a ConfigMap that was not read
    gap = cluster.find_gap("ConfigMap")
    if gap is not None and not gap.is_unrequested:
        doubt = f"Kueue's Configuration is unknown, since ConfigMaps {gap.why}; its defaults are assumed"
        return _with_doubt(installation, doubt)
    return installation


def _with_doubt(installation: KueueInstallation, doubt: str) -> KueueInstallation:
    """Return the installation with one more doubt, after any doubts that it already has."""
    return installation._replace(doubt="; ".join(filter(None, (installation.doubt, doubt))))


def parse_configuration(text: str) -> JsonObject:
    """Parse the YAML text of Kueue's Configuration. Raises InputError if it is not a Configuration."""
    import yaml  # noqa: PLC0415 - few clusters have such a ConfigMap

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(f"{CONFIG_KEY} is not valid YAML: {first_line}") from None
    if not isinstance(document, dict) or document.get("kind", "Configuration") != "Configuration":
        raise InputError(f"{CONFIG_KEY} is not a Configuration of Kueue")
    return document


def _detect_release(cluster: Cluster) -> KueueInstallation:
    """Return the installed release of Kueue, with the default Configuration.

    It is the version that was recorded with the cluster or, if there is none, the tag of the image in Kueue's
    Deployment. Without both, it is the newest release.
    """
    if cluster.kueue_version:
        return KueueInstallation(KueueRelease(cluster.kueue_version))
    for deployment in cluster.deployments:
        for container in deployment.spec.template.spec.containers:
            if match := _IMAGE.search(container.image):
                return _choose_release(int(match[1]))
    return KueueInstallation()


def _choose_release(minor: int) -> KueueInstallation:
    """Return the release with which to replay Kueue 0.``minor``: 0.19 if ``minor`` is up to 19, otherwise 0.20.

    If the installed release is older than 0.19, the result's ``doubt`` says so.
    """
    if minor < _MINOR_OF_OLDEST:
        doubt = f"Kueue 0.{minor} is installed, and is replayed as 0.{_MINOR_OF_OLDEST}"
        return KueueInstallation(KueueRelease.V0_19, doubt=doubt)
    return KueueInstallation(KueueRelease.V0_19 if minor == _MINOR_OF_OLDEST else KueueRelease.V0_20)


def iter_unreplayed_features(workloads: Iterable[KueueWorkload]) -> Iterator[str]:
    """Yield a sentence for each feature that unfinished Workloads use but that is not replayed."""
    gated: list[KueueWorkload] = []
    on_unhealthy_nodes: list[KueueWorkload] = []
    slices: list[KueueWorkload] = []
    for workload in workloads:
        if any(condition.type == "Finished" and condition.status == "True" for condition in workload.status.conditions):
            continue
        if workload.spec.preemption_gates:
            gated.append(workload)
        if workload.status.unhealthy_nodes:
            on_unhealthy_nodes.append(workload)
        if _REPLACED_SLICE_ANNOTATION in workload.metadata.annotations:
            slices.append(workload)
    for limitation, users in (
        ("preemption gates are not replayed", gated),
        ("the replacement of failed nodes is not replayed", on_unhealthy_nodes),
        ("the replacement of Workload slices is not replayed", slices),
    ):
        if users:
            yield _format_limitation(limitation, users)


def _format_limitation(limitation: str, workloads: list[KueueWorkload]) -> str:
    """Return the sentence about a limitation, with the first Workload that it concerns and the number of others."""
    first = workloads[0].metadata
    other_count = f" and {counted(len(workloads) - 1, 'other')}" if len(workloads) > 1 else ""
    return f"{limitation} (Workload {first.namespace}/{first.name}{other_count})"
