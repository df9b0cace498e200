"""Check that API groups of job queues are requested first, then their objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_server import Answer, Response, answer_path, build_status, replay_response, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - a fixture

from kschedctl.api.kinds import KINDS
from kschedctl.cli.main import main
from kschedctl.sources.live.lists import iter_list_paths

NO_QUOTA = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no quota"}
WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "high", "namespace": "ai", "uid": "w1"},
    "status": {
        "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no quota"}]
    },
}


def answer_groups(*names: str) -> Answer:
    document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": name} for name in names]}
    return answer_path("/apis", Response(body=json.dumps(document).encode()))


def answer_with_list(kind: str, *items: dict[str, Any]) -> Answer:
    """Answer with a list of these items."""
    version, own = KINDS[kind].versions[0], KINDS[kind].kind
    document = {"kind": f"{own}List", "apiVersion": version, "metadata": {"resourceVersion": "7"}, "items": items}
    return answer_path(next(iter_list_paths(kind)), Response(body=json.dumps(document).encode()))


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, dict[str, Any], list[str]]]:
    """Return the exit code, the report and the paths that were asked for by ``explain -A -o json``."""

    def run(*answers: Answer) -> tuple[int, dict[str, Any], list[str]]:
        with serve_api(*answers, replay_response) as api:
            monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
            code = main(["explain", "-A", "-o", "json"])
            return code, json.loads(capsys.readouterr().out), [path for _, path, _ in api.requests]

    return run


def list_unknown_elsewhere(report: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in report["unknown"]} & {"KueueWorkload", "ClusterQueue", "Kafka", "VolcanoQueue"}


def test_unserved_groups_are_not_requested(run: Any) -> None:
    _, report, asked = run(answer_groups("apps", "batch"))
    assert not [path for path in asked if "kueue" in path or "strimzi" in path]
    assert list_unknown_elsewhere(report) == set()


def test_waiting_workload_is_read(run: Any) -> None:
    code, report, _ = run(answer_groups("kueue.x-k8s.io"), answer_with_list("KueueWorkload", WORKLOAD))
    (entry,) = report["waitingElsewhere"]
    assert (code, entry["resource"]) == (1, "Workload ai/high")
    assert entry["conditions"][0]["message"] == "no quota"


def test_forbidden_kind_is_unknown(run: Any) -> None:
    kinds = [
        path
        for kind in ("KueueWorkload",)
        for path in (next(iter_list_paths(kind)), next(iter_list_paths(kind, "default")))
    ]
    _, report, _ = run(
        answer_groups("kueue.x-k8s.io"), *(answer_path(path, build_status(403, "forbidden")) for path in kinds)
    )
    assert list_unknown_elsewhere(report) == {"KueueWorkload"}
