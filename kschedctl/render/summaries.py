"""From an answer in full to its summary: what decides, a few of each list, never more than 12 KB."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from kschedctl.render.page import UNFOLDED, Heading, Page, Paragraph, Style, marked
from kschedctl.render.renderers import page_of
from kschedctl.reports.audit.audit import Audit
from kschedctl.reports.capacity import Capacity
from kschedctl.reports.document import Document
from kschedctl.reports.drain import Drain
from kschedctl.reports.explanation import Cause, Elimination, Explanation, NodeGroup
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.failures import Failures
from kschedctl.reports.pending import PendingGroup, PendingPods
from kschedctl.reports.remedies import OWNERS, ChosenRemedy, Remedies, RemediesOfMany, Remedy
from kschedctl.reports.simulation import SimulationReport, UnplacedPods
from kschedctl.reports.summary import ShortCause, ShortFix, ShortNodes, ShortPods, Summary
from kschedctl.reports.unknown import reasons
from kschedctl.reports.whatif import WhatIf

MOST_BYTES, MOST_ENTRIES, LONGEST = 12_000, 8, 400
"""How long the JSON, a list and a text (in characters) may be."""
LISTS = ("pods", "closest", "causes", "fixes", "victims", "advice", "doubts")
"""What is shortened where a summary is too long still."""


def summary_of(document: Document, style: Style) -> Summary:
    """``style.commands`` become its next commands; of a kind that has no function here the first line is told."""
    kind = str(getattr(document, "kind", ""))
    commands = (command for group in style.commands.values() for command in group)
    base = Summary(
        summarizes=kind,
        subject="",
        verdict="",
        headline=_headline(page_of(document, Style(width=UNFOLDED))),
        undecided=bool(getattr(document, "undecided", False)),
        doubts=_doubts(document),
        next=tuple(islice(dict.fromkeys(commands), 3)),
    )
    return _within_bytes(_shortened(_summarized(document, base)))


def _headline(page: Page) -> str:
    """The first line of an answer, as it is printed."""
    first = next((block for block in page if isinstance(block, Paragraph | Heading)), Paragraph(()))
    if isinstance(first, Heading):
        return first.text
    return " ".join(marked(part).text for part in first.parts if marked(part).text)


def _doubts(document: Document) -> tuple[str, ...]:
    unknown = reasons(getattr(document, "unknown", ()))
    unreplayed = (f"not replayed: {what}" for what in getattr(document, "not_replayed", ()))
    faults = (f"a bug of kube-scheduler decides: {what}" for what in getattr(document, "upstream_faults", ()))
    return (*([unknown] if unknown else ()), *unreplayed, *faults)


def _of_explanation(report: Explanation, base: Summary) -> Summary:
    preemption = report.preemption
    chosen = preemption.chosen if preemption is not None and preemption.asked else None
    victims = preemption.candidates[chosen].victims if preemption is not None and chosen else ()
    return replace(
        base,
        subject=report.pod,
        verdict=report.verdict,
        message=report.message or "",
        causes=tuple(map(_cause, report.causes)) or tuple(map(_elimination, report.eliminations)),
        closest=tuple(map(_nodes, report.groups)),
        best={node: report.total[node] for node in islice(_by_score(report), 3)},
        nominated=chosen or "",
        victims=victims,
        fixes=tuple(map(_fix, report.remedies)),
        advice=tuple(advice.text for advice in report.advice),
        figures={"feasibleNodes": len(report.feasible), "nodes": len(report.nodes)},
    )


def _by_score(report: Explanation) -> list[str]:
    """The nodes that fit: those that kube-scheduler may choose first, then by score and name."""
    return sorted(report.total, key=lambda node: (node not in report.best, -report.total[node], node))


def _cause(cause: Cause) -> ShortCause:
    return ShortCause(cause.reason, cause.nodes, cause.plugin, cause.within, cause.nearest, cause.fact)


def _elimination(elimination: Elimination) -> ShortCause:
    closest = elimination.nearest
    if closest is None:
        return ShortCause(elimination.reason, elimination.nodes, elimination.plugin)
    return ShortCause(
        elimination.reason, elimination.nodes, elimination.plugin, closest=closest.node, fact=closest.fact
    )


def _nodes(group: NodeGroup) -> ShortNodes:
    facts = (f"{refusal.plugin}: {refusal.fact or refusal.reason}" for refusal in group.refusals[:4])
    return ShortNodes(group.nodes, group.pools[:3], group.such_as[0], tuple(facts))


def _fix(remedy: Remedy, clears: int = 0) -> ShortFix:
    return ShortFix(
        summary=remedy.summary,
        owner=OWNERS[remedy.by],
        but=remedy.weakens or "",
        nodes=remedy.opens[:3],
        clears=clears,
        commands=remedy.commands[:4],
    )


def _of_explanations(report: Explanations, base: Summary) -> Summary:
    pods = tuple(
        ShortPods(1, explanation.pod, explanation.stands_for, explanation.headline)
        for explanation in report.explanations
    )
    return replace(base, subject=f"{len(pods)} pods", pods=pods, figures={"pods": len(pods)})


def _of_pending(report: PendingPods, base: Summary) -> Summary:
    def short(group: PendingGroup) -> ShortPods:
        workload = group.workloads[0] if group.workloads else ""
        return ShortPods(len(group.pods), group.pods[0], workload, f"{group.verdict}: {group.cause}")

    uncreated = tuple(
        ShortPods(lacking.missing or 0, "", lacking.workload, lacking.headline) for lacking in report.not_created
    )
    figures = {"pending": sum(len(group.pods) for group in report.groups), "causes": len(report.groups)}
    return replace(base, subject=report.scope, pods=(*uncreated, *map(short, report.groups)), figures=figures)


def _of_remedies(report: Remedies, base: Summary) -> Summary:
    fixes = tuple(map(_fix, report.remedies))
    return replace(base, subject=report.pod, verdict=report.verdict, fixes=fixes, advice=report.impossible)


def _of_many_remedies(report: RemediesOfMany, base: Summary) -> Summary:
    def fix(chosen: ChosenRemedy) -> ShortFix:
        return _fix(chosen.remedy, len(chosen.clears))

    left = tuple(
        ShortPods(len(helpless.pods), helpless.pods[0], helpless.workload, helpless.message) for helpless in report.left
    )
    figures = {"waiting": report.waiting, "cleared": report.cleared}
    return replace(base, subject=report.scope, fixes=tuple(map(fix, report.chosen)), pods=left, figures=figures)


def _unplaced(pods: UnplacedPods) -> ShortPods:
    return ShortPods(len(pods.pods), pods.pods[0], pods.workload, pods.message or pods.verdict)


def _of_simulation(report: SimulationReport, base: Summary) -> Summary:
    return replace(
        base,
        verdict="All scheduled" if not report.unplaced else "Not all scheduled",
        pods=tuple(map(_unplaced, report.pending)),
        victims=tuple(evicted.pod for evicted in report.evicted),
        figures={"placed": report.placed, "unplaced": report.unplaced, "evicted": len(report.evicted)},
    )


def _of_drain(report: Drain, base: Summary) -> Summary:
    blocked = tuple(ShortPods(1, pod.pod, pod.workload, pod.why) for pod in report.blocked)
    figures = {
        "moved": len(report.moved),
        "unplaced": sum(len(group.pods) for group in report.unplaced),
        "blocked": len(report.blocked),
        "evicted": len(report.evicted),
        "lost": len(report.lost),
    }
    return replace(
        base,
        subject=", ".join(report.nodes),
        verdict="Safe" if report.safe else "Drained" if report.drained else "Blocked",
        pods=(*blocked, *map(_unplaced, report.unplaced)),
        victims=tuple(evicted.pod for evicted in report.evicted),
        figures=figures,
    )


def _of_failures(report: Failures, base: Summary) -> Summary:
    worst = report.failures[0] if report.failures else None
    figures = {"tried": len(report.failures), "withConsequences": sum(not loss.safe for loss in report.failures)}
    if worst is not None:
        figures |= {"displaced": worst.displaced, "unplaced": worst.unplaced, "evicted": worst.evicted}
    return replace(
        base,
        subject=f"worst: {worst.name}" if worst is not None else report.unit,
        verdict="Safe" if report.safe else "Unsafe",
        pods=tuple(map(_unplaced, worst.reasons)) if worst is not None else (),
        figures=figures,
    )


def _of_audit(report: Audit, base: Summary) -> Summary:
    sections = tuple(section for section in report.sections if section.findings)
    return replace(
        base,
        verdict=report.state,
        causes=tuple(ShortCause(f"{section.name}: {section.headline}", 0) for section in sections),
        advice=tuple(f"{finding.object}: {finding.message}" for section in sections for finding in section.findings),
        figures={section.name: len(section.findings) for section in report.sections},
    )


def _of_capacity(report: Capacity, base: Summary) -> Summary:
    shapes = tuple(ShortPods(shape.fits, "", shape.shape, shape.message or shape.verdict) for shape in report.shapes)
    return replace(base, pods=shapes, figures={shape.shape: shape.fits for shape in report.shapes[:MOST_ENTRIES]})


def _of_what_if(report: WhatIf, base: Summary) -> Summary:
    newly = [change for change in report.changes if change.change == "NewlyPending"]
    before, after = report.pending
    return replace(
        base,
        subject=report.name,
        pods=tuple(ShortPods(1, change.pod, change.workload, change.message) for change in newly),
        figures={"pendingBefore": before, "pendingAfter": after, "changes": len(report.changes)},
    )


def _summarized(document: Document, base: Summary) -> Summary:
    """With what of the document decides."""
    summary = base
    match document:
        case Explanation():
            summary = _of_explanation(document, base)
        case Explanations():
            summary = _of_explanations(document, base)
        case PendingPods():
            summary = _of_pending(document, base)
        case Remedies():
            summary = _of_remedies(document, base)
        case RemediesOfMany():
            summary = _of_many_remedies(document, base)
        case SimulationReport():
            summary = _of_simulation(document, base)
        case Drain():
            summary = _of_drain(document, base)
        case Failures():
            summary = _of_failures(document, base)
        case Audit():
            summary = _of_audit(document, base)
        case Capacity():
            summary = _of_capacity(document, base)
        case WhatIf():
            summary = _of_what_if(document, base)
    return summary


def _shortened(summary: Summary, entries: int = MOST_ENTRIES) -> Summary:
    """With so many entries of each list at most, and no text longer than LONGEST."""
    whole = {name: getattr(summary, name) for name in LISTS}
    left_out = {name: max(len(found) - entries, 0) + summary.left_out.get(name, 0) for name, found in whole.items()}
    kept = {name: _cut(found[:entries]) for name, found in whole.items()}
    texts = {name: _cut(getattr(summary, name)) for name in ("subject", "headline", "message")}
    return replace(summary, **kept, **texts, left_out={name: number for name, number in left_out.items() if number})


def _cut(value: object) -> object:
    """The value with long texts cut, but for commands, which are of use as a whole alone."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    if isinstance(value, tuple):
        return tuple(map(_cut, value))
    if isinstance(value, msgspec.Struct):
        return replace(value, **{f: _cut(getattr(value, f)) for f in value.__struct_fields__ if f != "commands"})
    return value


def _within_bytes(summary: Summary) -> Summary:
    """With ever fewer entries, and in the end without commands, until it has MOST_BYTES."""
    for entries in range(MOST_ENTRIES, 0, -1):
        if len(msgspec.json.encode(summary)) <= MOST_BYTES:
            return summary
        summary = _shortened(summary, entries)
    bare: Iterable[ShortFix] = (replace(fix, commands=()) for fix in summary.fixes)
    return replace(summary, fixes=tuple(bare), next=())
