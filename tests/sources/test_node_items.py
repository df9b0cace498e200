"""Check that images that several nodes share are decoded once."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kschedctl.api import objects as api
from kschedctl.errors import InputError
from kschedctl.sources.collector import Collector
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.place import Place
from kschedctl.sources.json_lists import ListReader, match_list_head

Json = dict[str, Any]
WEB = {"names": ["registry/web:1", "registry/web@sha256:1"], "sizeBytes": 5}


def build_node(name: str, *images: Json) -> Json:
    status = {"capacity": {"cpu": "4"}, "declaredFeatures": ["A"], "images": [*images]}
    return {"metadata": {"name": name, "labels": {"zone": "a"}}, "spec": {"unschedulable": True}, "status": status}


def read_nodes(*items: Json) -> list[api.Node]:
    data = json.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}).encode()
    head, collector = match_list_head(data), Collector()
    assert head is not None
    ListReader(data, head, Reader("-", io.BytesIO()), collector, Place("-")).read_list()
    return list(collector.objects["Node"])


def test_nodes_share_decoded_images() -> None:
    first, second, third = read_nodes(build_node("a", WEB), build_node("b", {"names": ["other"]}, WEB), build_node("c"))
    image = api.ContainerImage(("registry/web:1", "registry/web@sha256:1"), 5)
    assert first.status.images == (image,)
    assert second.status.images == (api.ContainerImage(("other",)), image)
    assert second.status.images[1] is first.status.images[0]
    assert third == api.Node(
        api.ObjectMeta("c", labels={"zone": "a"}),
        api.NodeSpec(unschedulable=True),
        api.NodeStatus(capacity={"cpu": "4"}, declared_features=("A",)),
    )


def test_invalid_image_is_reported() -> None:
    with pytest.raises(InputError, match=r"status\.images\[1\]\.sizeBytes"):
        read_nodes(build_node("a", WEB), build_node("b", WEB, {"names": ["x"], "sizeBytes": "large"}))
