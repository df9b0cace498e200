"""Check that an answer without a fix, or with changes that are none, says so and names the next command."""

from __future__ import annotations

from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.report import Remedies, SearchReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.placements import EvictionChain
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last


def test_an_author_without_fixes_is_shown_the_command_for_all_fixes(run: Run, write: Write) -> None:
    cluster = write(build_node("n1", unschedulable=True), build_pod("p", "2", "d", "p"))
    for options in ([], ["--brief"]):
        outcome = run("remedies", "d/p", "-f", cluster, "--by", "author", "--without", "Tolerate", *options)
        assert f"kschedctl remedies d/p -f {cluster}" in outcome.out
        assert "no fix was found" in outcome.out.lower()
    many = write(build_node("n1", unschedulable=True), build_pod("p", "2", "d", "p"), build_pod("q", "3", "d", "q"))
    outcome = run("remedies", "-A", "-f", many, "--by", "author", "--without", "Tolerate,LowerRequest")
    assert f"kschedctl remedies -A -f {many}" in outcome.out


def test_a_gated_pod_has_no_fixes_and_the_next_command_explains_it(run: Run, write: Write) -> None:
    cluster = write(build_node("n1"), build_pod("p", "2", "d", "p", schedulingGates=[{"name": "example.com/wait"}]))
    outcome = run("remedies", "d/p", "-f", cluster)
    assert f"  kschedctl explain d/p -f {cluster}" in outcome.out


def test_next_command_for_a_pod_whose_room_others_take_finds_room_for_all(run: Run, write: Write) -> None:
    """The node has room for one of the two pods, so that the second one fits only by itself."""
    cluster = write(build_node("n1", cpu="2"), build_pod("p", "2", "d", "p"), build_pod("q", "2", "d", "q"))
    for options in ([], ["--brief"]):
        assert f"kschedctl remedies -A -f {cluster}" in run("remedies", "d/q", "-f", cluster, *options).out
        assert "remedies -A" not in run("remedies", "d/p", "-f", cluster, *options).out


def test_changes_that_cost_more_pods_than_they_place_are_no_fixes() -> None:
    chain = EvictionChain(evicted=3, moved=1, returned=0, pending=1, lost=1)
    evicting = Remedy(
        "Use PriorityClass high", "author", None, ("n1",), ("kubectl patch",), (), holds=True, chain=chain
    )
    harmless = Remedy("Request less", "author", None, ("n1",), (), (), holds=True)
    remedies = sort_incomplete_and_costly_fixes_last([evicting, harmless])
    assert remedies == (harmless, evicting)
    searched = SearchReport(max_changes=1, replays=9)
    report = Remedies("d/p", "Unschedulable", "needs 2 CPUs", remedies, searched=searched)
    page = RENDERERS["table"](report, Style(width=160))
    fixes, losing = page.split("Not worth it: more pods lose their node than get one")
    assert "1 Request less" in fixes
    assert "2 Use PriorityClass high" in losing
    assert "caveat: it places 1 pod, and 2 evicted pods stay without a node" in losing
    assert "and 1 change that is not worth it" in RENDERERS["brief"](report, Style(width=160))
    explanation = Explanation("d/p", "Unschedulable", "needs 2 CPUs", remedies=remedies)
    larger = "and 1 change that is not worth it; remedies also tries larger changes"
    assert larger in RENDERERS["brief"](explanation, Style(width=160))
    alone = Remedies("d/p", "Unschedulable", "needs 2 CPUs", (evicting,), searched=searched)
    brief = RENDERERS["brief"](alone, Style(width=160))
    assert "not worth it: Use PriorityClass high, but it places 1 pod, and 2 evicted pods stay without a node" in brief

    # With two more pods placed, it is as good as any.
    gains = Remedy("Use", "author", None, ("n1",), (), (), holds=True, chain=chain, also_places=("d/a", "d/b"))
    assert sort_incomplete_and_costly_fixes_last([gains, harmless]) == (gains, harmless)


def test_note_gives_the_numbers_of_fixes_that_were_not_replayed_with_other_pods() -> None:
    unchecked = Remedy("Request less", "author", None, ("n1",), (), ())
    insufficient = Remedy("Uncordon n2", "operator", None, ("n2",), (), (), holds=False, rivals=("d/q",))
    checked = Remedy("Add a node", "operator", None, ("n3",), (), (), holds=True)
    report = Remedies("d/p", "Unschedulable", "needs 2 CPUs", (checked, insufficient, unchecked))
    page = RENDERERS["table"](report, Style(width=160))
    assert "2 Request less" in page
    assert "Fix 2 was replayed for this pod alone, without the other pending pods" in page
    more = Remedies("d/p", "Unschedulable", "needs 2 CPUs", (checked, insufficient, unchecked, unchecked))
    page = RENDERERS["table"](more, Style(width=160))
    assert "Fixes 2 and 3 were replayed for this pod alone, without the other pending pods" in page
