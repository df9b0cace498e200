"""Check that public functions accept old parameter names for one release, with a warning."""

from __future__ import annotations

import pytest

import kschedctl
from kschedctl.commands.make_room.room import RoomCriteria

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
SPEC = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": SPEC}


def test_old_parameter_name_works_and_warns() -> None:
    cluster = kschedctl.Cluster.from_objects([NODE])
    with pytest.warns(DeprecationWarning, match="make_room: the parameter wishes is deprecated: use criteria"):
        report = kschedctl.make_room(cluster, [POD], wishes=RoomCriteria(max_moves=1))  # type: ignore[call-arg]
    assert report == kschedctl.make_room(cluster, [POD], criteria=RoomCriteria(max_moves=1))


def test_old_and_new_name_together_are_an_error() -> None:
    cluster = kschedctl.Cluster.from_objects([NODE])
    with pytest.raises(TypeError, match="both wishes and criteria"):
        kschedctl.make_room(cluster, [POD], wishes=RoomCriteria(), criteria=RoomCriteria())  # type: ignore[call-arg]
