"""Check the first reading of a process, in which threads decode the same structs at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from api_server import Response, replay_response, serve_api, write_kubeconfig

STARTS = """
import os, sys
import kubernetes
import kschedctl.commands.explain.one_pod, kschedctl.commands.provision, kschedctl.commands.scale
import kschedctl.sources.live.connection, kschedctl.sources.live.reading

def start():
    child = os.fork()
    if child:
        return child
    try:
        sys.setswitchinterval(1e-6)
        os._exit(0 if len(kschedctl.Cluster.from_live().nodes) == 2 else 1)
    except BaseException as error:
        print(error)
        os._exit(2)

left, running, codes = int(sys.argv[1]), 0, []
while left or running:
    while left and running < 4:
        start()
        left, running = left - 1, running + 1
    codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
    running -= 1
print(sorted(codes))
"""
"""A process that has imported everything and decoded nothing is forked again and again: each reads for the first time,
and its threads take turns a thousand times as often as they would."""


@cache
def answer_two_of_each(path: str) -> Response | None:
    """Return the recorded list with only two objects."""
    found = replay_response(path, {})
    document = json.loads(found.body) if found and found.body.startswith(b"{") else {}
    if found is None or "items" not in document:
        return found
    return replace(found, body=json.dumps(document | {"items": document["items"][:2]}).encode())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a start takes a second where processes are not forked")
def test_fifty_first_readings_succeed(tmp_path: Path) -> None:
    with serve_api(
        lambda path, query: replay_response(path, query) if "watch" in query else answer_two_of_each(path)
    ) as api:
        environment = {**os.environ, "KUBECONFIG": write_kubeconfig(api.url, tmp_path / "config")}
        command = [sys.executable, "-c", STARTS, "50"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == (f"{[0] * 50}\n", "")
