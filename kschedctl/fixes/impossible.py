"""Explain, with figures, why a kind of fix is impossible. Only replayed results and facts about all nodes are used."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.resource_names import format_amounts_for_sentence
from kschedctl.fixes.proposals import iter_nodes_to_try
from kschedctl.fixes.search import RemedySearch
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.guesses import is_plausible_machine_size
from kschedctl.fixes.trial.trial_node import find_missing_host_with_files
from kschedctl.fixes.trial.trials import RemedyTrial, find_runtime_class
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient
from kschedctl.snapshot.nodes import HOSTNAME

_NOT_TRIED = "(system classes were not tried)"


def explain_impossible_fixes(search: RemedySearch) -> tuple[str, ...]:
    """Return a line for each kind of fix that the search did not find because it is impossible.

    There are no lines if admission or the lack of a profile ended the replay before the scheduling cycle.
    """
    base = search.trials.base
    if base.cycle is None:
        return ()
    kinds = {fix.kind for trial in search.working_trials for fix in trial.changes}
    lines = [*explain_too_large_requests(base), *_explain_missing_host(base), *_explain_runtime_class_selector(base)]
    failed_node_trials = search.trials.find_single_trials(FixKind.ADD_NODE)
    if FixKind.ADD_NODE not in kinds and failed_node_trials:
        tried_text = f"{_format_shape_count(len(failed_node_trials))} tried"
        lines.append(f"one more node like the existing ones: the pod would not fit on it ({tried_text})")
    if FixKind.USE_PRIORITY_CLASS not in kinds:
        lines += _explain_no_higher_priority_class(search)
    return tuple(lines)


def _explain_missing_host(base: RemedyTrial) -> Iterator[str]:
    """Yield a line that names the missing host if the files of the pod's hostPath volumes tie the pod to this host."""
    from kschedctl.fixes.ways.node_affinity import find_missing_required_host  # noqa: PLC0415 - only this line needs it

    selected_hosts = [base.pod.spec.node_selector[HOSTNAME]] if HOSTNAME in base.pod.spec.node_selector else []
    host = find_missing_host_with_files(base, HOSTNAME, selected_hosts) or find_missing_required_host(base)
    if host:
        yield f"another host: {host} is gone, and with it the files of the pod's hostPath volumes; bring the host back"


def _explain_runtime_class_selector(base: RemedyTrial) -> Iterator[str]:
    """Yield a line for each node label that the pod's RuntimeClass requires and no node has.

    Changing the pod's nodeSelector would not help, since admission adds the label again.
    """
    cluster = base.scheduler.view.cluster
    runtime_class = find_runtime_class(base.pod, cluster)
    if runtime_class is None or runtime_class.scheduling is None:
        return
    for key, value in runtime_class.scheduling.node_selector.items():
        if value not in base.scheduler.view.nodes.label(key).values:
            name = runtime_class.metadata.name
            requirement = f"RuntimeClass {name} requires {key}={value}"
            yield f"a different node selector: {requirement}, and admission would add it back"


def _format_shape_count(number: int) -> str:
    """Format a number of node shapes, which are called node types for the user."""
    return "1 node type" if number == 1 else f"{number} node types"


def explain_too_large_requests(base: RemedyTrial, *, fits_new_machine: bool = False) -> tuple[str, ...]:
    """Return a line for each requested resource of which even an empty node has too little.

    The line adds that the request looks wrong if no known machine is that large, unless `fits_new_machine` says that an
    autoscaler knows such a machine.
    """
    first_facts: dict[str, Insufficient] = {}
    for tried in iter_nodes_to_try(base):
        for rejection in tried.find_rejections():
            if isinstance(rejection.fact, Insufficient) and rejection.fact.exceeds_every_node:
                first_facts.setdefault(rejection.fact.resource, rejection.fact)
    shortages = (_describe_shortage(fact, doubted=not fits_new_machine) for fact in first_facts.values())
    return tuple(f"freeing room on existing nodes: {shortage}" for shortage in shortages)


def _describe_shortage(fact: Insufficient, doubted: bool = False) -> str:
    """Describe how much of a resource is requested and how much the largest node has.

    With `doubted`, the text adds that the request looks wrong if no known machine is that large.

    >>> _describe_shortage(Insufficient(resource="cpu", requested=64000, free=1, offered=2, largest=31500))
    'the pod needs 64 CPUs, but the largest node has only 31.5'
    >>> _describe_shortage(Insufficient(resource="a/b", requested=2, free=0, offered=0, largest=0))
    'the pod needs 2 a/b, which no node offers'
    >>> _describe_shortage(Insufficient(resource="a/b", requested=8, free=4, offered=4, largest=4), doubted=True)[-23:]
    'the request looks wrong'
    """
    name = fact.resource
    requested = fact.requested
    largest = fact.largest
    amounts = format_amounts_for_sentence(name, requested, largest)
    (request_text, largest_text), unit = amounts
    if not largest:
        return f"the pod needs {request_text} {unit}, which no node offers"
    largest_clause = f"the largest node has only {largest_text}{amounts.unit_suffix}"
    text = f"the pod needs {request_text} {unit}, but {largest_clause}"
    if doubted and not is_plausible_machine_size(name, requested, largest):
        text += ". No known machine is that large, so the request looks wrong"
    return text


def _explain_no_higher_priority_class(search: RemedySearch) -> Iterator[str]:
    """Yield a line that says why no higher PriorityClass helps.

    Nothing is yielded if the PriorityClasses were not read, the pod can already preempt, or the user excluded this kind
    of fix.
    """
    if search.trials.scheduler.cluster.find_gap("PriorityClass") is not None:
        return
    if search.trials.can_preempt(changes=()):
        return
    if not search.criteria.considers(FixKind.USE_PRIORITY_CLASS, by="author"):
        return
    if not search.trials.find_single_trials(FixKind.USE_PRIORITY_CLASS):
        priority = search.trials.base.pod.spec.priority or 0
        yield f"a higher PriorityClass: none above priority {priority:,} lets pods preempt {_NOT_TRIED}"
    else:
        yield f"a higher PriorityClass: no class lets the pod fit by preemption {_NOT_TRIED}"
