"""The node that sampling chooses for a pod, for every index at which the search for nodes may begin.

Plugins normalize over the sampled nodes, so a node's score may differ between searches. Consecutive searches in which
the scores agree are evaluated together, as sliding windows over a circle of nodes. Upstream: findNodesThatPassFilters
and prioritizeNodes in pkg/scheduler/schedule_one.go, RunScorePlugins in pkg/scheduler/framework/runtime/framework.go
and NormalizeScore of the plugins (v1.36), with a parallelism of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores
from kschedctl.scheduler.engine.cycle import Cycle, mask_allowed_nodes
from kschedctl.scheduler.engine.extenders import OfferedNodes
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.framework import Peers, ScorePlugin, get_peers


@dataclass(frozen=True)
class Searches:
    """Results of the searches from S start indexes, with a given number of feasible nodes to find."""

    scored: int
    """Number of nodes that are scored, the same in all searches."""
    examined: Counts
    """(S,): number of nodes examined."""
    ties: Counts
    """(S,): number of sampled nodes that share the highest score, one of which is picked at random."""
    lost: Counts
    """(S,): total number of points that the tied nodes lack to the best of all nodes, as scored among all nodes."""
    hits: Counts
    """(S,): number of tied nodes that are among the best of all nodes."""

    @property
    def expected_loss(self) -> npt.NDArray[np.float64]:
        """The expected number of points that picking one of the tied nodes at random loses, for each search (S,)."""
        return self.lost / np.maximum(self.ties, 1)

    @property
    def missed(self) -> Bools:
        """A mask (S,) of the searches in which no tied node is among the best of all nodes."""
        none: Bools = (self.hits == 0) & (self.scored > 0)
        return none


class EveryStart:
    """The searches for a pod from every start index.

    `cycle` must have examined all nodes, without an error and without extenders.
    """

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        offered = np.flatnonzero(mask_allowed_nodes(cycle.pre_filter, cycle.view) & cycle.view.in_placement)
        self.offered = len(offered)
        self.starts = np.arange(cycle.view.nodes_in_placement) % max(self.offered, 1)
        self.places = np.flatnonzero(cycle.filter.passing[offered])
        """(F,): the places of the feasible nodes among the offered nodes."""

    def search_samples(self, sample_size: int) -> Searches:
        """Search from every start index for `sample_size` feasible nodes, and return the results.

        With at most `sample_size` feasible nodes in all, every search examines all nodes.
        """
        if len(self.places) <= sample_size:
            return self._build_full_searches()

        # A search examines all nodes up to the first feasible one that it does not need, possibly in a second round.
        first = np.searchsorted(self.places, self.starts)  # the feasible node that each search finds first
        two_rounds = np.concatenate((self.places, self.places + self.offered))
        examined = two_rounds[first + sample_size] - self.starts

        # Searches that find the same feasible node first have the same sample.
        best = self._find_best_per_search(sample_size)
        ties, lost, hits = best.sums[:, first % len(self.places)]  # one row for each of the `_columns`
        return Searches(sample_size, examined, ties, lost=lost, hits=hits)

    def _build_full_searches(self) -> Searches:
        """Build the results of searches that examine all nodes. Each of them finds all best nodes."""
        count = len(self.starts)
        best = np.full(count, len(self.cycle.scores.best))
        lost = np.zeros(count, np.int64)
        return Searches(len(self.places), np.full(count, self.offered), ties=best, lost=lost, hits=best)

    def _find_best_per_search(self, sample_size: int) -> Best:
        """Return the best sampled nodes of each search, indexed by the first feasible node that the search finds.

        If a plugin's scores may depend on every sampled node, each sample is scored separately.
        """
        if must_score_each_search(self.cycle):
            return self._score_each_search(sample_size)

        # A window is the sequence of feasible nodes that one search samples. In a run of windows with equal keys, each
        # node has the same scores in all windows.
        feasible_count = len(self.places)
        window_keys: list[npt.NDArray[np.int64]] = []
        for _, scorer in self._scorers:
            window_keys += scorer.build_window_keys(sample_size)

        best_of_runs = []
        for begin, end in split_into_runs(window_keys, feasible_count, sample_size):
            places = np.arange(begin, end + sample_size - 1) % feasible_count
            total = self._independent_scores[places]
            for weight, scorer in self._scorers:
                total = total + weight * scorer.normalize_in_window(begin, places)
            best_of_runs.append(find_best_per_window(total, self._columns[:, places], sample_size))
        tops = np.concatenate([best.top for best in best_of_runs])
        return Best(tops, np.hstack([best.sums for best in best_of_runs]))

    def _score_each_search(self, sample_size: int) -> Best:
        """Find the best nodes of each search by running the Score plugins on every sample.

        The result is indexed by the first feasible node that a search finds.
        """
        cycle = self.cycle
        feasible_count = len(self.places)
        tops = np.zeros(feasible_count, np.int64)
        sums = np.zeros((len(self._columns), feasible_count), np.int64)
        for begin in range(feasible_count):
            places = np.sort(np.arange(begin, begin + sample_size) % feasible_count)  # in node order
            nodes = OfferedNodes.from_rows(cycle.view.nodes, cycle.scores.rows[places])
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, cycle.view, nodes)
            tops[begin] = scores.total.max()
            sums[:, begin] = self._columns[:, places[scores.top]].sum(axis=1)
        return Best(tops, sums)

    @cached_property
    def _columns(self) -> npt.NDArray[np.int64]:
        """Three columns with a value per node, (3, F).

        The columns are 1, the distance of the node's score from the best score, and whether its score is the best.
        """
        lacks = self.cycle.scores.total.max() - self.cycle.scores.total
        return np.stack((np.ones_like(lacks), lacks, lacks == 0)).astype(np.int64)

    @cached_property
    def _scorers(self) -> list[tuple[int, Scorer]]:
        """The weight and scorer of each plugin whose scores depend on the sampled nodes."""
        return list(iter_window_scorers(self.cycle))

    @cached_property
    def _independent_scores(self) -> Scores:
        """For each feasible node, the sum of the scores that do not depend on the sampled nodes."""
        return sum_independent_scores(self.cycle)


HIGHEST = np.iinfo(np.int64).max


class Scorer(Protocol):
    """One plugin's scores of F nodes that are arranged in a circle."""

    def build_window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        """Return arrays, with one entry per window, such that windows with equal keys give a node the same score."""

    def normalize_in_window(self, window: int, places: Rows) -> Scores:
        """Return the normalized scores of the nodes at these places, as scored in a window."""


