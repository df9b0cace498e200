"""Rules as documents, with the examples that come with them.

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
"""What other linters say about placement, and the rule here that says it, or why none does."""
PARTS = ("cluster", "config", "version", "bad", "good")


def rule_list() -> RuleList:
    """All rules by family, without their examples."""
    families = (RuleFamily(heading, tuple(map(_report, of_family))) for heading, of_family in FAMILIES.items())
    return RuleList(tuple(families))


def rule_report(rule: Rule) -> RuleReport:
    """One rule with its example."""
    cluster, config, version, bad, good = (example(rule.id)[part] for part in PARTS)
    return _report(rule, bad, good, cluster or config or (f"Kubernetes {version}" if version else ""))


def example(rule: str) -> dict[str, str]:
    """The YAML of the parts of a rule's example; a line ``# bad`` begins the part of that name."""
    parts = dict.fromkeys(PARTS, "")
    current = ""
    for line in (EXAMPLES / f"{rule}.yaml").read_text().splitlines(keepends=True):
        heading = line.removeprefix("# ").strip()
        if line.startswith("# ") and heading in PARTS:
            current = heading
        elif current:
            parts[current] += line
    return parts


def table_text() -> str:
    """The table of rules as its file holds it."""
    lines = ["# Rules of `kschedctl lint`\n"]
    lines.append("Rules marked with ★ need to see nodes and pods. `kschedctl lint explain RULE` tells one in full.\n")
    lines.append(
        "Advice that many do without, marked with ◦, is given with `--profile strict` (or `profile: strict` in the "
        f"settings), and where it is selected. {_once_a_namespace()} are told once a namespace, with how many more "
        "there are; `--profile all` tells everything wherever it is found.\n"
    )
    for family in rule_list().families:
        lines += [
            f"## {family.heading}\n",
            "| Rule | Severity | What it finds | What goes wrong |",
            "| --- | --- | --- | --- |",
        ]
        for rule in family.rules:
            marks = (" ★" if rule.needs_cluster else "") + (" ◦" if rule.profile != "default" else "")
            lines.append(f"| `{rule.id}`{marks} | {rule.severity} | {_cell(rule.summary)} | {_cell(rule.why)} |")
        lines.append("")
    return "\n".join([*lines, PEERS.read_text()])


def _once_a_namespace() -> str:
    names = [f"`{rule.id}`" for rule in RULES if rule.once_per_namespace]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _report(rule: Rule, bad: str = "", good: str = "", cluster: str = "") -> RuleReport:
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
    TABLE.write_text(table_text())
