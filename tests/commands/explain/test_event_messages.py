"""Check that ``message`` is kube-scheduler's own, also for failed cycles, and empty for pods that are held back."""

from __future__ import annotations

import json

from command_line import Json, Run, Write, build_node, build_pod


def explain_as_json(run: Run, cluster: str, *options: str) -> Json:
    document: Json = json.loads(run("explain", "p", "-f", cluster, "--assume-complete", "-o", "json", *options).out)
    return document


def test_pod_that_waits_for_its_claim_has_no_event(run: Run, write: Write) -> None:
    claims = [{"name": "d", "resourceClaimTemplateName": "t"}]
    found = explain_as_json(run, write(build_node("w1"), build_pod("p", resourceClaims=claims)))
    assert (found["verdict"], found["message"]) == ("Gated", None)
    gated = explain_as_json(run, write(build_node("w1"), build_pod("p", "99", schedulingGates=[{"name": "g"}])))
    assert (gated["verdict"], gated["message"]) == ("Gated", None)


def test_error_is_the_message_of_the_event(run: Run, write: Write) -> None:
    wrong = {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["x"]}]}
    preferred = [{"weight": 1, "preference": wrong}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    found = explain_as_json(run, write(build_node("w1"), build_node("w2"), build_pod("p", affinity=affinity)))
    assert found["verdict"] == "Error"
    assert found["message"].startswith('running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: ')
