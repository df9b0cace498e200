"""Pages of `kschedctl remedies`: each fix with its commands, and why other kinds of fixes cannot help.

With `-o patch`, fixes are printed as strategic merge patches, with other commands as comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kschedctl.commands.explain.page import build_replicas_line
from kschedctl.commands.make_room.page import build_moves_sections
from kschedctl.commands.remedies.report import ChosenRemedy, HelplessPods, Remedies, RemediesOfMany
from kschedctl.errors import UsageError
from kschedctl.render.data import to_yaml
from kschedctl.render.fixes import build_fix_lines, build_fixes_section, describe_fix_effect
from kschedctl.render.page import (
    Block,
    Marked,
    Page,
    Stack,
    Style,
    describe_verdict,
    names,
    paragraph,
    section,
)
from kschedctl.render.sections import (
    build_caveats,
    build_interruption_line,
    build_next_section,
    describe_message,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table
from kschedctl.render.unseen_pods import build_held_back_section, build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.remedy import TEAMS, Remedy, sort_verified_fixes_first
from kschedctl.reports.unknown import NOT_CERTAIN, VERDICT, describe_verdict_doubts
from kschedctl.text.counts import agreeing, capitalize, counted, join_words
from kschedctl.text.printable import printable


def build_remedies_page(report: Remedies, style: Style) -> Page:
    """Build the page for one pod: its verdict, the fixes with their commands, a plan that moves pods, and notes."""
    return (
        *build_interruption_line(report.interrupted, "the fixes so far, which may be unchecked with other pods"),
        *_build_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_fixes_section(report.remedies, report.impossible, style, with_manifests=True),
        *(build_moves_sections(report.make_room, style) if report.make_room else ()),
        *_build_no_fix_note(report),
        *_build_note_on_incomplete_search(report),
        *_build_unchecked_note(report),
        *_build_waiting_elsewhere(report, style),
        *build_next_section(style, "All fixes" if report.lacks_fixes else "Next"),
    )


def _build_verdict_lines(report: Remedies) -> Page:
    """Build the lines with the replica counts, the pod's verdict and the headline.

    If the verdict is undecided, the doubts about it are listed as well. Otherwise, a line names the pods for which the
    pod stands, such as the pods of its workload. A warning names the pods that are preempted without a fix.
    """
    replicas_line = build_replicas_line(report.replicas)
    pod = Marked(report.pod, Tone.STRONG)
    doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if report.undecided and doubts:
        verdict = Marked(f"{describe_verdict(report.verdict)}, but {NOT_CERTAIN}:", Tone.WARNING)
        return (*replicas_line, paragraph(pod, verdict, describe_verdict_doubts(doubts)), paragraph(report.headline))
    _, _, headline = report.build_headline_parts()
    represented_pods = [paragraph(Marked(f"This is {report.stands_for}", Tone.FAINT))] if report.stands_for else []
    verdict_line = paragraph(pod, mark_verdict(report.verdict, ":"), headline)
    return (*replicas_line, verdict_line, *represented_pods, *_build_preemption_lines(report))


def _build_preemption_lines(report: Remedies | RemediesOfMany) -> Page:
    """Build the line that names the pods that are preempted without a fix. Return () if there are none."""
    return tuple(paragraph(Marked(f"{capitalize(text)}.", Tone.WARNING)) for text in report.describe_preemption())


def build_page_for_many_pods(report: RemediesOfMany, style: Style) -> Page:
    """Build the page for many pods: how many no longer wait, the chosen fixes, and which pods still wait.

    If no pod waits, the page says only that, and lists uncreated pods and objects that wait elsewhere.
    """
    not_created = build_not_created_section(report.not_created, style) if report.not_created else ()
    if not report.waiting:
        return (*not_created, *_build_nothing_waits_part(report, style))
    (title,) = report.build_headline_parts()
    at_most = counted(report.max_changes, "change was", "changes were")
    limit = f" At most {at_most} combined." if report.ends_at_limit else ""
    method = f"Changes that clear most pods come first. Each was simulated on top of the previous ones.{limit}"
    note = paragraph(Marked(method, Tone.FAINT))
    fixes: list[Block] = []
    for number, chosen in enumerate(report.chosen, 1):
        fixes += _build_chosen_fix(number, chosen, style)
    if fixes:
        fixes.append(note)
    incomplete: Page = ()
    if not report.complete:
        incomplete_note = "not all changes were tried, so there may be better ones"
        incomplete = (paragraph(Marked("Not complete:", Tone.WARNING), incomplete_note),)
    return (
        *build_interruption_line(report.interrupted, "the changes found so far"),
        *section(title, *fixes),
        *_build_preemption_lines(report),
        *incomplete,
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *not_created,
        *_build_still_waiting_table(report.left, style),
        *_build_waiting_elsewhere(report, style),
        *build_next_section(style, "All changes"),
    )


def _build_nothing_waits_part(report: RemediesOfMany, style: Style) -> Page:
    """Build the part that says that no pod waits, and lists objects and pods that wait elsewhere."""
    title, scope = report.build_headline_parts()
    tone = Tone.WARNING if report.waiting_elsewhere else Tone.GOOD
    return (
        paragraph(Marked(title, tone), scope),
        *_build_preemption_lines(report),
        *_build_waiting_elsewhere(report, style),
        *(build_next_section(style, "Pods pending elsewhere") if report.elsewhere else ()),
    )


def _build_chosen_fix(number: int, chosen: ChosenRemedy, style: Style) -> Page:
    """Build the blocks of a chosen fix: the workloads that it changes, how many pods it clears, and its commands."""
    facts = []
    if chosen.workloads:
        facts.append(Marked(f"changes {names(chosen.workloads)}", Tone.FAINT))
    cleared = counted(len(chosen.clears), "pending pod")
    facts.append(Marked(f"result: {cleared} {agreeing(len(chosen.clears), 'gets', 'get')} a node", Tone.FAINT))
    facts.append(Marked(f"who: {TEAMS[chosen.remedy.by]} team", Tone.FAINT))
    return build_fix_lines(number, chosen.remedy, style, with_manifests=True, facts=tuple(facts))


def _build_still_waiting_table(helpless_pods: Sequence[HelplessPods], style: Style) -> Page:
    """Build a table of the pods that still wait after all chosen fixes, with kube-scheduler's messages."""
    columns = (Column("pods", right=True), Column("workload, reason"))
    return build_table(
        helpless_pods,
        columns,
        partial(_build_waiting_row, style=style),
        style,
        title="Still waiting after these changes",
    )


