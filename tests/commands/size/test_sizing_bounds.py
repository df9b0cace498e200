"""Compare bounds and search with all node sets and all fillings of small programs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest

from kschedctl.commands.size.optimality import OptimalityCheck, TriedSet, enumerate_cheaper_sets
from kschedctl.commands.size.program import Counts, PackingProgram
from kschedctl.commands.size.solved import SolvedPacking, find_cuts, suppress_stdout


def build_program(seed: int) -> PackingProgram:
    """Build a program of two or three kinds of pods, up to three of each, and two shapes that may not take all."""
    random = Random(seed)
    groups = random.choice((2, 3))
    offered = np.array([[random.randint(4, 9), random.randint(4, 9)] for _ in range(2)], np.int64)
    requested = np.array([[random.randint(1, 4), random.randint(1, 4)] for _ in range(groups)], np.int64)
    takes = np.array([[True, random.random() < 0.7] for _ in range(groups)], np.bool_)
    costs = np.array([random.randint(2, 5) for _ in range(2)], np.float64)
    apart = np.array([random.random() < 0.3 for _ in range(groups)], np.bool_)
    group_of = {f"{group}-{at}": group for group in range(groups) for at in range(random.randint(1, 3))}
    return PackingProgram(("s", "l"), costs, offered, requested, takes, apart, group_of)


def fits(some: PackingProgram, nodes: Sequence[int]) -> bool:
    """Return whether every pod can be put on one of these nodes, by trying all ways."""
    shapes = [shape for shape, number in enumerate(nodes) for _ in range(number)]
    room = [some.offered[shape].tolist() for shape in shapes]
    on: list[list[int]] = [[] for _ in shapes]
    groups = sorted(some.group_by_pod.values())

    def put(at: int) -> bool:
        if at == len(groups):
            return True
        group = groups[at]
        for number, shape in enumerate(shapes):
            asked = some.requested[group].tolist()
            alone = some.apart[group] and group in on[number]
            if alone or not some.takes[group, shape] or any(a > r for a, r in zip(asked, room[number], strict=True)):
                continue
            room[number] = [r - a for a, r in zip(asked, room[number], strict=True)]
            on[number].append(group)
            if put(at + 1):
                return True
            room[number] = [r + a for a, r in zip(asked, room[number], strict=True)]
            on[number].pop()
        return False

    return put(0)


@pytest.mark.parametrize("seed", range(40))
def test_every_sufficient_set_meets_the_cuts_and_the_bound(seed: int) -> None:
    some = build_program(seed)
    cuts, begun = find_cuts(some), SolvedPacking().propose_starting_sets(some)
    assert cuts
    assert len(begun.cuts) > len(cuts)  # with those of what is requested in all
    good = [nodes for nodes in product(range(8), repeat=2) if fits(some, nodes)]
    assert good
    for nodes in good:
        assert all(cut.find_satisfying_sets(np.array(nodes, np.float64)) for cut in begun.cuts), nodes
        assert float(np.array(nodes) @ some.costs) >= begun.bound, nodes


@pytest.mark.parametrize("seed", range(20))
def test_sets_between_bound_and_best_are_complete(seed: int) -> None:
    some, below = build_program(seed), 21.5
    begun = SolvedPacking().propose_starting_sets(some)
    wanted = [
        nodes
        for nodes in product(range(11), repeat=2)
        if begun.bound <= float(np.array(nodes) @ some.costs) < below
        and all(cut.find_satisfying_sets(np.array(nodes, np.float64)) for cut in begun.cuts)
    ]
    between = enumerate_cheaper_sets(some, begun.cuts, begun.bound, below)
    assert between is not None
    assert sorted((counts.get("s", 0), counts.get("l", 0)) for counts in between) == wanted


@pytest.mark.parametrize("seed", range(30))
def test_cheapest_sufficient_set_is_found(seed: int) -> None:
    """The sufficient sets are random, so that more nodes need not help."""
    random = Random(seed)
    sets: list[tuple[float, Counts]] = [(float(cost), {"s": cost}) for cost in range(random.randint(0, 120))]
    do = [random.random() < 0.05 for _ in sets]
    closing = OptimalityCheck(sets, lambda some: [TriedSet(counts, do[counts["s"]]) for counts in some])
    closing.refute_cheaper_sets()
    first = next((at for at, does in enumerate(do) if does), None)
    assert closing.has_refuted_all
    assert closing.best == (None if first is None else {"s": first})
    assert closing.refuted >= set(range(len(sets) if first is None else first))


def test_too_many_sets_are_only_probed() -> None:
    """None of a thousand sets is sufficient, so only the probes are tried: at one half and so on."""
    sets: list[tuple[float, Counts]] = [(float(cost), {"s": cost}) for cost in range(1000)]
    closing = OptimalityCheck(sets, lambda some: [TriedSet(counts, False) for counts in some])
    closing.refute_cheaper_sets()
    assert (closing.has_refuted_all, closing.refuted, closing.first_open) == (False, {500, 750, 875, 937}, 0)


def test_nothing_is_claimed_without_time() -> None:
    """The third tried set takes too long."""
    sets: list[tuple[float, Counts]] = [(float(cost), {"s": cost}) for cost in range(40)]
    tries: list[Counts] = []

    def run(some: Sequence[Counts]) -> list[TriedSet]:
        tries.extend(some)
        return [TriedSet(counts, False if tries.index(counts) < 2 else None) for counts in some]

    closing = OptimalityCheck(sets, run)
    closing.refute_cheaper_sets()
    assert (closing.has_refuted_all, closing.best, len(closing.refuted), closing.first_open) == (False, None, 2, 0)


def test_output_of_the_solver_is_not_in_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    library = ctypes.CDLL(None)
    with suppress_stdout():
        library.puts(b"noise of C code")
    print("answer")
    library.fflush(None)
    assert capfd.readouterr().out == "answer\n"
