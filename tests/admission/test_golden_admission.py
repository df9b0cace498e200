"""Compare admission with a real kube-apiserver on the golden cases, denials verbatim: see golden/README.md."""

from __future__ import annotations

import json

import pytest
from golden_cases import Json, iter_family_lines

import kschedctl
from kschedctl.api.component_flags import OPTIONAL_PLUGINS

SHARES = 4
KINDS = {"pod": ("v1", "Pod"), "pvc": ("v1", "PersistentVolumeClaim"), "object": ("", "")}


def admit_case_input(case: Json) -> Json:
    given = case["input"]
    key = next(key for key in KINDS if key in given)
    version, kind = KINDS[key]
    manifest = {**({"apiVersion": version, "kind": kind} if kind else {}), **given[key]}
    plugins = OPTIONAL_PLUGINS if case["stage"] == "opt" else ()
    cluster = kschedctl.Cluster.from_objects(given["objects"])
    return kschedctl.admit(cluster, manifest, namespace=given["namespace"], plugins=plugins).to_dict()


@pytest.mark.parametrize("share", range(SHARES))
def test_answers_equal_those_of_the_real_server(share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines("autoscaling/admission")[share::SHARES]]
    assert len(cases) >= 48
    for case in cases:
        assert agrees(case), case["id"]


def agrees(case: Json) -> bool:
    """Return whether we give one of the server's answers, and name the others if they differ in code or message."""
    got = admit_case_input(case)
    variants = case.get("variants", ())
    if not any(is_same(got, wanted) for wanted in (case["answer"], *variants)):
        return False
    if case["nondeterminism"] not in ("message", "code"):
        return True
    answers = [(each["code"], sort_bracketed_parts(each.get("message"))) for each in (got, *got["varies"])]
    return all((each["code"], sort_bracketed_parts(each.get("message"))) in answers for each in variants)


def is_same(got: Json, wanted: Json) -> bool:
    """Return whether two answers are equal, regardless of the order of several faults."""
    if (got["code"], got["allowed"], got["reason"]) != (wanted["code"], wanted["allowed"], wanted.get("reason")):
        return False
    if sort_bracketed_parts(got["message"]) != sort_bracketed_parts(wanted.get("message")):
        return False
    stored, real = got["object"] or {}, wanted.get("object") or {}
    return got["warnings"] == (wanted.get("warnings") or []) and drop_empty_parts(stored) == drop_empty_parts(real)


def sort_bracketed_parts(message: str | None) -> tuple[str, ...]:
    head, bracket, tail = (message or "").partition(": [")
    return (head, *sorted(tail.rstrip("]").split(", "))) if bracket else (head,)


def drop_empty_parts(value: object) -> object:
    """Return the value without empty parts."""
    if isinstance(value, dict):
        found = {name: drop_empty_parts(each) for name, each in value.items() if name != "tokenVolume"}
        return {name: each for name, each in found.items() if each is not False and each not in (None, [], {}, "")}
    return [drop_empty_parts(each) for each in value] if isinstance(value, list) else value


def test_admitting_twice_gives_the_same_answer() -> None:
    cases = [json.loads(line) for line in iter_family_lines("autoscaling/admission")]
    again = 0
    for case in cases:
        got = admit_case_input(case)
        if not got["allowed"] or "pod" not in case["input"] or case["stage"] == "opt" or got["varies"]:
            continue
        stored = {"apiVersion": "v1", "kind": "Pod", **{part: got["object"][part] for part in ("metadata", "spec")}}
        twice = admit_case_input({**case, "input": {**case["input"], "pod": stored}})
        assert twice["object"]["spec"] == got["object"]["spec"], case["id"]
        again += 1
    assert again > 40