def _build_waiting_row(pods: HelplessPods, style: Style) -> Row:
    """Build the table row for similar pods that still wait: their number, workload and message from kube-scheduler.

    If these pods need a fix of their own, the row names it.
    """
    workload = Marked(pods.workload, Tone.STRONG)
    limit_text = ""
    if pods.alone_is_taken:
        limit_text = ", but other waiting pods take its room first"
    elif pods.alone_is_too_little:
        limit_text = f", which is enough for {pods.alone_clears:,} of the {pods.alone_wanted:,} pods that need it"
    own_fix = (f"Needs a separate fix: {pods.alone}{limit_text}",) if pods.alone else ()
    return (f"{len(pods.pods):,}", Stack((workload, *describe_message(pods.message, style, len(pods.pods)), *own_fix)))


def _build_waiting_elsewhere(report: Remedies | RemediesOfMany, style: Style) -> Page:
    """Build the section on objects whose pods kube-scheduler does not see yet, or nothing if there are none."""
    return build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()


def _build_no_fix_note(report: Remedies) -> Page:
    """Build a note for a report without fixes: that none was found, and that excluded kinds of changes may help.

    The first part is left out if a heading of the page says it. Return () if there are fixes or if nothing is left to
    say.
    """
    if not report.lacks_fixes:
        return ()
    no_fix = "" if report.impossible else "no fix was found"  # a heading says so
    text = "; ".join(filter(None, (no_fix, report.restriction_clause)))
    return (paragraph(Marked(capitalize(text), Tone.WARNING)),) if text else ()


def _build_note_on_incomplete_search(report: Remedies) -> Page:
    """Build a note that there may be more fixes, or () if the search tried all sets or did not run."""
    if report.searched is None or report.searched.complete:
        return ()
    note = f"the search ended after {counted(report.searched.replays, 'replay')}: there may be more"
    return (paragraph(Marked("Not complete:", Tone.WARNING), note),)


def _build_unchecked_note(report: Remedies) -> Page:
    """Build a note with the numbers of the fixes that were not replayed together with the other waiting pods.

    There is no note if all or none of the fixes were replayed together with them.
    """
    numbered = enumerate(sort_verified_fixes_first(report.remedies), 1)
    results = {number: remedy.holds for number, remedy in numbered if not remedy.needs_values}
    unchecked = [f"{number}" for number, holds in results.items() if holds is None]
    if not unchecked or len(unchecked) == len(results):
        return ()
    fixes = f"{agreeing(len(unchecked), 'Fix', 'Fixes')} {join_words(unchecked)}"
    were = agreeing(len(unchecked), "was", "were")
    text = f"{fixes} {were} replayed for this pod alone, without the other pending pods"
    return (paragraph(Marked(text, Tone.FAINT)),)


def render_patches(document: Document) -> str:
    """Render a YAML document for each remedy of the report, best first, with explanatory comments.

    Raises UsageError for a report of another kind than Remedies and RemediesOfMany.
    """
    if isinstance(document, RemediesOfMany):
        remedies = [chosen.remedy for chosen in document.chosen]
    elif isinstance(document, Remedies):
        remedies = [*sort_verified_fixes_first(document.remedies)]
    else:
        kind = getattr(document, "kind", "another document")
        raise UsageError(f"-o patch works only for remedies, but this is {kind}", hint="-o json has everything")
    return "---\n".join(_render_remedy(number, remedy) for number, remedy in enumerate(remedies, 1))


def _render_remedy(number: int, remedy: Remedy) -> str:
    """Render the patch of the pod's owner as YAML, below comments with the remedy, its drawbacks and other commands.

    A remedy without such a patch consists of comments only.
    """
    notes = [f"{number}: {remedy.summary}", f"result: {describe_fix_effect(remedy)}"]
    if remedy.gain:
        notes.append(f"also: {remedy.gain}")
    notes += [f"caveat: {drawback}" for drawback in remedy.drawbacks]
    notes.append(f"who: {TEAMS[remedy.by]} team")
    if remedy.owner:
        notes.append(f"strategic merge patch of {remedy.owner}")
    for command in remedy.commands:
        if not (remedy.owner_patch and _is_patch_command(command)):
            notes.append(command.removeprefix("# ") if command.startswith("#") else f"run: {command}")
    comments = "".join(f"# {printable(line)}\n" for note in notes for line in note.splitlines())
    return comments + (to_yaml(remedy.owner_patch) if remedy.owner_patch else "")


def _is_patch_command(command: str) -> bool:
    """Return whether the command applies the strategic merge patch of the pod's owner."""
    return " --type strategic " in command
