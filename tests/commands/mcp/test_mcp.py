"""Drive ``kschedctl mcp`` with the SDK's own client: in this process, over standard streams, over HTTP."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import Run
from commands.provision.test_karpenter_commands import find_smallest_case, write_case_files

import kschedctl
from kschedctl import demo
from kschedctl.cli.options import Source
from kschedctl.commands.mcp.command import ServedCluster
from kschedctl.commands.schema import build_schema
from kschedctl.reports.summary import MOST_BYTES, Summary
from kschedctl.sources.cluster import Cluster

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import anyio
import mcp

from kschedctl.commands.mcp import server as serving
from kschedctl.commands.mcp.tools import TOOLS, Tool, ToolCall

PENDING, NODE = "shop/web-6d4cf56db6-h8s2k", "general-a1"
REFUSED, ZONE = "shop/checkout-7d9f6c5b8-x2x4q", "topology.kubernetes.io/zone"
WEB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "new", "namespace": "shop"},
    "spec": {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "300m"}}}]},
}
EVENT = {"action": "Add", "new": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n9"}}}
STEPS = {"steps": [{"cordon": {"nodes": [NODE]}}]}
COMMANDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "explain_pod": ({"pod": PENDING}, ["explain", PENDING]),
    "list_pending_pods": ({}, ["explain", "-A"]),
    "find_remedies": ({"pod": PENDING}, ["remedies", PENDING]),
    "what_wakes_pod": ({"pod": PENDING}, ["wakes", PENDING]),
    "simulate_apply": ({"manifests": [WEB]}, ["simulate", "-f", "WEB"]),
    "capacity_left": ({"manifests": [WEB], "most": 3}, ["capacity", "-f", "WEB", "--max", "3"]),
    "simulate_drain": ({"nodes": [NODE]}, ["drain", NODE]),
    "simulate_failures": ({"unit": "node"}, ["failures", "--nodes"]),
    "simulate_changes": ({"scenario": STEPS}, ["whatif", json.dumps(STEPS)]),
    "audit_cluster": ({"sections": ["pending"]}, ["audit", "--section", "pending"]),
    "list_node_pools": ({}, ["pools"]),
    "make_room": ({"pod": REFUSED}, ["make-room", REFUSED]),
    "consolidate_nodes": ({"keep_zone_loss": True}, ["consolidate", "--keep-zone-loss"]),
    "clear_pending_pods": ({"namespace": "shop"}, ["remedies", "-n", "shop"]),
    "changes_that_wake": ({"changes": [EVENT]}, ["wakes", "-A", "--event", "EVENT"]),
    "size_nodes": ({"by_nodes": True, "manifests": [WEB]}, ["size", "--by-nodes", "-f", "WEB"]),
    "rebalance_pods": ({}, ["rebalance"]),
    "scale_up": ({"pool_label": ZONE}, ["scale", "up", "--pool-label", ZONE]),
    "scale_down": ({"pool_label": ZONE}, ["scale", "down", "--pool-label", ZONE]),
}
"""Tool -> arguments, and the command that says the same; check_manifest has none, and lint no summary."""
OTHERS = {"check_manifest", "lint_cluster", "provision_nodes", "disrupt_nodes"}


def run_client(work: Callable[[Any], Awaitable[Any]], server: Any = None) -> Any:
    """Return the result of work with a client of a server on the demo."""
    protocol = (server or serving.McpServer(ServedCluster(Source(demo=True)))).protocol

    async def run() -> Any:
        async with mcp.Client(protocol) as client:
            return await work(client)

    return anyio.run(run)


def test_tools_are_read_only_and_have_input_and_output_schemas() -> None:
    tools = run_client(lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert {*COMMANDS, *OTHERS} == {tool.name for tool in tools}
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert tool.annotations.idempotent_hint
        assert not tool.annotations.destructive_hint
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


@pytest.mark.parametrize("name", COMMANDS)
def test_tool_gives_the_answer_of_its_command(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, command = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    Path("WEB").write_text(json.dumps(WEB))
    Path("EVENT").write_text(json.dumps(EVENT))
    expected = json.loads(run(*command, "--demo", "-o", "json", "--summary").out)
    answer = run_client(lambda client: client.call_tool(name, arguments))
    assert not answer.is_error
    assert answer.structured_content == {**expected, "next": []}  # which are command lines, and there is no shell
    told, link = answer.content
    assert told.text == f"{serving.DATA_NOTE}\n{json.dumps(answer.structured_content, ensure_ascii=False)}"
    assert link.uri.startswith("kschedctl://answers/")


KARPENTERS = {
    "provision_nodes": ("provisioning", "newNodeClaims", ["provision"]),
    "disrupt_nodes": ("disruption", "single", ["consolidate", "--autoscaler", "karpenter"]),
}


@pytest.mark.parametrize("name", KARPENTERS)
def test_karpenter_tool(name: str, run: Run, tmp_path: Path) -> None:
    family, wanted, command = KARPENTERS[name]
    given = find_smallest_case(family, wanted)["input"]
    options = write_case_files(tmp_path, given)
    expected = json.loads(run(*command, *options, "-o", "json", "--summary").out)
    server = serving.McpServer(ServedCluster(Source(filename=[options[1]], assume_complete=True)))
    arguments = {"instance_types": given["instanceTypes"]}
    answer = run_client(lambda client: client.call_tool(name, arguments), server)
    assert not answer.is_error, answer.content[0].text
    assert answer.structured_content == {**expected, "next": []}


def test_help_names_all_tools() -> None:
    text = (Path(kschedctl.__file__).parent / "cli/topics/mcp.md").read_text()
    assert {tool.name for tool in TOOLS} <= set(re.findall(r"`(\w+)`", text))


def test_link_leads_to_the_full_document(run: Run) -> None:
    async def work(client: Any) -> Any:
        answer = await client.call_tool("simulate_drain", {"nodes": [NODE]})
        listed = await client.list_resources()
        assert [resource.uri for resource in listed.resources] == [answer.content[1].uri]
        return await client.read_resource(answer.content[1].uri)

    (contents,) = run_client(work).contents
    assert contents.text == run("drain", NODE, "--demo", "-o", "json").out


def test_only_the_latest_documents_are_kept() -> None:
    async def work(client: Any) -> Any:
        uris = [
            (await client.call_tool("list_node_pools", {})).content[1].uri for _ in range(serving.MAX_DOCUMENTS + 1)
        ]
        assert len((await client.list_resources()).resources) == serving.MAX_DOCUMENTS
        with pytest.raises(mcp.MCPError, match="is not kept any more"):
            await client.read_resource(uris[0])
        return await client.read_resource(uris[1])

    assert run_client(work).contents


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("explain_pod", {"pod": "shop/none"}, 'error: pod "shop/none" not found'),
        ("explain_pod", {}, "error: give one of pod and manifest"),
        ("explain_pod", {"manifest": {**WEB, "metadata": {"name": "Web"}}}, 'The Pod "Web" is invalid: metadata.name'),
        ("simulate_drain", {"nodes": ["none"]}, "none"),
        ("provision_nodes", {}, "error: the cluster has no Karpenter NodePools"),
        ("disrupt_nodes", {"instance_types": []}, "error: the cluster has no Karpenter NodePools"),
        ("make_room", {"pod": f"shop/{NODE}"}, "not found"),
        ("consolidate_nodes", {"headroom_percent": 100}, "$.headroom_percent"),
        ("simulate_drain", {"nodes": NODE}, "error: simulate_drain: $.nodes: 'general-a1' is not of type 'array'"),
        ("simulate_drain", {"nodes": [NODE], "force": True}, "'force' was unexpected"),
        ("delete_pod", {}, 'error: no tool "delete_pod": there are explain_pod, '),
    ],
)
def test_error_suggests_another_question(name: str, arguments: dict[str, Any], words: str) -> None:
    answer = run_client(lambda client: client.call_tool(name, arguments))
    assert answer.is_error
    assert words in answer.content[0].text
    assert "\n" not in answer.content[0].text


def build_large_cluster() -> Cluster:
    """Build a cluster of 2,000 nodes that each reject a pod for another amount."""
    nodes = [
        {
            "kind": "Node",
            "metadata": {
                "name": f"node-{i:04}.eu-west-1.compute.internal",
                "labels": {"topology.kubernetes.io/zone": f"zone-{i % 3}"},
            },
            "status": {"allocatable": {"cpu": f"{1000 + i}m", "pods": "110"}},
        }
        for i in range(2_000)
    ]
    requests = {"resources": {"requests": {"cpu": "64"}}}
    pod = {**WEB, "spec": {"containers": [{"name": "c", "image": "web", **requests}]}}
    return Cluster.from_objects([*nodes, pod])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a server on a snapshot of the large cluster, read once."""
    file = str(tmp_path_factory.mktemp("large") / "large.ksnap")
    build_large_cluster().save(file)
    return serving.McpServer(ServedCluster(Source(snapshot=[file])))


