"""Extenders that answer by a script, like those of the golden cases."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


class ScriptedExtenders:
    """Scripted answers by URL. ``calls`` records the requests in the form of kube-scheduler's recorded calls."""

    def __init__(self, scripts: dict[str, Json]) -> None:
        self.scripts = scripts
        self.calls: list[Json] = []

    def __call__(self, extender: Json, verb: str, payload: Json) -> tuple[int, Any]:
        sent = json.loads(json.dumps(payload))
        url = extender["urlPrefix"]
        call = {
            "extender": url,
            "verb": verb,
            "nodes": sorted(get_asked_nodes(verb, sent)),
            "full": bool(sent.get("Nodes")),
        }
        self.calls.append(call)
        return answer(self.scripts[url].get(verb), verb, sent)


def get_asked_nodes(verb: str, payload: Json) -> Json:
    """Return the nodes of a payload by name: with the whole node, None for names only, or the node's MetaVictims."""
    if verb == "preempt":
        whole = payload.get("NodeNameToVictims") or {}
        return {node: _build_meta_victims(victims) for node, victims in whole.items()} | (
            payload.get("NodeNameToMetaVictims") or {}
        )
    if payload.get("Nodes"):
        return {node["metadata"]["name"]: node for node in payload["Nodes"]["items"]}
    return dict.fromkeys(payload["NodeNames"])


def answer(script: Json | None, verb: str, payload: Json) -> tuple[int, Any]:
    """Return the HTTP status and the body of the scripted answer. Without a script, the status is 404."""
    if script is None:
        return 404, None
    if script.get("status"):
        return script["status"], None
    nodes = get_asked_nodes(verb, payload)
    match verb:
        case "filter":
            return 200, _filter_nodes(script, nodes, whole=bool(payload.get("Nodes")))
        case "prioritize":
            scores = script.get("scores") or {}
            return 200, [{"Host": node, "Score": scores[node]} for node in nodes if node in scores]
    removed = script.get("remove") or ()
    return 200, {"NodeNameToMetaVictims": {node: found for node, found in nodes.items() if node not in removed}}


def _filter_nodes(script: Json, nodes: Json, *, whole: bool) -> Json:
    """Return the filter result of the script."""
    refused, never = script.get("refuse") or {}, script.get("unresolvable") or {}
    gone = {*refused, *never, *(script.get("drop") or ())}
    left = [node for node in nodes if node not in gone] + (script.get("ghost") or [])
    items = [nodes.get(node) or {"metadata": {"name": node}} for node in left]
    null = script.get("null")
    return {
        "Nodes": {"metadata": {}, "items": items or None} if whole and not null else None,
        "NodeNames": None if whole or null else left,
        "FailedNodes": {node: why for node, why in refused.items() if node in nodes},
        "FailedAndUnresolvableNodes": {node: why for node, why in never.items() if node in nodes},
        "Error": script.get("error", ""),
    }


def _build_meta_victims(victims: Json) -> Json:
    """Return the victims as MetaVictims."""
    pods = [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]
    return {"Pods": pods, "NumPDBViolations": victims["NumPDBViolations"]}
