"""Simulation of all combinations of sizes, rates and expiries, and the recommendation that follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kschedctl.commands.audit.races.model import RaceCounts, RaceSetting, RaceSimulation, RandomDraws
from kschedctl.commands.audit.races.question import FOREVER, NEVER, RaceQuestion, parse_expiry
from kschedctl.commands.audit.races.report import RaceAssumptions, RaceResult, Races
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.text.counts import counted


def compare_expiries(question: RaceQuestion, progress: Progress = NO_PROGRESS) -> Races:
    """Simulate every combination of size, rate and expiry. Raises UsageError."""
    question.validate()
    cells = [(nodes, rate) for nodes in question.nodes for rate in question.rates]
    done = progress.begin("Simulating", len(cells) * question.runs)
    results = [result for nodes, rate in cells for result in _simulate_size_and_rate(question, nodes, rate, done)]
    return Races(
        headline=_build_headline(results, question.instances),
        recommendation=_build_recommendation(results, question),
        assumptions=RaceAssumptions(
            instances=question.instances,
            binding_latency=str(question.binding),
            informer_lag=str(question.informer_lag),
            pods_per_node=question.room,
            load=question.load,
            seconds=question.arrival_seconds,
            seed=question.seed,
            runs=question.runs,
            from_cluster=question.from_cluster,
            measured=question.measured,
        ),
        results=tuple(results),
    )


def _simulate_size_and_rate(
    question: RaceQuestion, nodes: int, rate: float, done: Callable[[int], None]
) -> Iterator[RaceResult]:
    """Simulate a size and a rate with all expiries, using the same random draws for each."""
    setting = RaceSetting(
        nodes,
        rate,
        room=question.room,
        load=question.load,
        instances=question.instances,
        binding=question.binding,
        informer=question.informer_lag,
        seconds=question.arrival_seconds,
    )
    ttls = [expiry.ttl(nodes) for expiry in question.expiries]
    runs: list[list[RaceCounts]] = []
    for seed in range(question.seed, question.seed + question.runs):
        runs.append(_run_expiries(setting, RandomDraws.from_seed(setting, seed), ttls))
        done(1)
    for expiry, ttl, counts in zip(question.expiries, ttls, zip(*runs, strict=True), strict=True):
        yield _build_result(setting, expiry.text, ttl, counts)


def _run_expiries(setting: RaceSetting, draws: RandomDraws, ttls: Sequence[float]) -> list[RaceCounts]:
    """Simulate the same draws once for each TTL.

    A TTL that no informer lag reaches has the same result as never expiring and is not simulated separately.
    """
    longest_lag = float(draws.own_lags.max(initial=0.0))
    effective_ttls = [ttl if ttl < longest_lag else FOREVER for ttl in ttls]
    counts_by_ttl = {ttl: RaceSimulation(setting, draws, ttl).run() for ttl in dict.fromkeys(effective_ttls)}
    return [counts_by_ttl[ttl] for ttl in effective_ttls]


def _build_result(setting: RaceSetting, expiry: str, ttl: float, counts: Sequence[RaceCounts]) -> RaceResult:
    """Build the result of all runs with one size, rate and expiry."""
    pods = sum(count.assumed for count in counts)
    shares = [count.double_booked / max(count.assumed, 1) for count in counts]
    double_booked = sum(count.double_booked for count in counts)
    return RaceResult(
        nodes=setting.nodes,
        pods_per_second=setting.rate,
        expiry=expiry,
        ttl_seconds=None if ttl == FOREVER else ttl,
        pods=pods,
        expired=sum(count.expired for count in counts),
        expected_expired=pods * (0.0 if ttl == FOREVER else setting.informer.probability_above(ttl)),
        double_booked=double_booked,
        share=double_booked / max(pods, 1),
        least_share=min(shares),
        most_share=max(shares),
        waiting=sum(count.waiting for count in counts),
    )


def _build_headline(results: Sequence[RaceResult], instances: int) -> str:
    """Return the advice and the worst case that it avoids, as text."""
    worst = max(results, key=_get_share)
    if not worst.double_booked:
        expiries = {result.expiry for result in results}
        return f"No pod is double-booked: {_join_alternatives(sorted(expiries, key=_expiry_sort_key))}"
    best, remaining = _find_best_expiry(results)
    if instances > 1 and remaining:
        worst = max((result for result in results if result.expiry == best), key=_get_share)
        condition = "even if nothing expires" if best == NEVER else f"with {best}"
        return f"Let one instance place pods: {instances} double-book up to {format_percent(worst.share)}, {condition}"
    worst_text = f"{worst.expiry} double-books {format_percent(worst.share)} of pods"
    setting_text = f"({counted(worst.nodes, 'node')}, {worst.pods_per_second:.3g} pods/s)"
    if worst.expiry == best:
        return f"{worst_text} {setting_text}"
    advice = "Never expire" if best == NEVER else f"Expire after {best}"
    return f"{advice}: {worst_text} {setting_text}"


def _get_share(result: RaceResult) -> float:
    """Return the share of double-booked pods."""
    return result.share


def _expiry_sort_key(text: str) -> tuple[float, str]:
    """Return a sort key that orders expiries by duration."""
    return parse_expiry(text).ttl(1), text


def _join_alternatives(texts: Sequence[str]) -> str:
    """Join texts such as `a, b and c alike`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]} alike"


def format_percent(share: float) -> str:
    """Return a share as a percentage with one decimal, never rounding a positive share to 0.

    >>> format_percent(0.0123), format_percent(0.0004), format_percent(0.0)
    ('1.2 %', 'less than 0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    return "less than 0.1 %" if share < 0.0005 else f"{share * 100:.1f} %"


def _find_best_expiry(results: Sequence[RaceResult]) -> tuple[str, int]:
    """Return the best expiry and the number of double-booked pods with it.

    `never` is the best if it is among the expiries, since an expiry can only give away room that is taken. Otherwise
    the best expiry is the one with the fewest double-booked pods, the longest if there are several.
    """
    double_booked: dict[str, int] = {}
    for result in results:
        double_booked[result.expiry] = double_booked.get(result.expiry, 0) + result.double_booked
    best = min(double_booked, key=lambda expiry: (expiry != NEVER, double_booked[expiry], -_expiry_sort_key(expiry)[0]))
    return best, double_booked[best]


def _build_recommendation(results: Sequence[RaceResult], question: RaceQuestion) -> str:
    """Return the advice and the reasons in a few sentences."""
    best, remaining = _find_best_expiry(results)
    parts = []
    if any(result.expired for result in results):
        share = question.informer_lag.probability_above(min(result.ttl_seconds or FOREVER for result in results))
        parts.append(
            f"{'Never expire assumed pods' if best == NEVER else f'Expire assumed pods after {best}'}: "
            f"the informer's lag goes beyond the shortest expiry for {format_percent(share)} of bindings, and each of "
            "these makes room look free that is taken."
        )
    if question.instances > 1 and remaining:
        parts.append(
            "No expiry helps against instances that do not see each other's pods in time: let one lead, or give each "
            "its own nodes (a taint, and a node selector of its pods)."
        )
    parts.append("kube-scheduler never expires assumed pods since 1.25; up to 1.22 it did after 30s.")
    return " ".join(parts)
