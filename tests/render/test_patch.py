"""Check that ``-o patch`` prints the owners' patches as YAML, with comments."""

from __future__ import annotations

import pytest
import yaml

from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.page import render_patches
from kschedctl.commands.remedies.report import ChosenRemedy, Remedies, RemediesOfMany
from kschedctl.errors import UsageError
from kschedctl.reports.remedy import Remedy

PATCH = {"spec": {"template": {"spec": {"schedulerName": "default-scheduler"}}}}
AUTHOR = Remedy(
    "Ask for it",
    "author",
    None,
    ("n1",),
    ("kubectl patch job --type strategic -p …",),
    (),
    owner="Job d/j",
    owner_patch=PATCH,
)
OPERATOR = Remedy("Uncordon n1\nspec: {}", "operator", "much\x1b[2J", ("n1",), ("kubectl uncordon n1",), ())


def test_each_fix_is_a_document_and_cluster_texts_stay_in_comments() -> None:
    text = render_patches(Remedies("d/p", "Unschedulable", "", (AUTHOR, OPERATOR)))
    assert list(yaml.safe_load_all(text)) == [PATCH, None]
    assert "# run: kubectl uncordon n1\n" in text
    assert "kubectl patch" not in text  # the document says it
    assert "\x1b" not in text


def test_comments_among_the_commands_are_not_to_be_run() -> None:
    commands = ("# first find out why: kubectl describe node n1", "kubectl uncordon n1")
    remedy = Remedy("Uncordon n1", "operator", None, ("n1",), commands, ())
    text = render_patches(Remedies("d/p", "Unschedulable", "", (remedy,)))
    assert text.endswith("# first find out why: kubectl describe node n1\n# run: kubectl uncordon n1\n")


def test_patches_of_many_pods_are_the_chosen_ones() -> None:
    report = RemediesOfMany("here", 2, 1, (ChosenRemedy(AUTHOR, ("d/p",)),))
    assert list(yaml.safe_load_all(render_patches(report))) == [PATCH]


def test_other_documents_have_no_patches() -> None:
    with pytest.raises(UsageError, match="-o patch works only for remedies, but this is Explanation"):
        render_patches(Explanation("d/p", "Schedulable", ""))
