"""Simulation of all combinations of sizes, rates and expiries, and the recommendation that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kschedctl.commands.audit.races.model import RaceCounts, RaceSetting, RaceSimulation, RandomDraws
from kschedctl.commands.audit.races.question import FOREVER, NEVER, RaceQuestion, parse_expiry
from kschedctl.commands.audit.races.report import RaceAssumptions, RaceResult, Races
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.text.counts import capitalize, counted

ROUNDED_TO_ZERO = 0.0005
"""Smaller shares would be shown as 0.0%."""


def compare_expiries(question: RaceQuestion, progress: Progress = NO_PROGRESS) -> Races:
    """Simulate every combination of size, rate and expiry, and recommend an expiry.

    If the user interrupts, the report has the results so far. Raises UsageError for values that cannot be simulated,
    and KeyboardInterrupt if the user interrupts before there is a result.
    """
    question.validate()
    sizes_and_rates = [(nodes, rate) for nodes in question.nodes for rate in question.rates]
    on_done = progress.begin("Simulating", len(sizes_and_rates) * question.runs)
    results: list[RaceResult] = []
    interrupted = False
    for nodes, rate in sizes_and_rates:
        counts_by_run: list[list[RaceCounts]] = []
        try:
            for counts in _iter_run_counts(question, nodes, rate):
                counts_by_run.append(counts)
                on_done(1)
        except KeyboardInterrupt:
            interrupted = True  # the runs that ended before still count
        results += _build_race_results(question, nodes, rate, counts_by_run)
        if interrupted:
            break
    if not results:
        raise KeyboardInterrupt

    return Races(
        headline=_render_expiry_advice(results, question.instances),
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
        interrupted=interrupted,
    )


def _build_race_setting(question: RaceQuestion, nodes: int, rate: float) -> RaceSetting:
    """Build the parameters of a simulation of one size and rate."""
    return RaceSetting(
        nodes,
        rate,
        room=question.room,
        load=question.load,
        instances=question.instances,
        binding=question.binding,
        informer=question.informer_lag,
        seconds=question.arrival_seconds,
    )


def _iter_run_counts(question: RaceQuestion, nodes: int, rate: float) -> Iterator[list[RaceCounts]]:
    """Simulate a size and a rate in several runs, and yield for each run a list of counts, one per expiry.

    Each run has its own seed. All expiries of a run have the same random draws.
    """
    setting = _build_race_setting(question, nodes, rate)
    ttls = [expiry.ttl(nodes) for expiry in question.expiries]
    for seed in range(question.seed, question.seed + question.runs):
        yield _simulate_each_ttl(setting, RandomDraws.from_seed(setting, seed), ttls)


def _build_race_results(
    question: RaceQuestion, nodes: int, rate: float, counts_by_run: Sequence[Sequence[RaceCounts]]
) -> list[RaceResult]:
    """Build a result for each expiry from the counts of all runs. Each run has its counts in the order of the expiries.

    Without runs, there are no results.
    """
    setting = _build_race_setting(question, nodes, rate)
    counts_by_expiry = zip(*counts_by_run, strict=True)  # empty without runs, unlike the expiries
    return [
        _build_race_result(setting, expiry.text, expiry.ttl(nodes), counts)
        for expiry, counts in zip(question.expiries, counts_by_expiry, strict=False)
    ]


def _simulate_each_ttl(setting: RaceSetting, draws: RandomDraws, ttls: Sequence[float]) -> list[RaceCounts]:
    """Simulate the same draws with each TTL, and return the counts in the order of the TTLs.

    A TTL that no informer lag exceeds has the same result as never expiring and is not simulated separately.
    """
    longest_lag = float(draws.own_lags.max(initial=0.0))
    effective_ttls = [ttl if ttl < longest_lag else FOREVER for ttl in ttls]
    counts_by_ttl = {ttl: RaceSimulation(setting, draws, ttl).run() for ttl in dict.fromkeys(effective_ttls)}
    return [counts_by_ttl[ttl] for ttl in effective_ttls]


def _build_race_result(setting: RaceSetting, expiry: str, ttl: float, counts: Sequence[RaceCounts]) -> RaceResult:
    """Build the result of all runs with one size, rate and expiry. `counts` has the counts of each run."""
    pods = sum(run.assumed for run in counts)
    double_booked = sum(run.double_booked for run in counts)
    shares = [run.double_booked / max(run.assumed, 1) for run in counts]
    is_forever = ttl == FOREVER
    expired_share = 0.0 if is_forever else setting.informer.compute_probability_above(ttl)
    return RaceResult(
        nodes=setting.nodes,
        pods_per_second=setting.rate,
        expiry=expiry,
        ttl_seconds=None if is_forever else ttl,
        pods=pods,
        expired=sum(run.expired for run in counts),
        expected_expired=pods * expired_share,
        double_booked=double_booked,
        share=double_booked / max(pods, 1),
        least_share=min(shares),
        most_share=max(shares),
        waiting=sum(run.waiting for run in counts),
    )


def _render_expiry_advice(results: Sequence[RaceResult], instances: int) -> str:
    """Return the advice on the expiry of assumed pods in one line, with the worst case that the advice avoids.

    If no pod is double-booked, the line says so. If several instances double-book pods even with the best expiry, it
    advises a single instance. If the worst case already has the best expiry, it describes the worst case without
    advice. If the best is no expiry, nothing has to change.
    """
    worst = _find_worst_result(results)
    if not worst.double_booked:
        expiries = sorted({result.expiry for result in results}, key=_get_expiry_sort_key)
        which = "whichever" if len(expiries) > 1 else "with the only"
        return f"No pod is bound to a full node, {which} expiry of assumed pods is simulated: {', '.join(expiries)}"

    best_expiry, remaining = _choose_best_expiry(results)
    if instances > 1 and remaining:
        remaining_worst = _find_worst_result([result for result in results if result.expiry == best_expiry])
        share = format_percent(remaining_worst.share)
        condition = "even without expiry" if best_expiry == NEVER else f"even with expiry {best_expiry}"
        return f"Let one instance place pods: {instances} instances double-book up to {share} of pods, {condition}"

    expiry_text = "without expiry" if worst.expiry == NEVER else f"with expiry {worst.expiry}"
    worst_text = (
        f"{expiry_text}, {format_percent(worst.share)} of pods would be double-booked "
        f"({counted(worst.nodes, 'node')}, {worst.pods_per_second:.3g} pods/s)"
    )
    if worst.expiry == best_expiry:
        return capitalize(worst_text)
    if best_expiry == NEVER:
        advice = "Nothing to change: kube-scheduler has not expired assumed pods since 1.25"
        return f"{advice}. {capitalize(worst_text)}"
    return f"Expire after {best_expiry}: {worst_text}"


def _find_worst_result(results: Sequence[RaceResult]) -> RaceResult:
    """Return the result with the largest share of double-booked pods."""
    return max(results, key=lambda result: result.share)


def _get_expiry_sort_key(text: str) -> tuple[float, str]:
    """Return a sort key that orders expiries by their duration in a cluster of one node, `never` last."""
    return parse_expiry(text).ttl(1), text


def format_percent(share: float) -> str:
    """Return a share as a percentage with one decimal, never rounding a positive share to 0.

    >>> format_percent(0.0123), format_percent(0.0004), format_percent(0.0)
    ('1.2%', 'less than 0.1%', '0%')
    """
    if not share:
        return "0%"
    return "less than 0.1%" if share < ROUNDED_TO_ZERO else f"{share * 100:.1f}%"


def _choose_best_expiry(results: Sequence[RaceResult]) -> tuple[str, int]:
    """Return the best expiry and the number of pods that are double-booked with it.

    `never` is the best if it was simulated, because an expiry can only give away room that is taken. Otherwise, the
    expiry with the fewest double-booked pods is the best. Ties go to the longest expiry.
    """
    double_booked: Counter[str] = Counter()
    for result in results:
        double_booked[result.expiry] += result.double_booked
    if NEVER in double_booked:
        return NEVER, double_booked[NEVER]
    best = min(double_booked, key=lambda expiry: (double_booked[expiry], -parse_expiry(expiry).ttl(1)))
    return best, double_booked[best]


def _build_recommendation(results: Sequence[RaceResult], question: RaceQuestion) -> str:
    """Return the advice and the reasons for it in one to three sentences.

    If pods expired, the advice is about the expiry. If even the best expiry does not prevent double booking by several
    instances, it is about their number. The last sentence says which versions of kube-scheduler expire assumed pods.
    """
    best_expiry, remaining = _choose_best_expiry(results)
    parts = []
    if any(result.expired for result in results):
        if best_expiry != NEVER:
            advice = f"Let assumed pods expire after {best_expiry}"
        elif any(result.double_booked for result in results):
            advice = "Do not let assumed pods expire"
        else:  # the first line says that no simulated expiry does harm
            advice = "Even so, do not let assumed pods expire"
        shortest_ttl = min(result.ttl_seconds or FOREVER for result in results)
        share = format_percent(question.informer_lag.compute_probability_above(shortest_ttl))
        parts.append(
            f"{advice}: for {share} of bindings, the informer lags longer than the shortest expiry. Until it "
            "catches up, the scheduler would count occupied room as free. Assumed pods are those that the scheduler "
            "counts on a node before the informer confirms the binding."
        )
    if question.instances > 1 and remaining:
        parts.append(
            "No expiry helps if instances do not see each other's pods in time: let one instance lead, or give each "
            "its own nodes (with a taint, and a node selector in its pods)."
        )
    parts.append("Since 1.25, kube-scheduler does not expire assumed pods; up to 1.22, it expired them after 30 s.")
    return " ".join(parts)
