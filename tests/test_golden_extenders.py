"""Compare cycles with HTTP extenders with kube-scheduler: the calls and the results."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from golden_cases import iter_family_lines, list_differences
from scripted_extender import ScriptedExtenders

import kschedctl

Json = dict[str, Any]
SHARES = 5


@pytest.mark.parametrize("share", range(SHARES))
def test_extenders(share: int) -> None:
    wrong = {}
    for case in map(json.loads, iter_family_lines("over_time/extenders")[share::SHARES]):
        if found := list_differences(case["want"], format_answer(case)):
            wrong[case["id"]] = found[:8]
    assert not wrong


def format_answer(case: Json) -> Json:
    """Return our answer in the form of a case's `want`."""
    extenders = ScriptedExtenders(case["extenders"])
    try:
        cluster = kschedctl.Cluster.from_objects(
            case["objects"], config=case["config"], feature_gates=case.get("featureGates")
        )
        found = kschedctl.explain(cluster, case["pod"], call_extender=extenders).to_dict()
    except kschedctl.KschedctlError:
        return {"verdict": "Refused"}
    made = {key: value for key, value in found.items() if key in case["want"]}
    if "calls" in case["want"]:
        made["calls"] = sort_calls(found["calls"])
        assert sort_calls(extenders.calls) == made["calls"]
    for key in ("best", "feasible", "unschedulablePlugins"):
        made[key] = sorted(found[key])
    made["diagnosis"] = {node: sort_status_reasons(found["diagnosis"][node]) for node in found["diagnosis"]}
    if found["postFilter"]:
        made["postFilter"] = sort_status_reasons(found["postFilter"]["status"]) | {
            "nominated": found["postFilter"]["nominated"]
        }
    if found["preemption"]:
        made["preemption"] = summarize_preemption(found["preemption"])
    return made


def sort_status_reasons(found: Json) -> Json:
    """Return the status with sorted reasons, since their order is undefined."""
    reasons = (re.sub(r"\[(.*)\]", lambda m: ", ".join(sorted(m[1].split(", "))), r) for r in found["reasons"])
    return {"plugin": found["plugin"], "code": found["code"], "reasons": sorted(reasons)}


def sort_calls(calls: list[Json]) -> list[Json]:
    """Return the calls sorted by name, since calls for scores are concurrent."""
    plain = [{**call, "nodes": sorted(call["nodes"])} for call in calls]
    scores = sorted((call for call in plain if call["verb"] == "prioritize"), key=lambda call: call["extender"])
    rest = [call for call in plain if call["verb"] != "prioritize"]
    at = next((i for i, call in enumerate(plain) if call["verb"] == "prioritize"), len(plain))
    return [*rest[:at], *scores, *rest[at:]]


def summarize_preemption(found: Json) -> Json:
    candidates = {
        node: {"victims": each["victims"], "pdbViolations": each["pdbViolations"]}
        for node, each in found["candidates"].items()
    }
    return {"eligible": found["eligible"], "candidates": candidates, "tied": sorted(found["tied"])}
