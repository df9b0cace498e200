"""The scenario that a command line names: steps that change a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.replay.scenarios.scenario import load_scenario
from kschedctl.reports.scenario import Scenario
from kschedctl.sources.documents.documents import Content, parse
from kschedctl.sources.read import read_documents, read_objects

WRITTEN_OUT = "SCENARIO"
"""What messages call a scenario that stands on the command line."""


class ScenarioFile(NamedTuple):
    """``folder``: where the files are that it names; ``where``: what messages call it."""

    scenario: Scenario | None = None
    folder: Path = Path()
    where: str = ""

    def read(self, name: str) -> Iterable[JsonObject]:
        """The documents of a file that it names. Raises KschedctlError."""
        return read_objects(str(self.folder / name))


def read_scenario(name: str) -> ScenarioFile:
    """Of a file, - for stdin, or written out as JSON. Raises InputError."""
    written_out = name.lstrip().startswith("{")
    where = WRITTEN_OUT if written_out else name
    documents = [value for value, *_ in parse(Content(where, name, True))] if written_out else read_documents(name)
    if len(documents) != 1:
        raise InputError(f"expected one Scenario, found {len(documents)} documents", where=where)
    folder = Path() if written_out or name == "-" else Path(name).parent
    return ScenarioFile(load_scenario(documents[0], where=where), folder, where)
