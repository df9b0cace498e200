"""Check that the glossary of CONTRIBUTING.md has the terms that users and authors of plugins encounter."""

from __future__ import annotations

import ast
import inspect
import json
import re
from functools import cache
from pathlib import Path

import pytest

import kschedctl
from kschedctl import plugins
from kschedctl.api import objects
from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.fixes.trial.changes import Fix
from kschedctl.reports.command import load_command_table
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.snapshot import Snapshot

ROOT = Path(__file__).parent.parent
GLOSSARY = (ROOT / "CONTRIBUTING.md").read_text().partition("## Glossary")[2].partition("\n## ")[0]
MEANINGS = dict(re.findall(r"^\| ([\w ,]+?) \| (.+) \|$", GLOSSARY, re.MULTILINE)[1:])
FIELDS = {
    "nominated": ("status.nominatedNodeName", objects.PodStatus, "nominatedNodeName"),
    "bound": ("spec.nodeName", objects.PodSpec, "nodeName"),
    "owner": ("metadata.ownerReferences", objects.ObjectMeta, "ownerReferences"),
}
"""Term -> the field of the Kubernetes API in its meaning, its struct, and the field's name there."""
CLASSES = {"fix": Fix, "fork": Fork, "snapshot": Snapshot}

OF_THE_CODE = {"fork", "node shape", "pod template", "denied by admission"}
"""Terms for people who read the code."""


@cache
def join_package_texts() -> str:
    """Return all strings of several words in the package, in lower case."""
    trees = (ast.parse(path.read_text()) for path in ROOT.glob("kschedctl/**/*.py"))
    constants = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return " ".join(node.value for node in constants if isinstance(node.value, str) and " " in node.value).lower()


@cache
def join_public_texts() -> str:
    """Return the names and texts of the public surface, in lower case, with a space between the words of a name."""
    schemas = json.dumps([build_schema(document) for document in DOCUMENTS.values()])
    columns = re.findall(r'Column\("([^"]+)"', "".join(path.read_text() for path in ROOT.glob("kschedctl/**/*.py")))
    summaries = [command.summary for command in load_command_table()]
    docstrings = [
        inspect.getdoc(getattr(module, name)) or ""
        for module in (kschedctl, plugins)
        for name in (*kschedctl.PUBLIC_NAMES, "__doc__")
        if hasattr(module, name)
    ]
    topics = [path.read_text() for path in ROOT.glob("kschedctl/cli/topics/*.md")]
    text = " ".join((schemas, *columns, *summaries, *docstrings, *topics))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()


def test_glossary_is_short_and_has_one_meaning_per_term() -> None:
    rows = re.findall(r"^\| ", GLOSSARY, re.MULTILINE)
    assert 15 < len(MEANINGS) <= 30
    assert len(rows) == len(MEANINGS) + 1
    assert len({*MEANINGS.values()}) == len(MEANINGS)


@pytest.mark.parametrize("term", MEANINGS)
def test_term_is_used(term: str) -> None:
    texts = join_package_texts() if term in OF_THE_CODE else join_public_texts()
    for synonym in term.split(", "):
        participle, _, _ = synonym.partition(" by ")  # "rejected by a filter": the plugin is named instead
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", participle).lower()
        assert re.search(rf"\b{words}", texts), words


@pytest.mark.parametrize("term", FIELDS)
def test_field_of_the_kubernetes_api_exists(term: str) -> None:
    path, struct, name = FIELDS[term]
    assert path in MEANINGS[term]
    assert name in struct.__struct_encode_fields__


@pytest.mark.parametrize("term", CLASSES)
def test_class_has_the_name_of_the_term(term: str) -> None:
    assert CLASSES[term].__name__.lower() == term
    assert term in MEANINGS
