"""The page of the library's functions, from their signatures and docstrings as griffe reads them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from griffe import Class, Function, Object, visit

from kschedctl import PUBLIC_NAMES

DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>).+\n?)*)+", re.MULTILINE)
WIDTH = 88


def build_library_page() -> str:
    """Build the page: each public name with its signature and its docstring, methods below their class."""
    parts = [
        "# Functions of the library",
        "Everything that `import kschedctl` offers, in alphabetical order. `kschedctl help library` has examples.",
    ]
    for name, module in sorted(PUBLIC_NAMES.items()):
        parts += _describe(_read_source(f"kschedctl.{module}", name), f"kschedctl.{name}", "## ")
    return "\n\n".join(parts)


def _read_source(module: str, name: str) -> Object:
    """Return a function or class of a module, as griffe reads it in the module's source."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin)
    value: Object = visit(module, path, path.read_text())[name]
    return value


def _describe(value: Object, name: str, marks: str) -> Iterable[str]:
    """Yield heading, signature and docstring of a function, or of a class and its public methods."""
    yield f"{marks}{name.removeprefix('kschedctl.')}"
    if isinstance(value, Function):
        yield f"```python\n{_format_signature(value, name)}\n```"
    if value.docstring:
        yield _format_docstring(value.docstring.value)
    if isinstance(value, Class):
        for method in value.functions.values():
            if not method.name.startswith("_"):
                yield from _describe(method, f"{name}.{method.name}", marks.replace("#", "##", 1))


def _format_signature(function: Function, name: str) -> str:
    """Return the signature, with a line for each parameter if it is long."""
    parameters = []
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.value if parameter.kind else ""
        if kind == "keyword-only" and "*" not in parameters and not any(each.startswith("*") for each in parameters):
            parameters.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{stars}{parameter.name}" + (f": {parameter.annotation}" if parameter.annotation else "")
        if parameter.default is not None and not stars:
            text += f" = {parameter.default}"
        parameters.append(text)
    returns = f" -> {function.returns}" if function.returns else ""
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){returns}"


def _format_docstring(text: str) -> str:
    """Return a docstring as Markdown, with its doctests as blocks of code."""
    return DOCTEST.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", inspect.cleandoc(text) + "\n").strip()
