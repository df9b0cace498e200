"""Check that answers of extenders are recorded and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kschedctl.errors import InputError
from kschedctl.scheduler.engine.extenders import ExtenderError, UnknownAnswerError
from kschedctl.sources.extender_recording import RecordedAnswers, Recorder

Json = dict[str, Any]
EXTENDER = {"urlPrefix": "https://me:hunter2@x.example/a?token=hunter2", "tlsConfig": {"keyData": "aHVudGVyMg=="}}


def build_payload(cpu: str = "1", *nodes: str, **metadata: str) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    pod = {"metadata": {"name": "web", "namespace": "shop", **metadata}, "spec": {"containers": containers}}
    return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes or ("n1", "n2"))}


def write_recording(path: Path, *given: Any) -> str:
    """Write a recording with these answers, each to one call."""
    left = list(given)

    def call(extender: Json, verb: str, asked: Json) -> tuple[int, Any]:
        if isinstance(left[0], Exception):
            raise left.pop(0)
        return left.pop(0)

    recorder = Recorder(call)
    for _ in given:
        try:
            recorder(EXTENDER, "filter", build_payload())
        except (ExtenderError, UnknownAnswerError):
            continue
    recorder.write(str(path))
    return str(path)


def test_same_request_gets_the_recorded_answer(tmp_path: Path) -> None:
    given = (200, {"NodeNames": ["n1"]})
    answers = RecordedAnswers.read(write_recording(tmp_path / "said.json", given))
    again = [
        build_payload(),
        build_payload("1", "n2", "n1"),
        build_payload(uid="other", creationTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert [answers(EXTENDER, "filter", asked) for asked in again] == [given] * 3


@pytest.mark.parametrize(
    ("verb", "asked"),
    [("prioritize", build_payload()), ("filter", build_payload("2")), ("filter", build_payload("1", "n1"))],
    ids=["another verb", "another pod", "other nodes"],
)
def test_other_request_has_no_recorded_answer(tmp_path: Path, verb: str, asked: Json) -> None:
    answers = RecordedAnswers.read(write_recording(tmp_path / "said.json", (200, {"NodeNames": ["n1"]})))
    with pytest.raises(UnknownAnswerError, match=r"said\.json does not answer"):
        answers(EXTENDER, verb, asked)


def test_several_answers_are_replayed_in_order(tmp_path: Path) -> None:
    file = write_recording(tmp_path / "said.json", (200, ["first"]), ExtenderError("failed"), (503, None))
    answers = RecordedAnswers.read(file)
    assert answers(EXTENDER, "filter", build_payload()) == (200, ["first"])
    with pytest.raises(ExtenderError, match="failed"):
        answers(EXTENDER, "filter", build_payload())
    assert answers(EXTENDER, "filter", build_payload()) == (503, None)
    with pytest.raises(UnknownAnswerError):
        answers(EXTENDER, "filter", build_payload())


def test_failed_calls_and_secrets_are_not_recorded(tmp_path: Path) -> None:
    file = write_recording(tmp_path / "said.json", UnknownAnswerError("were not reached"), (200, None))
    text = Path(file).read_text()
    (kept,) = json.loads(text)["answers"]
    assert (kept["extender"], kept["status"]) == ("https://x.example/a", 200)
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text


@pytest.mark.parametrize("text", ['{"kind": "List"}', "", '{"kind": "ExtenderAnswers", "answers": [1]}', "[1"])
def test_other_files_are_not_recordings(tmp_path: Path, text: str) -> None:
    file = tmp_path / "said.json"
    file.write_text(text)
    with pytest.raises(InputError):
        RecordedAnswers.read(str(file))
