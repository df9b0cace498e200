"""Check the MCP server on a live cluster: its answers, when it reads again, and denied requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiServer, get_recorded_error, replay_response, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.cli.main import main
from kschedctl.cli.options import Source
from kschedctl.commands.mcp import command
from kschedctl.sources.live import http as live_http

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import anyio
import mcp

from kschedctl.commands.mcp.server import McpServer

ALL_PODS = "/api/v1/pods?limit=500"
ASKED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "explain_pod": ({"pod": "lab/p01-cpu"}, ["explain", "lab/p01-cpu"]),
    "find_remedies": ({"pod": "lab/p01-cpu"}, ["remedies", "lab/p01-cpu"]),
    "simulate_drain": ({"nodes": ["w1"]}, ["drain", "w1"]),
    "list_node_pools": ({}, ["pools"]),
}
"""Tool -> its arguments, and the equivalent command."""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Run a server that answers as a real one did."""
    with serve_api(replay_response) as there:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(there.url, tmp_path / "config"))
        yield there
        assert {method for method, _, _ in there.requests} <= {"GET"}


def call_in_turn(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return the answers of one server to calls in turn."""

    async def run() -> list[Any]:
        async with mcp.Client(McpServer(command.ServedCluster(Source())).protocol) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(run)


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("name", ASKED)
def test_tool_answers_like_its_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = ASKED[name]
    assert main([*words, "-o", "json", "--summary"]) in (0, 1, 5)
    expected = json.loads(capsys.readouterr().out)
    (answer,) = call_in_turn((name, arguments))
    assert not answer.is_error, answer.content[0].text
    assert answer.structured_content == {**expected, "next": []}


@pytest.mark.parametrize(("seconds", "readings"), [(1000, 1), (-1, 2)])
def test_cluster_is_read_again_after_a_while(
    seconds: float, readings: int, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "REFRESH_SECONDS", seconds)
    call_in_turn(("list_node_pools", {}), ("list_node_pools", {}))
    assert [target for _, target, _ in api.requests].count(ALL_PODS) == readings


def test_denied_request_is_an_answer_and_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_http, "LONGEST_WAIT", 0.01)
    with serve_api(lambda *_: get_recorded_error("401-bad-token")) as there:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(there.url, tmp_path / "config"))
        for answer in call_in_turn(("list_pending_pods", {}), ("list_pending_pods", {})):
            assert answer.is_error
            assert "does not accept these credentials: Unauthorized" in answer.content[0].text
            assert "\n" not in answer.content[0].text
