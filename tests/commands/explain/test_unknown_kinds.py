"""Check that an answer without a kind equals the answer with it, or says that it depends on it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from golden_cases import SETTINGS, iter_family_lines
from unknown_kinds import check_not_another

import kschedctl
from kschedctl.api.kinds import KINDS
from kschedctl.cluster import FIELDS, NOT_GIVEN, Gap
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.failures import simulate_failures

Json = dict[str, Any]
FAMILIES = ("volumes", "dra", "podaffinity", "topologyspread", "preemption", "mixed", "gates", "imagelocality")
STEP = 36
"""Every so manyeth case of a family is tried."""
TURNS = 3
"""Each case leaves out every third of the kinds without objects in it, and the next case leaves out the next third."""


def build_typed_lists(objects: list[Json], without: str = "") -> list[Json]:
    """Build a typed list, maybe empty, for each kind that scheduling reads except the kind ``without``."""
    by_kind = defaultdict(list)
    for each in objects:
        by_kind[each["kind"]].append(each)
    return [
        {"apiVersion": KINDS[kind].versions[0], "kind": f"{kind}List", "metadata": {}, "items": by_kind[kind]}
        for kind in FIELDS
        if kind != without
    ]


def iter_cases(family: str) -> Iterator[Json]:
    for line in iter_family_lines(family)[::STEP]:
        case = json.loads(line)
        if "error" not in case["want"] and case["want"].get("verdict") != "Refused":
            yield case


def parametrize_without_kinds(cases: Iterable[Json]) -> list[Any]:
    """Return the parameters of a test: each case with the kinds to leave out, one at a time."""
    return [pytest.param(case, choose_kinds(case, turn), id=case["id"]) for turn, case in enumerate(cases)]


def choose_kinds(case: Json, turn: int) -> list[str]:
    """Return all kinds that the case has objects of, and a share of the others: all have had their turn after TURNS."""
    present = {each["kind"] for each in case["objects"]}
    return [kind for place, kind in enumerate(FIELDS) if kind in present or place % TURNS == turn % TURNS]


CASES = {family: list(iter_cases(family)) for family in FAMILIES}
ALL_CASES = [case for cases in CASES.values() for case in cases]


def read(case: Json, folder: Path, without: str = "") -> kschedctl.Cluster:
    """Read the cluster of a case from a file that covers all kinds but one."""
    file = folder / f"without-{without}.json"
    lists = build_typed_lists(case["objects"], without)
    file.write_text("\n".join(json.dumps(each) for each in lists))
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    return kschedctl.Cluster.from_paths([file], **settings)


NOW = "2026-06-01T00:00:00Z"
"""Ages are told in minutes, which pass while a test runs."""


def drop_kind(whole: kschedctl.Cluster, kind: str) -> kschedctl.Cluster:
    """Return the cluster as if no file had covered the kind."""
    origins = {key: place for key, place in whole.origins.items() if key[0] != kind}
    return replace(whole, **{FIELDS[kind]: ()}, origins=origins, gaps={**whole.gaps, kind: Gap(NOT_GIVEN)})


def get_contents(cluster: kschedctl.Cluster) -> Json:
    """Return everything in the cluster except the files that it came from."""
    found = {each.name: getattr(cluster, each.name) for each in fields(cluster) if each.name != "origins"}
    return {**found, "pods": list(cluster.pods)}


def answer(ask: Callable[[], Any]) -> Any:
    """Return the report, or the message of an error."""
    try:
        return ask()
    except kschedctl.KschedctlError as error:
        return str(error)


def test_every_kind_is_left_out_in_every_family() -> None:
    for cases in CASES.values():
        left_out = {kind for turn, case in enumerate(cases) for kind in choose_kinds(case, turn)}
        assert left_out == FIELDS.keys()


@pytest.mark.parametrize(("case", "kinds"), parametrize_without_kinds(cases[0] for cases in CASES.values()))
def test_kind_without_objects_in_the_files_is_a_gap(case: Json, kinds: list[str], tmp_path: Path) -> None:
    whole = read(case, tmp_path)
    for kind in kinds:
        assert get_contents(read(case, tmp_path, kind)) == get_contents(drop_kind(whole, kind))


@pytest.mark.parametrize(("case", "kinds"), parametrize_without_kinds(ALL_CASES))
def test_explain_gives_no_wrong_definite_answer(case: Json, kinds: list[str], tmp_path: Path) -> None:
    cluster = answer(lambda: read(case, tmp_path))
    whole = (
        answer(lambda: kschedctl.explain(cluster, case["pod"], now=NOW))
        if isinstance(cluster, kschedctl.Cluster)
        else ""
    )
    if isinstance(whole, str):
        return
    assert (whole.unknown, whole.undecided) == ((), False)
    for kind in kinds:
        if kind == "Pod":  # then there is nothing to explain
            continue
        part = answer(lambda kind=kind: kschedctl.explain(drop_kind(cluster, kind), case["pod"], now=NOW))
        if not isinstance(part, str):  # else it is refused, in words
            check_not_another(part, whole, kind)


def get_claims(report: Any) -> Any:
    """Return the claims of a study."""
    return report.safe, getattr(report, "drained", None), getattr(report, "unplaced", None)


@pytest.mark.parametrize(("case", "kinds"), parametrize_without_kinds(ALL_CASES[::5]))
def test_studies_make_no_wrong_definite_claim(case: Json, kinds: list[str], tmp_path: Path) -> None:
    node = min((each["metadata"]["name"] for each in case["objects"] if each["kind"] == "Node"), default="")
    cluster = read(case, tmp_path)
    for ask in (lambda cluster: drain_nodes(cluster, [node]), lambda cluster: simulate_failures(cluster, "node")):
        whole = answer(lambda ask=ask: ask(cluster))
        if isinstance(whole, str):
            continue
        assert not whole.undecided
        for kind in kinds:
            part = answer(lambda ask=ask, kind=kind: ask(drop_kind(cluster, kind)))
            if not isinstance(part, str) and not part.undecided:
                assert get_claims(part) == get_claims(whole), kind
