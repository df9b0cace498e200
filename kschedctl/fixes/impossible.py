"""Why a kind of remedy cannot exist, with the figures: only what was replayed, or holds for every node there is."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.resource_names import CPU, format_amount, format_in_one_unit
from kschedctl.fixes.search import RemedySearch
from kschedctl.fixes.targets import nodes_to_try
from kschedctl.fixes.trial.machine_sizes import is_plausible
from kschedctl.fixes.trial.readmission import runtime_class_of
from kschedctl.fixes.trial.trials import PREEMPTS, RemedyTrial
from kschedctl.fixes.trial.tried_node import find_missing_host_with_data
from kschedctl.fixes.ways.node_affinity import find_host_of_terms
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.snapshot.node_order import HOSTNAME


def impossible(search: RemedySearch) -> tuple[str, ...]:
    """One line for each kind that nothing was found of."""
    base = search.trials.base
    if base.cycle is None:
        return ()
    kinds = {fix.kind for trial in search.found for fix in trial.changes}
    lines = [*too_large(base), *_pinned_to_missing_host(base), *_asked_by_runtime_class(base)]
    if "AddNode" not in kinds and (tried := search.trials.singles("AddNode")):
        lines.append(f"one more node: it fits on none like those of the cluster ({_sorts(len(tried))} tried)")
    if PREEMPTS not in kinds:
        lines += _not_preempting(search)
    return tuple(lines)


def _pinned_to_missing_host(base: RemedyTrial) -> Iterator[str]:
    """Yield why the pod cannot just go to another host, if it is pinned to one that is gone and had its files."""
    selected = [base.pod.spec.node_selector[HOSTNAME]] if HOSTNAME in base.pod.spec.node_selector else []
    host = find_missing_host_with_data(base, HOSTNAME, selected) or find_host_of_terms(base)
    if host:
        yield f"another host: {host} is gone, and the files of the pod's hostPath volumes with it; bring the host back"


def _asked_by_runtime_class(base: RemedyTrial) -> Iterator[str]:
    """Yield the node labels that no node has and that the pod cannot drop, as its RuntimeClass asks for them."""
    cluster = base.scheduler.view.cluster
    runtime_class = runtime_class_of(base.pod, cluster)
    if runtime_class is None or runtime_class.scheduling is None:
        return
    for key, value in runtime_class.scheduling.node_selector.items():
        if value not in base.scheduler.view.nodes.label(key).values:
            name = runtime_class.metadata.name
            yield f"another node selector: RuntimeClass {name} asks for {key}={value}, and admission puts that back"


def _sorts(number: int) -> str:
    return "1 sort" if number == 1 else f"{number} sorts"


def too_large(base: RemedyTrial, *, new_machine: bool = False) -> tuple[str, ...]:
    """Return a line for each resource of which no node has as much as the pod requests, even when it is empty.

    ``new_machine``: an autoscaler knows a machine that is large enough, so that the request is not to be doubted.
    """
    seen: dict[str, Insufficient] = {}
    for tried in nodes_to_try(base):
        for refusal in tried.refusals():
            if isinstance(refusal.fact, Insufficient) and refusal.fact.nowhere:
                seen.setdefault(refusal.fact.resource, refusal.fact)
    return tuple(f"room: {_short(fact, doubted=not new_machine)}" for fact in seen.values())


def _short(fact: Insufficient, doubted: bool = False) -> str:
    """Return how much is requested and offered; ``doubted``: whether to say that a request looks wrong.

    >>> _short(Insufficient(resource="cpu", requested=64000, free=1, offered=2, largest=31500))
    'no node is large enough: the largest has 31.5 of the 64 cpu asked, short by 32.5'
    >>> _short(Insufficient(resource="a/b", requested=2, free=0, offered=0, largest=0))
    'no node offers a/b, of which 2 are asked'
    >>> _short(Insufficient(resource="a/b", requested=8, free=4, offered=4, largest=4), doubted=True)[-23:]
    'the request looks wrong'
    """
    name, asked, most = fact.resource, fact.requested, fact.largest
    if not most:
        return f"no node offers {name}, of which {_written(name, asked)} are asked"
    if name == CPU:
        have, want, short = (f"{milli / 1000:g}" for milli in (most, asked, asked - most))
    else:
        want, have, short = format_in_one_unit(name, asked, most, asked - most)
    wrong = doubted and not is_plausible(name, asked, most)
    looks_wrong = "; no machine that is known here is that large, so the request looks wrong" * wrong
    return f"no node is large enough: the largest has {have} of the {want} {name} asked, short by {short}{looks_wrong}"


def _written(name: str, amount: int) -> str:
    return f"{amount / 1000:g}" if name == CPU else format_amount(name, amount)


def _not_preempting(search: RemedySearch) -> Iterator[str]:
    """Why no other PriorityClass helps; nothing is said of classes that nobody read."""
    unread = search.trials.scheduler.cluster.gap("PriorityClass") is not None
    if unread or search.trials.make_room(()) or not search.wishes.considers(PREEMPTS, "author"):
        return
    if not search.trials.singles(PREEMPTS):
        priority = search.trials.base.pod.spec.priority or 0
        yield f"another PriorityClass: none but the system's above its priority of {priority:,} lets pods preempt"
    else:
        yield "another PriorityClass: in none above its own, but for the system's, would the scheduler evict pods"
