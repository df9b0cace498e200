"""Sizes, rates and expiries side by side: how many pods are double-booked with each, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kschedctl.commands.audit.races.model import Draws, Model, RaceCounts, Setting
from kschedctl.commands.audit.races.question import FOREVER, NEVER, RaceQuestion, expiry_of
from kschedctl.commands.audit.races.report import RaceAssumptions, RaceResult, Races
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.text.counts import counted


def races(question: RaceQuestion, progress: Progress = NO_PROGRESS) -> Races:
    """Every combination, simulated. Raises UsageError."""
    question.check()
    cells = [(nodes, rate) for nodes in question.nodes for rate in question.rates]
    done = progress.begin("Simulating", len(cells) * question.runs)
    results = [result for nodes, rate in cells for result in _cell(question, nodes, rate, done)]
    return Races(
        headline=_headline(results, question.instances),
        recommendation=_recommendation(results, question),
        assumptions=RaceAssumptions(
            instances=question.instances,
            binding_latency=str(question.binding),
            informer_lag=str(question.lag),
            pods_per_node=question.room,
            load=question.load,
            seconds=question.lasting,
            seed=question.seed,
            runs=question.runs,
            from_cluster=question.from_cluster,
            measured=question.measured,
        ),
        results=tuple(results),
    )


def _cell(question: RaceQuestion, nodes: int, rate: float, done: Callable[[int], None]) -> Iterator[RaceResult]:
    """The expiries, one after the other, on the same draws."""
    setting = Setting(
        nodes, rate, question.room, question.load, question.instances, question.binding, question.lag, question.lasting
    )
    ttls = [expiry.ttl(nodes) for expiry in question.expiries]
    runs: list[list[RaceCounts]] = []
    for seed in range(question.seed, question.seed + question.runs):
        runs.append(_run(setting, Draws.of(setting, seed), ttls))
        done(1)
    for expiry, ttl, counts in zip(question.expiries, ttls, zip(*runs, strict=True), strict=True):
        yield _result(setting, expiry.text, ttl, counts)


def _run(setting: Setting, draws: Draws, ttls: Sequence[float]) -> list[RaceCounts]:
    """For each ttl what becomes of the same pods. One that no lag reaches does what never expiring does."""
    longest = float(draws.own_lags.max(initial=0.0))
    felt = [ttl if ttl < longest else FOREVER for ttl in ttls]
    known = {ttl: Model(setting, draws, ttl).run() for ttl in dict.fromkeys(felt)}
    return [known[ttl] for ttl in felt]


def _result(setting: Setting, expiry: str, ttl: float, counts: Sequence[RaceCounts]) -> RaceResult:
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
        expected_expired=pods * (0.0 if ttl == FOREVER else setting.informer.beyond(ttl)),
        double_booked=double_booked,
        share=double_booked / max(pods, 1),
        least_share=min(shares),
        most_share=max(shares),
        waiting=sum(count.waiting for count in counts),
    )


def _headline(results: Sequence[RaceResult], instances: int) -> str:
    """What to do, and the worst that it spares."""
    worst = max(results, key=_share)
    if not worst.double_booked:
        expiries = {result.expiry for result in results}
        return f"No pod is double-booked: {_listed(sorted(expiries, key=_by_length))}"
    best, left = _best(results)
    if instances > 1 and left:
        worst = max((result for result in results if result.expiry == best), key=_share)
        even = "even if nothing expires" if best == NEVER else f"with {best}"
        return f"Let one instance place pods: {instances} double-book up to {percent(worst.share)}, {even}"
    booked = f"{worst.expiry} double-books {percent(worst.share)} of pods"
    at = f"({counted(worst.nodes, 'node')}, {worst.pods_per_second:.3g} pods/s)"
    if worst.expiry == best:
        return f"{booked} {at}"
    advice = "Never expire" if best == NEVER else f"Expire after {best}"
    return f"{advice}: {booked} {at}"


def _share(result: RaceResult) -> float:
    return result.share


def _by_length(text: str) -> tuple[float, str]:
    return expiry_of(text).ttl(1), text


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]} alike"


def percent(share: float) -> str:
    """To a tenth; what is less but not nothing is said to be so.

    >>> percent(0.0123), percent(0.0004), percent(0.0)
    ('1.2 %', 'less than 0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    return "less than 0.1 %" if share < 0.0005 else f"{share * 100:.1f} %"


def _best(results: Sequence[RaceResult]) -> tuple[str, int]:
    """The best expiry, and how many pods are double-booked with it.

    That is never, if it is among them: an expiry can but give away room that is taken. Else it is the one with the
    fewest double-booked pods, the longest of several.
    """
    double_booked: dict[str, int] = {}
    for result in results:
        double_booked[result.expiry] = double_booked.get(result.expiry, 0) + result.double_booked
    best = min(double_booked, key=lambda expiry: (expiry != NEVER, double_booked[expiry], -_by_length(expiry)[0]))
    return best, double_booked[best]


def _recommendation(results: Sequence[RaceResult], question: RaceQuestion) -> str:
    """In a few sentences, with why."""
    best, left = _best(results)
    parts = []
    if any(result.expired for result in results):
        share = question.lag.beyond(min(result.ttl_seconds or FOREVER for result in results))
        parts.append(
            f"{'Never expire assumed pods' if best == NEVER else f'Expire assumed pods after {best}'}: "
            f"the informer's lag goes beyond the shortest expiry for {percent(share)} of bindings, and each of these "
            "makes room look free that is taken."
        )
    if question.instances > 1 and left:
        parts.append(
            "No expiry helps against instances that do not see each other's pods in time: let one lead, or give each "
            "its own nodes (a taint, and a node selector of its pods)."
        )
    parts.append("kube-scheduler never expires assumed pods since 1.25; up to 1.22 it did after 30s.")
    return " ".join(parts)