OF_LARGE = {name: arguments for name, (arguments, _) in COMMANDS.items()} | {
    "explain_pod": {"pod": "shop/new"},
    "find_remedies": {"pod": "shop/new"},
    "what_wakes_pod": {"pod": "shop/new"},
    "simulate_drain": {"nodes": ["node-0000.eu-west-1.compute.internal"]},
    "simulate_failures": {"unit": "zone"},
    "make_room": {"pod": "shop/new"},
    "simulate_changes": {"scenario": {"steps": [{"cordon": {"nodes": ["node-0000.eu-west-1.compute.internal"]}}]}},
    "check_manifest": {"manifest": WEB},
    "lint_cluster": {},
}


@pytest.mark.parametrize("name", OF_LARGE)
def test_answers_about_thousands_of_nodes_are_small(name: str, large: Any) -> None:
    answer = run_client(lambda client: client.call_tool(name, OF_LARGE[name]), large)
    assert not answer.is_error, answer.content[0].text
    assert len(json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":")).encode()) <= MOST_BYTES
    jsonschema.validate(answer.structured_content, build_schema(Summary))


def test_causes_with_thousands_of_nodes_are_short(large: Any) -> None:
    answer = run_client(lambda client: client.call_tool("explain_pod", {"pod": "shop/new"}), large)
    (cause,) = answer.structured_content["causes"]
    assert (cause["reason"], cause["nodes"]) == ("Insufficient cpu", 2_000)