class ExtremesScorer:
    """Scores of a plugin that normalizes by the lowest and the highest raw score."""

    def __init__(self, plugin: ScorePlugin, raw: Scores) -> None:
        self.plugin, self.raw = plugin, raw

    def build_window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        """Return the lowest and the highest raw score of each window."""
        return [*find_window_extremes(self.raw, width)]

    def normalize_in_window(self, window: int, places: Rows) -> Scores:
        """Return the normalized scores of the nodes at these places, which are the same in every window of a run."""
        return self.plugin.normalize(None, self.raw[places])


class DomainScores(Protocol):
    """Scores of any of the N nodes, given the number of topology domains among the scored nodes."""

    @property
    def counted(self) -> Bools:
        """A mask (N,) of the nodes whose domains count."""

    @property
    def domains(self) -> Sequence[Ints | Rows]:
        """The domain of each node (N,), for each topology key."""

    def compute_raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the raw scores of the rows, given the number of domains for each topology key."""

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Return the normalized scores of nodes, where `counted` marks the nodes whose domains count."""


class DomainsScorer:
    """Scores of a plugin that also considers the number of topology domains among the scored nodes."""

    def __init__(self, domain_scores: DomainScores, rows: Rows) -> None:
        self.domain_scores = domain_scores
        self.rows = rows
        self.counted = domain_scores.counted[rows]
        self.domains = [codes[rows] for codes in domain_scores.domains]
        self.sizes: list[tuple[int, ...]] = []
        self._raw: dict[tuple[int, ...], Scores] = {}

    def build_window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        """Return arrays in which windows with equal entries have the same raw scores and the same normalization.

        For each topology key, an array has the number of domains in each window. Two further arrays have each window's
        lowest and highest raw score. The numbers of domains are also stored in `sizes`, which `normalize_in_window`
        needs.
        """
        sizes = [count_distinct_per_window(codes, self.counted, width) for codes in self.domains]
        self.sizes = list(zip(*(column.tolist() for column in sizes), strict=True))
        least = np.zeros(len(self.rows), np.int64)
        greatest = np.zeros(len(self.rows), np.int64)
        # The raw scores depend on the numbers of domains, so each combination of numbers is handled on its own.
        for window_sizes in dict.fromkeys(self.sizes):
            matching = np.logical_and.reduce([column == size for column, size in zip(sizes, window_sizes, strict=True)])
            raw = self._get_raw_scores(window_sizes)
            # Nodes that do not count get a value that never is the extreme.
            lowest, _ = find_window_extremes(np.where(self.counted, raw, HIGHEST), width)
            _, highest = find_window_extremes(np.where(self.counted, raw, LOWEST), width)
            least[matching] = lowest[matching]
            greatest[matching] = highest[matching]
        return [*sizes, least, greatest]

    def normalize_in_window(self, window: int, places: Rows) -> Scores:
        """Return the normalized scores of the nodes at these places, given the domains in the window."""
        raw = self._get_raw_scores(self.sizes[window])
        return self.domain_scores.normalize(raw[places], self.counted[places])

    def _get_raw_scores(self, sizes: tuple[int, ...]) -> Scores:
        """Return the raw scores of all nodes for these numbers of domains, from a cache if possible."""
        if sizes not in self._raw:
            self._raw[sizes] = self.domain_scores.compute_raw_scores(self.rows, sizes)
        return self._raw[sizes]


