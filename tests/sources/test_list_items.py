"""Check that pods of one template are decoded once in lists."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kschedctl.sources.collector import Collector
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.place import Place
from kschedctl.sources.json_lists import ListReader, match_list_head
from kschedctl.sources.list_items import PodItems

Json = dict[str, Any]


def build_pod(name: str, *volumes: Json) -> Json:
    access = {"name": f"kube-api-access-{name}", "projected": {"sources": [{"downwardAPI": {"items": []}}]}}
    metadata = {"name": name, "namespace": "a", "uid": name}
    return {"metadata": metadata, "spec": {"volumes": [*volumes, access]}, "status": {}}


@pytest.mark.parametrize("volume", [None, {"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/x"}}])
def test_unread_volumes_do_not_separate_templates(volume: Json | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server generates their names, so they differ between pods."""
    decoded = 0
    new = PodItems._add_template

    def counted(self: PodItems, *args: Any, **keywords: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return new(self, *args, **keywords)

    monkeypatch.setattr(PodItems, "_add_template", counted)
    pods = [build_pod(f"p{i}", *([volume] if volume else [])) for i in range(50)]
    data = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).encode()
    head, collector = match_list_head(data), Collector()
    assert head is not None
    ListReader(data, head, Reader("-", io.BytesIO()), collector, Place("-")).read_list()
    found = collector.objects["Pod"]
    assert (len(found), decoded) == (50, 1)
    assert {len(each.spec.volumes) for each in found} == {0 if volume is None else 1}
