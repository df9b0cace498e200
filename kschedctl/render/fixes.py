"""Fixes as tables and commands, for several pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Command,
    Marked,
    Page,
    Style,
    Verbatim,
    limit_rows_by_style,
    names,
    paragraph,
    section,
)
from kschedctl.reports.columns import Tone
from kschedctl.reports.remedy import TEAMS, FixStanding, Remedy, chain_commands, sort_verified_fixes_first
from kschedctl.reports.summary import CostKind, list_clauses
from kschedctl.text.counts import agreeing, join_clauses, join_first_few

TITLE, TITLE_WITH_RIVALS = "Fixes, each verified by replay", "Fixes, each verified by a replay with all waiting pods"
"""The second one is shown if some changes are not enough, since other waiting pods take the room that they make."""
TITLE_OF_INSUFFICIENT = "Not enough on their own: other pending pods would be scheduled first"
TITLE_OF_INCOMPLETE = "Not verified: these need values that only you know"
TITLE_OF_LOSING = "Not worth it: more pods lose their node than get one"
TITLES = (TITLE, TITLE_WITH_RIVALS, TITLE_OF_INCOMPLETE, TITLE_OF_INSUFFICIENT, TITLE_OF_LOSING)
LABEL_BY_STANDING = {
    FixStanding.VERIFIED: "Best fix",
    FixStanding.INCOMPLETE: "Not verified",
    FixStanding.INSUFFICIENT: "Not enough",
    FixStanding.LOSING: "Not worth it",
}
"""The label of the first fix."""

REMEDIES_SHOWN = 7
ALTERNATIVES_SHOWN = 3
MODEL_PREFIX = "like "
"""The start of an alternative that is another node to model a new node on."""
HOSTNAME_PREFIX = "kubernetes.io/hostname="


def build_best_fix(remedies: Sequence[Remedy], style: Style) -> Page:
    """Build the lines about the first fix. Its commands are included if each of them fits on a line.

    Return () if there is no fix, or if the page has patches, because a page with patches lists all fixes anyway.
    """
    if not remedies or style.patches:
        return ()
    best = sort_verified_fixes_first(remedies)[0]
    parts: list[Cell] = [Marked(f"{LABEL_BY_STANDING[best.standing]}:", Tone.STRONG)]
    if drawbacks := _list_drawbacks_not_in_label(best):
        parts += [f"{best.summary},", Marked(f"but {join_clauses(drawbacks)}", Tone.WARNING)]
    else:
        parts.append(best.summary)
    commands_fit = all(len(command) < style.width - 1 for command in best.commands)
    edits = "; ".join(best.edits)
    edit_line = (paragraph("in the manifest:", edits),) if 0 < len(edits) < style.width else ()
    return (paragraph(*parts), *edit_line, *map(Command, chain_commands(best.commands) if commands_fit else ()))


def _list_drawbacks_not_in_label(remedy: Remedy) -> tuple[str, ...]:
    """Return the drawbacks of a fix that its label does not say, as clauses.

    If the fix needs values from the user, its label is "Not verified:", and the first clause names the values.
    """
    if not remedy.needs_values:
        return remedy.drawbacks
    other_costs = (cost for cost in remedy.all_costs if cost.kind is not CostKind.NEEDS_VALUES)
    return (f"first fill in {', '.join(remedy.needs_values)}", *list_clauses(other_costs))


def build_fixes_section(
    remedies: Sequence[Remedy],
    impossible: Sequence[str],
    style: Style,
    title: str = "",
    with_manifests: bool = False,
    *,
    gets_new_node: bool = False,
) -> Page:
    """Build the sections that list the fixes with their commands, and then the changes that cannot help.

    Fixes have a section for each standing: verified, incomplete, insufficient or losing. ``title`` replaces the heading
    of the verified fixes. Unless the style is wide, only the first fixes are shown, and a note says how many more there
    are.

    The manifests to complete are shown as YAML if ``with_manifests`` or ``style.patches`` is set. If neither is set,
    the commands of insufficient and losing fixes are left out.

    ``impossible`` describes the changes that cannot help. If there are such changes but no fixes, ``gets_new_node``
    adds a line which says that no fix is needed.
    """
    has_insufficient = any(remedy.standing is FixStanding.INSUFFICIENT for remedy in remedies)
    titles = {
        FixStanding.VERIFIED: title or (TITLE_WITH_RIVALS if has_insufficient else TITLE),
        FixStanding.INCOMPLETE: TITLE_OF_INCOMPLETE,
        FixStanding.INSUFFICIENT: TITLE_OF_INSUFFICIENT,
        FixStanding.LOSING: TITLE_OF_LOSING,
    }
    standings = list(titles)  # in the order of the sections
    sorted_remedies = sorted(remedies, key=lambda remedy: standings.index(remedy.standing))
    shown, note = limit_rows_by_style(sorted_remedies, style, REMEDIES_SHOWN)

    # Numbers continue from section to section
    numbered_remedies: dict[FixStanding, list[tuple[int, Remedy]]] = {standing: [] for standing in standings}
    for number, remedy in enumerate(shown, 1):
        numbered_remedies[remedy.standing].append((number, remedy))

    page: list[Block] = []
    for standing, remedies_of_section in numbered_remedies.items():
        is_advised = standing in (FixStanding.VERIFIED, FixStanding.INCOMPLETE)
        with_commands = is_advised or with_manifests or style.patches
        lines: list[Block] = []
        for number, remedy in remedies_of_section:
            lines += build_fix_lines(number, remedy, style, with_manifests, with_commands=with_commands)
        if lines:
            page += section(titles[standing], *lines)
    if note:
        page.append(paragraph(Marked(note, Tone.FAINT)))
    if impossible:
        page += _build_impossible_section(impossible, has_fixes=bool(remedies), gets_new_node=gets_new_node)
    return tuple(page)


def _build_impossible_section(impossible: Sequence[str], *, has_fixes: bool, gets_new_node: bool) -> Page:
    """Build the section that lists the changes that cannot help.

    If there are no fixes, a line says that no fix is needed if the pod gets a new node. Otherwise, the title says that
    no fix was found.
    """
    changes = Bullets(tuple(impossible))
    if has_fixes:
        return section("What would not help", changes)
    if gets_new_node:
        hint = paragraph("No fix is needed: a new node would come")
        return (hint, *section("What would not help", changes))
    return section("No fix was found; these changes would not help", changes)


def build_fix_lines(
    number: int,
    remedy: Remedy,
    style: Style,
    with_manifests: bool,
    facts: Sequence[Cell] = (),
    *,
    with_commands: bool = True,
) -> Page:
    """Build the lines about a fix: summary, alternatives, costs, commands, and possibly manifests and patches.

    Manifests and patches are included if ``with_manifests`` or if the style asks for patches. If there are
    `facts`, they come first and replace the line that names the team and the nodes.
    """
    lines: list[Cell] = [*facts] if facts else [Marked(f"result: {describe_fix_effect(remedy)}", Tone.FAINT)]
    if remedy.alternatives:
        lines.append(Marked(f"also works with: {describe_alternatives(remedy.alternatives)}", Tone.FAINT))
    lines += _iter_gain_and_drawbacks(remedy)
    if not facts:
        lines.append(Marked(f"who: {TEAMS[remedy.by]} team", Tone.FAINT))
    if remedy.edits:
        lines.append(f"in the manifest: {'; '.join(remedy.edits)}")
    if remedy.manifests and not (with_manifests or style.patches):
        lines.append("the manifest to complete is printed by kschedctl remedies")
    blocks: list[Block] = [paragraph(Marked(f"{number}", Tone.STRONG), remedy.summary), Bullets(tuple(lines))]
    if with_commands:
        blocks += map(Command, chain_commands(remedy.commands))
    if with_manifests or style.patches:
        blocks += _iter_manifests_and_patch(remedy, style)
    return tuple(blocks)


def _iter_manifests_and_patch(remedy: Remedy, style: Style) -> Iterator[Block]:
    """Yield, as YAML, the manifests that the user must complete and, on a page with patches, the owner's patch."""
    from kschedctl.render.data import to_yaml  # noqa: PLC0415 - YAML, which few pages need

    for manifest in remedy.manifests:
        yield Verbatim(f"manifest to complete: {', '.join(remedy.needs_values)}", to_yaml(manifest))
    if remedy.owner_patch and style.patches:
        yield Verbatim(f"strategic merge patch of {remedy.owner}", to_yaml(remedy.owner_patch))


