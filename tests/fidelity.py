"""Count, for each real program and release, the golden cases that kschedctl answers as the program did.

``python tests/fidelity.py`` runs all cases and writes the table of ``kschedctl help fidelity``. It exits with 1 when a
case differs; the table then names the case.
"""

# ruff: noqa: E402
from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

for folder in ("admission", "autoscaling", "descheduling", "kueue"):
    sys.path.append(str(Path(__file__).parent / folder))

import test_descheduler_tables as descheduler
import test_golden_admission as admission
import test_golden_autoscaler as autoscaler
import test_golden_extenders as extenders
import test_golden_karpenter as karpenter
import test_golden_queue as queue
import test_golden_steps as steps
import test_golden_wakes as wakes
import test_kueue_admission as kueue
from descheduler_cases import agrees as agrees_on_evictions
from descheduler_cases import list_evicted_pods, read_cases
from golden_cases import FAMILIES, VERSIONS, Json, answer, iter_family_lines, list_differences
from kueue_cases import FAMILIES as KUEUE_FAMILIES
from kueue_cases import iter_cases

TOPIC = Path(__file__).parent.parent / "kschedctl/cli/topics/fidelity.md"
TABLE = re.compile(r"^\| Program \|.*\n(?:\|.*\n)+", re.MULTILINE)
TITLES = ("Program", "Release", "What is compared", "Cases", "Agree", "Differ")
SCHEDULER, CLUSTER_AUTOSCALER, DESCHEDULER = "kube-scheduler", "Cluster Autoscaler", "descheduler"
RELEASES = {minor: f"1.{minor}.{patch}" for minor, patch in zip(range(30, 37), (14, 14, 13, 13, 9, 6, 2), strict=True)}
"""Minor version -> the kube-scheduler that computed the cases, as in golden/README.md."""


class Comparison(NamedTuple):
    """Cases that one release of a program answered, and how our answers are compared with its answers."""

    program: str
    release: str
    subject: str
    """What is compared, in a few words."""

    cases: Callable[[], Iterator[Json]]
    """Yields the cases."""

    agrees: Callable[[Json], bool]
    """Returns whether we answer a case as the program did."""

    wanted: str = "want"
    """The key of the program's answer in a case."""


def make_case_reader(*files: str) -> Callable[[], Iterator[Json]]:
    """Return a function that yields the cases of files below golden/."""

    def cases() -> Iterator[Json]:
        for file in files:
            yield from map(json.loads, iter_family_lines(file))

    return cases


def iter_comparisons() -> Iterator[Comparison]:
    """Yield the comparisons, in the order of the table."""
    whole = "one pod: reasons for every node, scores, victims, volumes, devices"

    def explains_alike(case: Json) -> bool:
        return not list_differences(case["want"], answer(case))

    yield Comparison(SCHEDULER, RELEASES[36], whole, make_case_reader(*FAMILIES), explains_alike)
    for file in reversed(VERSIONS):
        release = RELEASES[int(file.rpartition(".")[2])]
        yield Comparison(SCHEDULER, release, whole, make_case_reader(file), explains_alike)

    over_time: dict[str, tuple[str, Callable[[Json], bool]]] = {
        "wakes": (
            "whether an event makes the scheduler retry a rejected pod",
            lambda case: not wakes.find_differing_parts(case),
        ),
        "run": (
            "scheduling a whole queue of pending pods",
            lambda case: queue.agrees(case["want"], queue.run_queue("run", case)),
        ),
        "gang": (
            "scheduling a whole queue with pod groups",
            lambda case: queue.agrees(case["want"], queue.run_queue("gang", case)),
        ),
        "sampling": (
            "scheduling with node sampling (percentageOfNodesToScore)",
            lambda case: not steps.find_differing_steps(steps.sample_nodes, case),
        ),
        "sequence": (
            "scheduling several pods one after another",
            lambda case: not steps.find_differing_steps(steps.follow_steps, case),
        ),
        "extenders": (
            "HTTP extenders: calls and answers",
            lambda case: not list_differences(case["want"], extenders.format_answer(case)),
        ),
    }
    for family, (subject, compare) in over_time.items():
        yield Comparison(SCHEDULER, RELEASES[36], subject, make_case_reader(f"over_time/{family}"), compare)

    admissions = make_case_reader("autoscaling/admission")
    yield Comparison(
        "kube-apiserver", "1.36.2", "whether and how manifests are admitted", admissions, admission.agrees, "answer"
    )

    for family, subject in (("scaleup", "scale-up loops"), ("scaledown", "scale-down loops")):

        def scales_alike(case: Json, family: str = family) -> bool:
            return not autoscaler.find_differing_parts(family, case)

        loops = make_case_reader(f"autoscaling/{family}")
        yield Comparison(CLUSTER_AUTOSCALER, "1.36", subject, loops, scales_alike, "answer")

    for family, subject in (("provisioning", "provisioning rounds"), ("disruption", "disruption rounds")):

        def provisions_alike(case: Json, family: str = family) -> bool:
            return not karpenter.find_differing_parts(family, case)

        rounds = make_case_reader(f"autoscaling/{family}")
        yield Comparison("Karpenter core", "1.14.1", subject, rounds, provisions_alike, "answer")

    yield Comparison(
        DESCHEDULER,
        "0.36",
        "pods that its plugins evict",
        lambda: iter(descheduler.EVICTIONS),
        lambda case: agrees_on_evictions(case, list_evicted_pods(case)),
        "evicted",
    )
    yield Comparison(
        DESCHEDULER,
        "0.36",
        "pods that its DefaultEvictor protects",
        lambda: iter(descheduler.EVICTABLE),
        lambda case: descheduler.is_evictable(case) == case["want"],
    )

    for release, name in (("0.20", "development branch after 0.19"), ("0.19", "0.19.2")):

        def answered(release: str = release) -> Iterator[Json]:
            cases = (case for family in KUEUE_FAMILIES for case in iter_cases(family))
            return (case for case in cases if kueue.select_wanted(case, release) is not None)

        def admits_alike(case: Json, release: str = release) -> bool:
            return not kueue.find_differing_parts(case, release)

        yield Comparison("Kueue", name, "admission cycles", answered, admits_alike)


def count_unreplayed_evictions() -> int:
    """Return how many recorded cases of the descheduler need something that is not replayed."""
    return len(read_cases("evictions")) - len(descheduler.EVICTIONS)


def format_row(comparison: Comparison, number: int, differing: list[str]) -> str:
    """Return the row of a comparison: the last cell names at most five cases that differ, "none" if none does."""
    differ = f"{len(differing)}: {', '.join(differing[:5])}" if differing else "none"
    cells = (*comparison[:3], f"{number:,}", f"{number - len(differing):,}", differ)
    return f"| {' | '.join(cells)} |\n"


def build_table() -> tuple[str, int]:
    """Build the table of all comparisons, printing each row, and return it with the number of cases that differ."""
    lines = [f"| {' | '.join(TITLES)} |\n", "| --- | --- | --- | --: | --: | --- |\n"]
    total = 0
    for comparison in iter_comparisons():
        cases = list(comparison.cases())
        differing = [str(case.get("id") or case.get("test")) for case in cases if not comparison.agrees(case)]
        total += len(differing)
        lines.append(format_row(comparison, len(cases), differing))
        print(lines[-1], end="", flush=True)
    return "".join(lines), total


if __name__ == "__main__":
    table, wrong = build_table()
    TOPIC.write_text(TABLE.sub(lambda _: table, TOPIC.read_text()))
    sys.exit(wrong > 0)
