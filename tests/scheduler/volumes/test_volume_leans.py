"""Check on which kinds the answers about a pod's volumes depend."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.helper.volume_hints import iter_claim_dependencies
from kschedctl.scheduler.plugins.helper.volume_listers import get_listers
from kschedctl.snapshot.fork import Fork

NAMES_NO_CLASS: dict[str, Any] = {}
"""The spec of a claim that got the default class when it was created, if there is one."""


@pytest.mark.parametrize(
    ("claimed", "kinds"),
    [
        (NAMES_NO_CLASS, ["StorageClass"]),
        ({"storageClassName": "fast"}, ["StorageClass"]),
        ({"storageClassName": ""}, []),  # wants none
        ({"volumeName": "pv", "storageClassName": ""}, ["PersistentVolume"]),
    ],
    ids=["default class", "class", "no class", "volume"],
)
def test_claim_depends_on_missing_objects_that_it_names(claimed: dict[str, Any], kinds: list[str]) -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "d"}, "spec": claimed}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"volumes": [volume]}}
    view = Fork.from_cluster(Cluster.from_objects([claim, pod]))
    assert [dependency.kind for dependency in iter_claim_dependencies(view.pods.infos[0], get_listers(view))] == kinds