def iter_window_scorers(cycle: Cycle) -> Iterator[tuple[int, Scorer]]:
    """Yield the weight and a scorer of each plugin whose scores depend on the sampled nodes.

    A scorer computes the plugin's scores for all samples. Plugins whose scores may depend on every sampled node
    (Peers.ALL) are left out.
    """
    plugins: dict[str, Any] = {plugin.name: plugin for plugin in cycle.framework.plugins_at("score")}
    for name, raw in cycle.scores.raw.items():
        plugin = plugins[name]
        weight = cycle.framework.profile.weights[name]
        if get_peers(plugin) is Peers.EXTREMES:
            yield weight, ExtremesScorer(plugin, raw)
        elif get_peers(plugin) is Peers.DOMAINS:
            yield weight, DomainsScorer(plugin.build_row_scores(cycle.info, cycle.view), cycle.scores.rows)


def sum_independent_scores(cycle: Cycle) -> Scores:
    """Return, for each feasible node, the sum of the weighted scores that do not depend on the sampled nodes.

    The base score, which is 1 without Score plugins and extenders, is included.
    """
    added = np.full(len(cycle.scores.rows), cycle.scores.base)
    for plugin in cycle.framework.plugins_at("score"):
        if plugin.name in cycle.scores.weighted and get_peers(plugin) is Peers.NONE:
            added = added + cycle.scores.weighted[plugin.name]
    return added


def must_score_each_search(cycle: Cycle) -> bool:
    """Return whether every sample must be scored separately.

    This is necessary if a Score plugin does not declare which other nodes its scores depend on.
    """
    return any(p.name in cycle.scores.raw and get_peers(p) is Peers.ALL for p in cycle.framework.plugins_at("score"))


LOWEST = np.iinfo(np.int64).min


