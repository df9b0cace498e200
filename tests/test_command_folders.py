"""Check the order of imports between the folders of commands, and inside each folder.

The other layers are contracts of import-linter in pyproject.toml.
"""

from __future__ import annotations

import grimp
import pytest

from kschedctl.reports.command import load_command_table

FOLDERS = [f"kschedctl.commands.{command.module}" for command in load_command_table()]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("kschedctl", cache_dir=None)


def test_every_folder_is_in_the_table(graph: grimp.ImportGraph) -> None:
    assert graph.find_children("kschedctl.commands") == {*FOLDERS, "kschedctl.commands.table"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_commands_use_only_commands_below_them_in_the_table(graph: grimp.ImportGraph, folder: str) -> None:
    above = FOLDERS[: FOLDERS.index(folder)]
    wrong = {
        (module, imported)
        for module in list_modules(graph, folder)
        for imported in graph.find_modules_directly_imported_by(module)
        if any(f"{imported}.".startswith(f"{other}.") for other in above)
    }
    assert wrong == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_report_imports_no_analysis_page_or_command_of_its_folder(graph: grimp.ImportGraph, folder: str) -> None:
    own = list_imports_within(graph, folder, f"{folder}.report")
    assert {name for name in own if not is_report(name)} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_commands_import_a_command(graph: grimp.ImportGraph, folder: str) -> None:
    command = f"{folder}.command"
    assert command in graph.modules
    importers = graph.find_modules_that_directly_import(command)
    assert {name for name in importers if name.startswith(f"{folder}.") and is_analysis_or_page(name)} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_analysis_imports_no_page(graph: grimp.ImportGraph, folder: str) -> None:
    wrong = {
        (name, imported)
        for name in graph.modules
        if name.startswith(f"{folder}.") and is_analysis(name)
        for imported in list_imports_within(graph, folder, name)
        if is_page(imported)
    }
    assert wrong == set()


def list_modules(graph: grimp.ImportGraph, folder: str) -> set[str]:
    """Return the modules of a folder, with its __init__."""
    return {folder, *graph.find_descendants(folder)}


def list_imports_within(graph: grimp.ImportGraph, folder: str, name: str) -> set[str]:
    """Return the modules of the folder that the module imports, or () if there is no such module."""
    if name not in graph.modules:
        return set()
    return {each for each in graph.find_modules_directly_imported_by(name) if each.startswith(f"{folder}.")}


def get_last_part(name: str) -> str:
    return name.rpartition(".")[2]


def is_report(name: str) -> bool:
    return get_last_part(name) in ("report", "reports") or get_last_part(name).endswith("_report")


def is_page(name: str) -> bool:
    return get_last_part(name) == "page" or get_last_part(name).endswith("_page")


def is_analysis(name: str) -> bool:
    return is_analysis_or_page(name) and not is_page(name)


def is_analysis_or_page(name: str) -> bool:
    return get_last_part(name) != "command"
