"""How Kueue is installed in a cluster: its release, and its Configuration."""

from __future__ import annotations

import re
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.queueing.kueue.feature_gates import KueueRelease

_IMAGE = re.compile(r"(?:^|/)kueue:v?0\.(\d+)(?:[.\-+]|$)")
_MINOR_OF_OLDEST = 19


class KueueInstallation(NamedTuple):
    """The Kueue that is replayed."""

    release: KueueRelease = KueueRelease.V0_20
    configuration: JsonObject = {}  # noqa: RUF012 - never changed
    """Kueue's Configuration, empty for the defaults."""
    doubt: str = ""
    """How the cluster's Kueue differs from the replayed one, or ""."""


def find_installation(cluster: Cluster) -> KueueInstallation:
    """Return the installation that the image of Kueue's Deployment tells, or else the newest release.

    >>> find_installation(Cluster.from_objects([])).release.value
    '0.20'
    """
    for deployment in cluster.deployments:
        for container in deployment.spec.template.spec.containers:
            if match := _IMAGE.search(container.image):
                return _choose_release(int(match[1]))
    return KueueInstallation()


def _choose_release(minor: int) -> KueueInstallation:
    """Return the replayed release that is closest to Kueue 0.``minor``."""
    if minor < _MINOR_OF_OLDEST:
        doubt = f"Kueue 0.{minor} is installed, and is replayed as 0.{_MINOR_OF_OLDEST}"
        return KueueInstallation(KueueRelease.V0_19, doubt=doubt)
    return KueueInstallation(KueueRelease.V0_19 if minor == _MINOR_OF_OLDEST else KueueRelease.V0_20)
