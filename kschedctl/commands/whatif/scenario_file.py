"""Read the scenario that the command line names, or contains as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.replay.scenarios import load_scenario
from kschedctl.reports.scenario import Scenario
from kschedctl.sources.documents.documents import Content, parse_documents
from kschedctl.sources.read import read_documents, read_objects

INLINE_NAME = "SCENARIO"
"""The name in messages of a scenario written on the command line."""


class ScenarioFile(NamedTuple):
    """A scenario and its source."""

    scenario: Scenario | None = None
    folder: Path = Path()
    """The folder of the files that the scenario names."""
    where: str = ""
    """The name of the scenario in messages."""

    def read(self, name: str) -> Iterable[JsonObject]:
        """Read the documents of a file that the scenario names, relative to `folder`.

        Raises KschedctlError if the file cannot be read.
        """
        return read_objects(str(self.folder / name))


def read_scenario(name: str) -> ScenarioFile:
    """Read a scenario from a file, from standard input (`-`), or from JSON on the command line.

    Raises InputError if there is not exactly one document, or if it is not a valid scenario.
    """
    is_inline = name.lstrip().startswith("{")
    where = INLINE_NAME if is_inline else name
    if is_inline:
        documents = [document.value for document in parse_documents(Content(where, name, is_json=True))]
    else:
        documents = read_documents(name)
    if len(documents) != 1:
        raise InputError(f"expected one Scenario, found {len(documents)} documents", where=where)
    folder = Path() if is_inline or name == "-" else Path(name).parent
    return ScenarioFile(load_scenario(documents[0], where=where), folder, where)
