"""A kind that was not read: the answer is the one that would be given with it, or says that it leans on it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_cases import SETTINGS, family_lines
from unknown_kinds import check_not_another

import kschedctl
from kschedctl.cluster import FIELDS
from kschedctl.sources.kinds import VERSIONS
from kschedctl.studies.drain import drain
from kschedctl.studies.failures import failures

Json = dict[str, Any]
FAMILIES = ("volumes", "dra", "podaffinity", "topologyspread", "preemption", "mixed", "gates", "imagelocality")
STEP = 12
"""Every so manyeth case of a family is tried."""


def typed_lists(objects: list[Json], without: str = "") -> list[Json]:
    """A typed list for each kind that scheduling reads, empty ones too; none of the kind ``without``."""
    by_kind = defaultdict(list)
    for each in objects:
        by_kind[each["kind"]].append(each)
    return [
        {"apiVersion": VERSIONS[kind][0], "kind": f"{kind}List", "metadata": {}, "items": by_kind[kind]}
        for kind in FIELDS
        if kind != without
    ]


def cases() -> Iterator[Any]:
    for family in FAMILIES:
        for line in family_lines(family)[::STEP]:
            case = json.loads(line)
            if "error" not in case["want"] and case["want"].get("verdict") != "Refused":
                yield pytest.param(case, id=case["id"])


def read(case: Json, folder: Path, without: str = "") -> kschedctl.Cluster:
    """The cluster of a case from a file that covers all kinds but one."""
    file = folder / f"without-{without}.json"
    lists = typed_lists(case["objects"], without)
    file.write_text("\n".join(json.dumps(each) for each in lists))
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    return kschedctl.Cluster.from_paths([file], **settings)


def answer(ask: Callable[[], Any]) -> Any:
    """The report, or the words of an error."""
    try:
        return ask()
    except kschedctl.KschedctlError as error:
        return str(error)


@pytest.mark.parametrize("case", list(cases()))
def test_explain_never_gives_another_definite_answer(case: Json, tmp_path: Path) -> None:
    whole = answer(lambda: kschedctl.explain(read(case, tmp_path), case["pod"]))
    if isinstance(whole, str):
        return
    assert (whole.unknown, whole.undecided) == ((), False)
    for kind in FIELDS:
        if kind == "Pod":  # then there is nothing to explain
            continue
        part = answer(lambda kind=kind: kschedctl.explain(read(case, tmp_path, kind), case["pod"]))
        if not isinstance(part, str):  # else it is refused, in words
            check_not_another(part, whole, kind)


def summary(report: Any) -> Any:
    """The claims of a study."""
    return report.safe, getattr(report, "drained", None), getattr(report, "unplaced", None)


@pytest.mark.parametrize("case", [case for number, case in enumerate(cases()) if number % 5 == 0])
def test_studies_never_make_another_definite_claim(case: Json, tmp_path: Path) -> None:
    node = min((each["metadata"]["name"] for each in case["objects"] if each["kind"] == "Node"), default="")

    def drained(without: str = "") -> Any:
        return answer(lambda: drain(read(case, tmp_path, without), [node]))

    def lost(without: str = "") -> Any:
        return answer(lambda: failures(read(case, tmp_path, without), "node"))

    for ask in (drained, lost):
        whole = ask()
        if isinstance(whole, str):
            continue
        assert not whole.undecided
        for kind in FIELDS:
            part = ask(kind)
            if not isinstance(part, str) and not part.undecided:
                assert summary(part) == summary(whole), kind
