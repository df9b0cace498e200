"""Check which lists reveal pods that could not be created, and missing rights to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import Answer, Response, answer_path, build_status, replay_response, serve_api, write_kubeconfig
from failed_creations import build_objects, get_case
from live_fixtures import nobody  # noqa: F401 - a fixture

from kschedctl.api.events import FAILURE_SOURCES
from kschedctl.api.kinds import KINDS
from kschedctl.cli.main import main
from kschedctl.cluster import LIMITS
from kschedctl.sources.live.lists import iter_list_paths

Json = dict[str, Any]
QUOTA = get_case(1)
RUN = ("explain", "deploy/web", "-n", "adm-rs-01")
RIGHTS = Path(__file__).parents[3] / "kschedctl/cli/topics/rights.md"


def answer_with_list(kind: str, items: list[Json]) -> Answer:
    """Answer with a list of these items."""
    document = {"kind": f"{kind}List", "apiVersion": KINDS[kind].versions[0], "metadata": {"resourceVersion": "7"}}
    return answer_path(next(iter_list_paths(kind)), Response(body=json.dumps({**document, "items": items}).encode()))


def answer_cluster(**others: Answer) -> list[Answer]:
    """Answer like the recorded cluster, with these kinds taken from the case."""
    documents = build_objects(QUOTA, replicas=3)
    own = {kind: [each for each in documents if each["kind"] == kind] for kind in (*FAILURE_SOURCES, *LIMITS)}
    return [*others.values(), *(answer_with_list(kind, items) for kind, items in own.items())]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, list[str]]]:
    """Return a function that runs a command and returns its exit code, its output and the requested paths."""

    def run(*arguments: str, answers: list[Answer]) -> tuple[int, str, list[str]]:
        with serve_api(*answers, replay_response) as api:
            monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
            code = main(list(arguments))
            return code, capsys.readouterr().out, [f"{path}?{query}" for _, path, query in api.requests]

    return run


def test_failed_creations_are_reported(run: Any) -> None:
    for arguments in (RUN, ("explain", "-n", "adm-rs-01"), ("explain", "-A")):
        code, out, asked = run(*arguments, answers=answer_cluster())
        assert code == 1
        assert "3 of 3 pods: exceeded quota" in " ".join(out.split())
        assert "incomplete: " not in out
        (events,) = [each for each in asked if each.startswith("/api/v1/events?")]
        assert "reason=FailedCreate" in events or "reason%3DFailedCreate" in events  # not all that a cluster has


def test_explaining_one_pod_reads_no_workloads(run: Any) -> None:
    _, _, asked = run("explain", "lab/p01-cpu", answers=answer_cluster())
    assert not [each for each in asked if re.search(r"/(events|deployments|jobs|resourcequotas)\?", each)]


@pytest.mark.parametrize("kind", ["Event", "Deployment"])
def test_forbidden_lists_are_named(run: Any, kind: str) -> None:
    refused = build_status(403, f"{KINDS[kind].plural} is forbidden")
    everywhere, namespaced = next(iter_list_paths(kind)), next(iter_list_paths(kind, "adm-rs-01"))
    answers = answer_cluster(first=answer_path(everywhere, refused), second=answer_path(namespaced, refused))
    code, out, _ = run(*RUN, answers=answers)
    assert code == 1  # the ReplicaSet's condition tells it
    assert f"{kind}s could not be read: {KINDS[kind].plural} is forbidden" in " ".join(out.split())


def test_documented_rights_cover_all_kinds() -> None:
    """The documented ClusterRole is compared with the kinds by group and resource."""
    (rights,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", RIGHTS.read_text(), re.DOTALL)
    role = next(each for each in yaml.safe_load_all(rights) if each["kind"] == "ClusterRole")
    allowed = {(g, r) for rule in role["rules"] for g in rule["apiGroups"] for r in rule["resources"]}
    assert {(kind.versions[0].rpartition("/")[0], kind.plural) for kind in KINDS.values()} - allowed == NOT_ALWAYS


NOT_ALWAYS = {("topology.node.k8s.io", "noderesourcetopologies"), ("files.kschedctl.dev", "customresources")}
"""Kinds of clusters with certain plugins, and custom resources of other kinds, which are read only from files."""