def test_progress_is_reported() -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(done: float, total: float | None, what: str | None) -> None:
        heard.append((done, total, what))

    run_client(lambda client: client.call_tool("simulate_failures", {"unit": "node"}, progress_callback=hear))
    counts = [done for done, _, _ in heard]
    assert counts[0] == 0
    assert counts == sorted(counts)
    nodes = len(Cluster.from_paths(list(demo.list_files())).nodes)
    assert counts[-1] > nodes  # their pods count as well
    assert {(total, what) for _, total, what in heard} == {(counts[-1], "Rescheduling pods")}


@pytest.mark.parametrize("tells", [True, False])
def test_disconnected_client_stops_the_answer(tells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds for tools that do not report progress."""
    began, ended = threading.Event(), threading.Event()

    def endless(asked: ToolCall, arguments: Any) -> Any:
        done = asked.progress.begin("endless", 0)
        try:
            while True:
                began.set()
                if tells:
                    done(1)
                time.sleep(0.001)
        finally:
            ended.set()

    tool = Tool("endless", "", "", {}, endless)
    monkeypatch.setattr(serving, "TOOLS", (*TOOLS, tool))

    async def work(client: Any) -> Any:
        with anyio.move_on_after(180) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "endless", {})
                assert await anyio.to_thread.run_sync(began.wait, 60)
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert await anyio.to_thread.run_sync(ended.wait, 60)
        return await client.call_tool("list_node_pools", {})

    assert not run_client(work).is_error


def test_stopping_finished_or_pending_work_has_no_effect() -> None:
    report = Cluster.from_objects([])
    over = serving.StoppableWork(lambda: report)  # type: ignore[arg-type, return-value]
    assert over() is report
    over.stop()
    assert sum(range(1000)) == 499_500  # nothing is raised in this thread
    with pytest.raises(serving.StoppedAnswerError):
        over()


def test_prompts_name_existing_tools() -> None:
    async def work(client: Any) -> Any:
        prompts = (await client.list_prompts()).prompts
        pending = await client.get_prompt("why_is_this_pending", {"pod": PENDING})
        safe = await client.get_prompt("is_this_safe_to_deploy", {"manifests": "kind: {Pod}"})
        with pytest.raises(mcp.MCPError, match="why_is_this_pending"):
            await client.get_prompt("why_is_this_pending", {})
        return prompts, pending.messages[0].content.text, safe.messages[0].content.text

    prompts, pending, safe = run_client(work)
    assert [prompt.title for prompt in prompts] == ["Why is this pod pending?", "Is this safe to deploy?"]
    assert PENDING in pending
    assert safe.endswith("\n\nkind: {Pod}")
    named = {word.strip(".,") for word in f"{pending} {safe}".split() if "_" in word}
    assert named <= {tool.name for tool in TOOLS}


def test_over_standard_streams() -> None:
    command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "kschedctl", "mcp", "--demo"])

    async def run() -> Any:
        async with mcp.Client(command) as client:
            return await client.call_tool("explain_pod", {"pod": PENDING})

    assert anyio.run(run).structured_content["subject"] == PENDING


TOKEN = "a token"


@pytest.fixture
def address() -> Iterator[str]:
    """Run a server over HTTP and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "kschedctl", "mcp", "--demo", "--http", where]
    process = subprocess.Popen(command, env={**os.environ, "KSCHEDCTL_MCP_TOKEN": TOKEN})
    try:
        for _ in range(200):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", int(where.rpartition(":")[2]))) == 0:
                    break
            time.sleep(0.1)
        yield f"http://{where}/mcp"
    finally:
        process.terminate()
        process.wait(60)


def test_http_requires_the_token(address: str) -> None:
    for headers in ({}, {"Authorization": "Bearer another"}):
        request = urllib.request.Request(address, b"{}", {"Content-Type": "application/json", **headers})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code == 401

    async def run() -> Any:
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client  # noqa: PLC0415

        async with (
            create_mcp_http_client({"Authorization": f"Bearer {TOKEN}"}) as http,
            mcp.Client(streamable_http_client(address, http_client=http)) as client,
        ):
            return await client.call_tool("explain_pod", {"pod": PENDING})

    assert anyio.run(run).structured_content["subject"] == PENDING


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--http", "127.0.0.1:8000"), "--http needs a token"),
        (("--http", "8000"), "--http 8000: not HOST:PORT"),
        (("--http", "127.0.0.1:8000", "--token-file", "none"), "none"),
    ],
)
def test_invalid_options_are_errors(
    run: Run, options: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KSCHEDCTL_MCP_TOKEN", raising=False)
    outcome = run("mcp", "--demo", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