def unroll_circle(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Return the circle followed by its first `width` - 1 values, so that each window is a slice.

    >>> unroll_circle(np.array([1, 2, 3]), 2).tolist()
    [1, 2, 3, 1]
    """
    return np.concatenate((values, values[: width - 1]))


def find_window_extremes(values: Scores, width: int) -> tuple[Scores, Scores]:
    """Return the lowest and the highest value of each window of `width` values on the circle."""
    flat = unroll_circle(values, width)
    return _reduce_windows(np.minimum, flat, width), _reduce_windows(np.maximum, flat, width)


def _reduce_windows(reduction: np.ufunc, values: Scores, width: int) -> Scores:
    """Reduce each window of `width` values by a ufunc such as np.minimum, in a logarithmic number of passes.

    Each window is covered by two overlapping windows whose width is a power of two.
    """
    count = len(values) - width + 1
    covered = 1

    # After each pass, each place has the reduction of twice as many values, from there on.
    while 2 * covered <= width:
        values = reduction(values[:-covered], values[covered:])
        covered *= 2

    # Combine the first and the last `covered` values of each window.
    folded: Scores = reduction(values[:count], values[width - covered : width - covered + count])
    return folded


def count_distinct_per_window(codes: Ints | Rows, counted: Bools, width: int) -> Counts:
    """Return, for each place, the number of distinct codes at the `counted` places of its window.

    The window of a place has `width` places beginning there, and wraps around from the last place to the first.

    >>> count_distinct_per_window(np.array([7, 7, 8, 9]), np.array([True, True, True, False]), 3).tolist()
    [2, 2, 2, 1]
    """
    count = len(codes)
    places = np.arange(count + width - 1)
    places = places[counted[places % count]]
    code_at_place = codes[places % count]

    # Sort by code. Of each two neighbors with equal codes, the first is the previous occurrence of the second.
    order = np.argsort(code_at_place, kind="stable")
    earlier = order[:-1]
    later = order[1:]
    is_repeated = code_at_place[later] == code_at_place[earlier]
    previous_place = np.full(len(places), -1)
    previous_place[later[is_repeated]] = places[earlier[is_repeated]]

    # Count a code in each window that begins after its previous occurrence and includes this one.
    first = np.maximum(previous_place, places - width) + 1
    last = np.minimum(places, count - 1)
    is_in_window = first <= last
    first, last = first[is_in_window], last[is_in_window]
    begins = np.bincount(first, minlength=count + 1)
    ends = np.bincount(last + 1, minlength=count + 1)
    return np.cumsum(begins - ends)[:count]


def split_into_runs(keys: Sequence[npt.NDArray[np.int64]], count: int, longest: int) -> list[tuple[int, int]]:
    """Return the begin and the exclusive end of each run of windows that agree in all keys.

    Each array of `keys` has one key for each of the `count` windows. Runs longer than `longest` are cut into pieces.

    >>> split_into_runs([np.array([1, 1, 1, 2])], 4, 2)
    [(0, 2), (2, 3), (3, 4)]
    """
    changes = np.zeros(count, np.bool_)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]

    # Cut runs that are too long into pieces.
    run_starts = np.flatnonzero(changes).tolist()
    run_ends = [*run_starts[1:], count]
    pieces = []
    for start, end in zip(run_starts, run_ends, strict=True):
        for begin in range(start, end, longest):
            pieces.append((begin, min(begin + longest, end)))
    return pieces


class Best(NamedTuple):
    """The best scores of W windows."""

    top: Scores
    """(W,): the highest score of each window."""
    sums: npt.NDArray[np.int64]
    """(C, W): sums of the columns over the places with the highest score."""


def find_best_per_window(scores: Scores, columns: npt.NDArray[np.int64], width: int) -> Best:
    """Find the highest score in each window of `width` scores, and sum the columns over the places with this score.

    There are L scores and at most `width` windows. `columns` (C, L) has C columns to sum. All windows share the places
    in the middle, so each window only adds a few places before and after the middle.
    """
    window_count = len(scores) - width + 1

    # The places that all windows share.
    shared = slice(window_count - 1, width)
    shared_scores = scores[shared]
    top = shared_scores.max()
    shared_sums = (columns[:, shared] * (shared_scores == top)).sum(axis=1)
    parts = [Best(np.full(window_count, top), np.repeat(shared_sums[:, None], window_count, axis=1))]

    # Each window's places before and after the shared ones.
    if window_count > 1:
        before, after = slice(window_count - 1), slice(width, None)
        parts.append(_find_best_per_suffix_or_nothing(scores[before], columns[:, before]))
        parts.append(_find_best_per_prefix_or_nothing(scores[after], columns[:, after]))

    # Combine the parts of each window.
    tops = np.max([part.top for part in parts], axis=0)
    sums = np.sum([part.sums * (part.top == tops) for part in parts], axis=0)
    return Best(tops, sums)


def _find_best_per_suffix_or_nothing(scores: Scores, columns: npt.NDArray[np.int64]) -> Best:
    """Find the best of all L scores, of the last L - 1, and so on down to no score, for L + 1 windows.

    The window without scores has the score LOWEST and sums of 0.
    """
    tops, sums = _find_best_per_prefix_or_nothing(scores[::-1], columns[:, ::-1])
    return Best(tops[::-1], sums[:, ::-1])


def _find_best_per_prefix_or_nothing(scores: Scores, columns: npt.NDArray[np.int64]) -> Best:
    """Find the best of no score, of the first score, and so on up to all L scores, for L + 1 windows.

    The window without scores has the score LOWEST and sums of 0.
    """
    tops, sums = _find_best_per_prefix(scores, columns)
    sums_of_nothing = np.zeros((len(columns), 1), np.int64)
    return Best(np.insert(tops, 0, LOWEST), np.hstack((sums_of_nothing, sums)))


def _find_best_per_prefix(scores: Scores, columns: npt.NDArray[np.int64]) -> Best:
    """Find the best of the first 1, 2, … scores, and sum the columns over the places that have it."""
    tops = np.maximum.accumulate(scores)
    rises = np.append(True, tops[1:] > tops[:-1])
    first_with_top = np.maximum.accumulate(np.where(rises, np.arange(len(tops)), 0))
    # Sum over all places that had the top of their prefix, and subtract the places before the present top was reached.
    added = np.cumsum(columns * (scores == tops), axis=1)
    return Best(tops, added - added[:, first_with_top] + columns[:, first_with_top])
