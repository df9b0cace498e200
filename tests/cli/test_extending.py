"""Extenders on the command line: asked when that is wanted, their answers kept, and taken from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, Write, node, pod
from extender_server import extender

Json = dict[str, Any]
SCRIPT = {"filter": {"refuse": {"n1": "GPU memory is full"}}, "prioritize": {"scores": {"n2": 1, "n3": 9}}}


@pytest.fixture
def cluster(write: Write) -> str:
    return write(node("n1"), node("n2"), node("n3"), pod("web"), pod("other"))


def config(tmp_path: Path, url: str) -> str:
    file = tmp_path / "config.json"
    made = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, "extenders": [{**made, "nodeCacheCapable": True}]}))
    return str(file)


def test_asked_recorded_and_answered_again(run: Run, cluster: str, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    with extender(script=SCRIPT) as server:
        common = ["explain", "web", "-f", cluster, "--config", config(tmp_path, server.url)]
        unasked = run(*common)
        assert server.requests == []
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    again = run(*common, "--extender-answers", said)
    assert (unasked.code, asked.code) == (5, 0)
    assert "unless extenders say otherwise" in unasked.out
    assert "would be scheduled: node n3, of 2 that fit" in asked.out
    assert "refuses n1: GPU memory is full" in asked.out
    assert again == asked


def test_each_pending_pod_is_asked_about(run: Run, cluster: str, tmp_path: Path) -> None:
    with extender(script=SCRIPT) as server:
        found = run("explain", "-A", "-f", cluster, "--config", config(tmp_path, server.url), "--call-extenders")
    assert found.code == 0
    asked = [payload["Pod"]["metadata"]["name"] for path, _, payload in server.requests if path == "/filter"]
    assert sorted(asked) == ["other", "web"]


def test_an_answer_that_is_not_in_the_file_is_not_known(run: Run, cluster: str, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    with extender(script=SCRIPT) as server:
        common = ["-f", cluster, "--config", config(tmp_path, server.url)]
        run("explain", "web", *common, "--call-extenders", "--record-extenders", said)
        found = run("explain", "other", *common, "--extender-answers", said)
    assert found.code == 5
    assert "has no answer to" in " ".join(found.out.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--record-extenders", "said.json"], "--record-extenders needs --call-extenders"),
        (["--call-extenders", "--extender-answers", "said.json"], "are two sources"),
        (["--extender-answers", "/nowhere/said.json"], "/nowhere/said.json"),
        (["--call-extenders", "--record-extenders", "/nowhere/said.json"], "no such folder"),
    ],
    ids=["nothing to record", "two sources", "no answers", "no folder"],
)
def test_options_that_make_no_sense(run: Run, cluster: str, options: list[str], words: str) -> None:
    found = run("explain", "web", "-f", cluster, *options)
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) == 1


def test_words_of_an_extender_are_shown_harmless(run: Run, cluster: str, tmp_path: Path) -> None:
    refuse = dict.fromkeys(("n1", "n2", "n3"), "\x1b[2Jfull\nof it")
    with extender(script={"filter": {"refuse": refuse}}) as server:
        found = run("explain", "web", "-f", cluster, "--config", config(tmp_path, server.url), "--call-extenders")
    assert found.code == 1
    assert "\x1b" not in found.out


def test_simulations_are_replayed_from_what_was_recorded(run: Run, cluster: str, write: Write, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    manifest = write({**pod("new"), "apiVersion": "v1"}, name="new.json", whole=False)
    with extender(script=SCRIPT) as server:
        common = ["simulate", "-f", cluster, "-f", manifest, "--config", config(tmp_path, server.url), "--pending"]
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    again = run(*common, "--extender-answers", said)
    assert asked.code == 0
    assert "extenders answer for the cluster as they know it" in " ".join(asked.out.split())
    assert again == asked
    assert run(*common).code == 5
