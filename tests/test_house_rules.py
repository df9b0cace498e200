"""Check the structure of the code: import circles, unique class names, and where structs are decoded."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import kschedctl

ROOT = Path(kschedctl.__file__).parent
TWICE_BY_NATURE = {"Cluster", "NodeAffinity"}
"""Duplicates: the public Cluster with its constructors, and names that upstream gives to an object and a plugin."""
OBJECTS_AGAIN = {"api/validation/written.py"}
"""The module with a second set of upstream's objects, in the form of manifests, used with the module's name."""
DECODING = "api/decoding.py"
"""The module that decodes structs, because two threads must not fill in msgspec's data of a struct at once."""
MAKING = {"msgspec.convert", "msgspec.json.Decoder", "msgspec.msgpack.Decoder"}
TAKING_A_TYPE = {f"msgspec.{form}.decode" for form in ("json", "msgpack", "toml", "yaml")}
MODULES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@cache
def parse_modules() -> dict[str, ast.Module]:
    """Return the modules as syntax trees."""
    return {name: ast.parse(text) for name, text in MODULES.items()}


def count_class_names(names: dict[str, ast.Module]) -> Counter[str]:
    """Count the definitions of each class name."""
    nodes = (node for tree in names.values() for node in ast.walk(tree))
    return Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))


def list_struct_calls(tree: ast.Module) -> list[str]:
    """Return the calls that make structs or decoders with msgspec, and the imports for them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [name for call in calls if (name := ast.unparse(call.func)) in MAKING]
    typed = (call for call in calls if {"type"} & {keyword.arg for keyword in call.keywords} or len(call.args) > 1)
    made += [name for call in typed if (name := ast.unparse(call.func)) in TAKING_A_TYPE]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named = (f"{node.module}.{alias.name}" for node in imports for alias in node.names)
    return [*made, *(name for name in named if name in MAKING | TAKING_A_TYPE | {"msgspec.json", "msgspec.msgpack"})]


def sort_by_imports(imports: dict[str, set[str]]) -> list[str]:
    """Return the modules, each after those that it imports. Raises CycleError."""
    return list(TopologicalSorter(imports).static_order())


def get_folder(module: str) -> str:
    """Return the package of a module, or the module if it is a package. Modules beside `__main__` count as it."""
    if (ROOT.parent / module.replace(".", "/")).is_dir():
        return module
    parent = module.rpartition(".")[0]
    return "__main__" if parent == "kschedctl" else parent


def test_class_names_are_unique() -> None:
    names = count_class_names({name: tree for name, tree in parse_modules().items() if name not in OBJECTS_AGAIN})
    assert {name for name, times in names.items() if times > 1 and not name.startswith("_")} == TWICE_BY_NATURE


def test_structs_are_decoded_in_one_module() -> None:
    assert {name: found for name, tree in parse_modules().items() if (found := list_struct_calls(tree))}.keys() == {
        DECODING
    }
    wrong = "from msgspec import convert", "msgspec.json.Decoder(Pod)", "msgspec.json.decode(data, type=Pod)"
    assert all(list_struct_calls(ast.parse(text)) for text in wrong)
    assert list_struct_calls(ast.parse("msgspec.json.decode(data)")) == []


def test_no_modules_import_each_other() -> None:
    """Check import circles, including those through other modules, in functions or for types only."""
    graph = grimp.build_graph("kschedctl", cache_dir=None)
    assert len(sort_by_imports({m: graph.find_modules_directly_imported_by(m) for m in graph.modules})) > 300
    with pytest.raises(CycleError):
        sort_by_imports({"a": {"b"}, "b": {"a"}})


def test_no_folders_import_each_other() -> None:
    """Check that folders import each other in no circle, not even indirectly.

    The folder of a module is its package, or the module itself if it is a package. A folder and the folders in it are
    one subject and may import each other.
    """
    graph = grimp.build_graph("kschedctl", cache_dir=None)
    folders: dict[str, set[str]] = {}
    for module in graph.modules:
        imported = map(get_folder, graph.find_modules_directly_imported_by(module))
        folder = get_folder(module)
        others = {other for other in imported if not f"{other}.".startswith(f"{folder}.")}
        folders.setdefault(folder, set()).update(other for other in others if not folder.startswith(f"{other}."))
    assert len(sort_by_imports(folders)) > 50


def test_modules_of_tests_share_one_namespace() -> None:
    """Check that names are unique, because pytest puts all folders of tests on one path."""
    paths = [path for path in (ROOT.parent / "tests").rglob("*.py") if path.stem not in ("__init__", "conftest")]
    assert not [name for name, count in Counter(path.stem for path in paths).items() if count > 1]
