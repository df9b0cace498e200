"""Check how Scheduled events and Bindings are parsed from printed forms: contents, order and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kschedctl.commands.simulate.stepwise import read_placements
from kschedctl.errors import InputError

Json = dict[str, Any]


def build_core_event(pod: str, node: str, time: str, **fields: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod}.1", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod},
        "reason": "Scheduled",
        "message": f"Successfully assigned shop/{pod} to {node}",
        "eventTime": time,
        "reportingComponent": "default-scheduler",
        **fields,
    }


def build_newer_event(pod: str, node: str, time: str) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod}.2", "namespace": "shop"},
        "regarding": {"kind": "Pod", "namespace": "shop", "name": pod},
        "reason": "Scheduled",
        "note": f"Successfully assigned shop/{pod} to {node}",
        "eventTime": time,
        "reportingController": "mine",
    }


def build_binding(pod: str, node: str, time: str) -> Json:
    metadata = {"name": pod, "namespace": "shop", "creationTimestamp": time}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}


def write_events(folder: Path, text: str) -> str:
    path = folder / "events"
    path.write_text(text)
    return str(path)


def build_list(*items: Json, kind: str = "List") -> Json:
    """Build a list of these items."""
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_events_are_parsed_in_order_of_time(tmp_path: Path, dump: Any) -> None:
    other = build_core_event("noise", "n1", "2026-01-01T00:00:00Z", reason="Pulled", message="Image already present")
    old = build_core_event("old", "n3", None, lastTimestamp="2026-01-01T00:00:03Z", reportingComponent="")
    old["source"] = {"component": "older"}
    events = [
        build_newer_event("b", "n2", "2026-01-01T00:00:02.000002Z"),
        other,
        old,
        build_core_event("a", "n1", "2026-01-01T00:00:02.000001Z"),
    ]
    found = read_placements(
        write_events(tmp_path, dump(build_list(*events, build_binding("c", "n4", "2026-01-01T00:00:01Z"))))
    )
    assert [(each.pod, each.node, each.scheduler) for each in found] == [
        ("shop/c", "n4", ""),
        ("shop/a", "n1", "default-scheduler"),
        ("shop/b", "n2", "mine"),
        ("shop/old", "n3", "older"),
    ]


def test_items_of_event_lists_need_no_kind(tmp_path: Path) -> None:
    event = {key: value for key, value in build_core_event("a", "n1", "2026-01-01T00:00:02Z").items() if key != "kind"}
    assert len(read_placements(write_events(tmp_path, json.dumps(build_list(event, kind="EventList"))))) == 1


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (build_list(), "no Scheduled event"),
        (build_list(build_core_event("a", "n1", "yesterday")), "'yesterday' is not a time"),
        (build_list(build_core_event("a", "n1", "", metadata={})), "the time at which shop/a was scheduled is missing"),
        (build_list(build_core_event("a\x1b[31m", "n1", "2026-01-01T00:00:02Z")), "is not a name"),
        ({"kind": "List", "items": {}}, "expected a list"),
        ({"kind": "List", "items": [3]}, "expected objects, got int"),
        (build_list({"kind": "Binding", "metadata": {"name": "a"}, "target": 3}), "node 'None' is not a name"),
    ],
)
def test_bad_events_are_one_line_errors(tmp_path: Path, document: Json, text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_placements(write_events(tmp_path, json.dumps(document)))
