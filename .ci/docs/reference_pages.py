"""The reference pages that are generated from the code: options, JSON documents and lint rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from command_pages import format_spelling, iter_commands, iter_parameters
from site_pages import escape_cell

from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.commands.schema.command import INPUT_SCHEMAS
from kschedctl.lint.catalogue import FAMILIES, build_rule_report

MANY_COMMANDS = 12
RULE_IN_TABLE = re.compile(r"^\| `([\w-]+)`", re.MULTILINE)


def build_options_page() -> str:
    """Build the page that lists all options, with the commands that take each."""
    names: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, command in iter_commands():
        for group, spelling, meaning in iter_parameters(command, name):
            if group != "Arguments":
                names.setdefault(group, {}).setdefault((spelling, meaning), []).append(name)
    parts = [
        "# Options",
        "Every option of every command, by group; `kschedctl COMMAND --help-all` prints those of a command.",
    ]
    for group, options in names.items():
        rows = [
            f"| {format_spelling(spelling)} | {escape_cell(meaning)} | {_list_commands(commands)} |"
            for (spelling, meaning), commands in sorted(
                options.items(), key=lambda item: item[0][0].lstrip("-").lower()
            )
        ]
        parts += [f"## {group}", "| Option | Meaning | Commands |\n| --- | --- | --- |\n" + "\n".join(rows)]
    return "\n\n".join(parts)


def _list_commands(commands: Iterable[str]) -> str:
    """Return links to the commands, or their number if there are many."""
    names = list(commands)
    if len(names) > MANY_COMMANDS:
        return f"{len(names)} commands"
    return ", ".join(f"[{name}](../questions/{name.split()[0]}.md)" for name in names)


def build_schema_pages() -> dict[str, str]:
    """Build a page and a JSON Schema for each kind of document, and a page that lists them. Return path -> text."""
    schemas: dict[str, Any] = {name: build_schema(struct) for name, struct in DOCUMENTS.items()}
    schemas |= {name: build() for name, build in INPUT_SCHEMAS.items()}
    pages = {}
    rows = []
    for name, schema in sorted(schemas.items()):
        definitions: Mapping[str, Any] = schema.get("$defs", {})
        first = schema.get("$ref", "").rpartition("/")[2]
        summary = (definitions.get(first, schema).get("description") or "").partition("\n")[0]
        rows.append(f"| [{name}]({name}.md) | {escape_cell(summary)} |")
        pages[f"reference/json/{name}.json"] = json.dumps(schema, indent=2)
        pages[f"reference/json/{name}.md"] = _build_schema_page(name, schema, definitions, first)
    lists = "| Document | What it holds |\n| --- | --- |\n" + "\n".join(rows)
    introduction = (
        "`-o json` and `-o yaml` print one of these documents, and the library returns them. `kschedctl schema KIND` "
        "prints the JSON Schema of one. Fields are only added: see `kschedctl help stability`."
    )
    pages["reference/json/index.md"] = f"# JSON documents\n\n{introduction}\n\n{lists}"
    return pages


def _build_schema_page(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any], first: str) -> str:
    """Build the page of a document: the fields of its struct, then those of the structs in it."""
    parts = [f"# {name}", f"[JSON Schema]({name}.json), which `kschedctl schema {name}` prints."]
    ordered = dict.fromkeys([first, *definitions]) if first else dict.fromkeys(definitions)
    if not first:
        parts += _describe_struct(schema, "")
    for definition in ordered:
        title = escape_cell(definitions[definition].get("title", definition))
        heading = "" if definition == first else f"## {title} {{#{_slug(definition)}}}"
        parts += _describe_struct(definitions[definition], heading)
    return "\n\n".join(parts)


def _describe_struct(struct: Mapping[str, Any], heading: str) -> list[str]:
    """Return heading, description and table of the fields of a struct of the schema."""
    parts = [heading] if heading else []
    if description := struct.get("description"):
        parts.append(escape_cell(description))
    required = struct.get("required", ())
    rows = [
        f"| `{field}` | {_describe_type(details)} | {'always' if field in required else ''} |"
        for field, details in struct.get("properties", {}).items()
    ]
    if rows:
        parts.append("| Field | Type | Required |\n| --- | --- | --- |\n" + "\n".join(rows))
    elif "enum" in struct:
        parts.append("One of " + ", ".join(f"`{value}`" for value in struct["enum"]) + ".")
    return parts


def _describe_type(details: Mapping[str, Any]) -> str:
    """Return the type of a field as Markdown, with links to the structs on the page."""
    if reference := details.get("$ref"):
        name = reference.rpartition("/")[2]
        struct = name.partition("_")[0]  # a generic struct has the names of its arguments after its own
        return f"[{struct}](#{_slug(name)})"
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in details:
            return " or ".join(dict.fromkeys(map(_describe_type, details[alternatives])))
    if details.get("type") == "array" and isinstance(details.get("items"), dict):
        return f"list of {_describe_type(details['items'])}"
    if "enum" in details:
        return " or ".join(f"`{value}`" for value in details["enum"])
    if details.get("type") == "object" and isinstance(details.get("additionalProperties"), dict):
        return f"object of {_describe_type(details['additionalProperties'])}"
    kind = details.get("type", "any value")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def build_rule_pages() -> dict[str, str]:
    """Build a page for each family of lint rules, with the example of each rule. Return path -> text."""
    pages = {}
    for heading, rules in FAMILIES.items():
        parts = [f"# Lint: {heading}", "[All rules](index.md)"]
        for rule in rules:
            report = build_rule_report(rule)
            parts += [f"## {report.id}", f"**{report.severity}**: {escape_cell(report.summary)}"]
            parts += [escape_cell(report.why), f"How to fix it: {escape_cell(report.fix)}"]
            if report.needs_cluster:
                parts.append("Needs nodes and pods.")
            for title, manifest in (
                ("Reported", report.bad),
                ("In this cluster", report.around),
                ("Not reported", report.good),
            ):
                if manifest.strip():
                    parts += [f"{title}:", f"```yaml\n{manifest.strip()}\n```"]
        pages[f"reference/lint/{_slug(heading)}.md"] = "\n\n".join(parts)
    return pages


def link_rules(table: str) -> str:
    """Return the table of rules with a link from each rule to its example."""
    families = {rule.id: _slug(heading) for heading, rules in FAMILIES.items() for rule in rules}

    def link(match: re.Match[str]) -> str:
        rule_id = match[1]
        return f"| [`{rule_id}`]({families[rule_id]}.md#{rule_id})" if rule_id in families else match[0]

    return RULE_IN_TABLE.sub(link, table)


def _slug(heading: str) -> str:
    """Return a heading as the name of a file or anchor."""
    return re.sub(r"[\W_]+", "-", heading.lower()).strip("-")
