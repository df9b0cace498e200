"""Reports about the rules themselves, with their examples.

``python -m kschedctl.lint.rule_reports`` writes the table of rules, ``kschedctl/lint/RULES.md``.
"""

from __future__ import annotations

from pathlib import Path

from kschedctl.lint.catalogue import FAMILIES, RULES
from kschedctl.lint.framework.rule import Rule
from kschedctl.reports.findings import RuleFamily, RuleList, RuleReport

EXAMPLES = Path(__file__).with_name("examples")
TABLE = Path(__file__).with_name("RULES.md")
PEERS = Path(__file__).with_name("PEERS.md")
"""What other linters check about placement, with our rule for it or the reason why there is none."""
PARTS = ("cluster", "config", "version", "bad", "good")


def build_rule_list() -> RuleList:
    """Return all rules by family, without their examples."""
    families = (RuleFamily(heading, tuple(map(_build_report, of_family))) for heading, of_family in FAMILIES.items())
    return RuleList(tuple(families))


def build_rule_report(rule: Rule) -> RuleReport:
    """Return one rule with its example."""
    cluster, config, version, bad, good = (read_example(rule.id)[part] for part in PARTS)
    return _build_report(rule, bad, good, cluster or config or (f"Kubernetes {version}" if version else ""))


def read_example(rule_id: str) -> dict[str, str]:
    """Return the YAML of each part of a rule's example. A line such as ``# bad`` starts a part."""
    parts = dict.fromkeys(PARTS, "")
    current = ""
    for line in (EXAMPLES / f"{rule_id}.yaml").read_text().splitlines(keepends=True):
        heading = line.removeprefix("# ").strip()
        if line.startswith("# ") and heading in PARTS:
            current = heading
        elif current:
            parts[current] += line
    return parts


def render_rule_table() -> str:
    """Return the content of ``RULES.md``."""
    lines = ["# Rules of `kschedctl lint`\n"]
    lines.append("Rules marked with ★ need to see nodes and pods. `kschedctl lint explain RULE` tells one in full.\n")
    lines.append(
        "Advice that many do without, marked with ◦, is given with `--profile strict` (or `profile: strict` in the "
        f"settings), and where it is selected. {_list_once_rules()} are told once a namespace, with how many more "
        "there are; `--profile all` tells everything wherever it is found.\n"
    )
    for family in build_rule_list().families:
        lines += [
            f"## {family.heading}\n",
            "| Rule | Severity | What it finds | What goes wrong |",
            "| --- | --- | --- | --- |",
        ]
        for rule in family.rules:
            marks = (" ★" if rule.needs_cluster else "") + (" ◦" if rule.profile != "default" else "")
            lines.append(
                f"| `{rule.id}`{marks} | {rule.severity} | {_escape_cell(rule.summary)} | {_escape_cell(rule.why)} |"
            )
        lines.append("")
    return "\n".join([*lines, PEERS.read_text()])


def _list_once_rules() -> str:
    """Return the ids of the rules that are reported once per namespace, as text."""
    names = [f"`{rule.id}`" for rule in RULES if rule.once_per_namespace]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _escape_cell(text: str) -> str:
    """Return the text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*")


def _build_report(rule: Rule, bad: str = "", good: str = "", cluster: str = "") -> RuleReport:
    """Build the report of a rule."""
    return RuleReport(
        rule.id,
        rule.severity,
        rule.summary,
        rule.why,
        rule.fix,
        rule.source,
        rule.needs_cluster,
        bad,
        good,
        cluster,
        profile=rule.profile,
        once=rule.once_per_namespace,
    )


if __name__ == "__main__":
    TABLE.write_text(render_rule_table())