def _iter_gain_and_drawbacks(remedy: Remedy) -> Iterator[Cell]:
    """Yield the other pods that the fix places, and then its drawbacks."""
    if remedy.gain:
        yield Marked(f"side effect: {remedy.gain}", Tone.FAINT)
    for drawback in remedy.drawbacks:
        yield Marked(f"caveat: {drawback}", Tone.WARNING)


def describe_alternatives(alternatives: Sequence[str], most: int = ALTERNATIVES_SHOWN) -> str:
    """Name the values, nodes or models with which the fix also works, at most `most` of them.

    >>> describe_alternatives(("like w8", "like w9")), describe_alternatives(("zone-a", "zone-b"))
    ('a node like w8, w9', 'zone-a, zone-b')
    """
    models = [text.removeprefix(MODEL_PREFIX) for text in alternatives if text.startswith(MODEL_PREFIX)]
    if len(models) == len(alternatives):
        return f"a node like {names(models, most)}"
    return names(tuple(map(_drop_repeated_places, alternatives)), most)


def _drop_repeated_places(alternative: str) -> str:
    """Name each place once, also if several changes concern it.

    >>> _drop_repeated_places("w1 and w1"), _drop_repeated_places("high and w2")
    ('w1', 'high with w2')
    >>> _drop_repeated_places("w1 and kubernetes.io/hostname=w1")
    'w1'
    """
    places = dict.fromkeys(alternative.split(" and "))
    labels_of_named_nodes = {HOSTNAME_PREFIX + place for place in places}
    return " with ".join(place for place in places if place not in labels_of_named_nodes)


def describe_fix_effect(remedy: Remedy) -> str:
    """Name the nodes on which the pod fits after the change.

    If other waiting pods take the room first, the text says that the pod would fit there if no other pod were waiting,
    or names the node that the pod gets instead.
    """
    if remedy.other_node:
        gets = f"the pod gets {remedy.other_node}"
        if not remedy.ahead:
            return f"{gets} once all pending pods are scheduled"
        take = agreeing(len(remedy.ahead), "takes", "take")
        return f"{gets}, since {join_first_few(remedy.ahead)} {take} {remedy.destination} first"
    if remedy.holds is False:
        return f"the pod would fit on {remedy.destination} if no other pod were waiting"
    return f"the pod fits on {remedy.destination}"
