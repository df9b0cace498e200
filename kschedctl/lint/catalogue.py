"""All lint rules by family, with their examples, for the documents and the table about rules.

``python -m kschedctl.lint.catalogue`` writes the table of rules, ``kschedctl/lint/RULES.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kschedctl.lint import rules
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.rule import ERROR, WARNING, FieldEdit, Rule, SetField, find_nothing, is_pod_count
from kschedctl.lint.suppression import ANNOTATION, get_ignore_annotation, matches_rule, parse_ignores
from kschedctl.reports.findings import RuleFamily, RuleList, RuleReport

HEADINGS = {
    "api": "What the API server rejects",
    "priority": "Priority",
    "spread": "Topology spread",
    "affinity": "Affinity",
    "node_selection": "Node selection",
    "taints": "Taints and tolerations",
    "disruption": "Disruption budgets and drains",
    "resources": "Requests and capacity",
    "storage": "Volumes and storage classes",
    "special": "Schedulers, gates, gangs, devices",
    "autoscaling": "Autoscalers",
    "kueue": "Kueue",
    "names": "References to missing objects",
}
"""The heading of each family. A family is a module in ``kschedctl/lint/rules/``, or a folder of modules."""


def iter_rules(family: str) -> Iterator[Rule]:
    """Yield the ``Rule`` constants of a rule family in source order.

    A family is a module, or a folder of modules, in ``kschedctl/lint/rules``.
    """
    family_module = import_module(f"{rules.__name__}.{family}")
    # A folder has a __path__, a plain module has none.
    names = sorted(module_info.name for module_info in iter_modules(getattr(family_module, "__path__", ())))
    modules = [import_module(f"{family_module.__name__}.{name}") for name in names] or [family_module]
    for module in modules:
        yield from (value for value in vars(module).values() if isinstance(value, Rule))


FAMILIES: dict[str, tuple[Rule, ...]] = {heading: tuple(iter_rules(family)) for family, heading in HEADINGS.items()}
"""The rules of each family, by its heading."""
RULES: tuple[Rule, ...] = tuple(rule for family_rules in FAMILIES.values() for rule in family_rules)
"""All rules, in the order of the table."""


def _build_unquoting_edit(problem: Problem) -> FieldEdit | None:
    """Return the edit that removes the quotes around a number of pods, or None if the problem is another one."""
    return SetField(problem.path, int(problem.replacement)) if is_pod_count(problem.replacement) else None


INVALID = Rule(
    "doc-invalid",
    ERROR,
    find_nothing,
    summary="A field of the wrong type, or an invalid quantity",
    why="The API server rejects the object. Other rules do not check it.",
    fix="Correct the value",
    source="https://kubernetes.io/docs/reference/kubernetes-api/",
    safe_fix=_build_unquoting_edit,
)
"""Reported for objects that cannot be decoded. It cannot be deselected."""

UNREADABLE = Rule(
    "doc-unreadable",
    ERROR,
    find_nothing,
    summary="A file of manifests that cannot be parsed",
    why="Nothing in it is checked, and kubectl does not apply it.",
    fix="Correct the file, or exclude it with --exclude",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/",
)
"""Reported for files that cannot be parsed. It cannot be deselected."""


def find_faulty_ignores(context: LintContext) -> Iterator[Problem]:
    """Yield a problem for each ignore annotation without a reason, and for each pattern that matches no rule."""
    for subject in context.subjects:
        path = ("metadata", "annotations", ANNOTATION)
        for ignore in parse_ignores(get_ignore_annotation(subject)):
            if not ignore.reason:
                yield subject.build_problem(path, f"{', '.join(ignore.patterns)} is not ignored: the reason is missing")
            for pattern in ignore.patterns:
                if not any(matches_rule(rule.id, (pattern,)) for rule in (INVALID, UNREADABLE, *RULES)):
                    yield subject.build_problem(path, f'no rule is named "{pattern}"')


IGNORE_FAULTY = Rule(
    "ignore-faulty",
    WARNING,
    find_faulty_ignores,
    summary="An annotation kschedctl/ignore without effect",
    why="It names no existing rule or gives no reason, so the findings are still reported.",
    fix='Write kschedctl/ignore: "RULE reason"',
    source="kschedctl lint",
)


EXAMPLES = Path(__file__).with_name("examples")
TABLE = Path(__file__).with_name("RULES.md")
PEERS = Path(__file__).with_name("PEERS.md")
"""The placement checks of other linters, each with our rule for it or the reason why there is none."""
PARTS = ("cluster", "config", "version", "bad", "good")


def build_rule_list() -> RuleList:
    """Build the list of all rules by family, without their examples."""
    families = (
        RuleFamily(heading, tuple(map(_build_rule_report, of_family))) for heading, of_family in FAMILIES.items()
    )
    return RuleList(tuple(families))


def build_rule_report(rule: Rule) -> RuleReport:
    """Build the report of one rule, with its example and the cluster, configuration or version it is for."""
    example = read_example(rule.id)
    surroundings = example["cluster"] or example["config"]
    if not surroundings and example["version"]:
        surroundings = f"Kubernetes {example['version']}"
    return _build_rule_report(rule, bad=example["bad"], good=example["good"], around=surroundings)


def read_example(rule_id: str) -> dict[str, str]:
    """Read the parts of a rule's example, which begin with lines such as ``# bad``. Missing parts are ""."""
    parts = dict.fromkeys(PARTS, "")
    current = ""
    for line in (EXAMPLES / f"{rule_id}.yaml").read_text().splitlines(keepends=True):
        heading = line.removeprefix("# ").strip()
        if line.startswith("# ") and heading in PARTS:
            current = heading
        elif current:
            parts[current] += line
    return parts


def render_rules_document() -> str:
    """Render the content of ``RULES.md``: a table of rules for each family, and a comparison with other linters."""
    lines = ["# Rules of `kschedctl lint`\n"]
    lines.append("Rules marked with ★ need nodes and pods. `kschedctl lint explain RULE` explains a rule in full.\n")
    lines.append(
        "Rules marked with ◦ give advice that many clusters do without. They run only with `--profile strict` (or "
        f"`profile: strict` in the settings) or if they are selected. {_list_once_rules()} are reported once per "
        "namespace, with the number of further findings. `--profile all` reports every finding.\n"
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
    comparison_with_other_linters = PEERS.read_text()
    return "\n".join([*lines, comparison_with_other_linters])


def _list_once_rules() -> str:
    """Return the ids of the rules that are reported once per namespace, joined with commas and ``and``."""
    names = [f"`{rule.id}`" for rule in RULES if rule.once_per_namespace]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _escape_cell(text: str) -> str:
    """Escape the text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*")


def _build_rule_report(rule: Rule, bad: str = "", good: str = "", around: str = "") -> RuleReport:
    """Build the report of a rule from the parts of its example.

    ``bad`` and ``good`` are manifests, and ``around`` describes the cluster in which they are checked.
    """
    return RuleReport(
        id=rule.id,
        severity=rule.severity,
        summary=rule.summary,
        why=rule.why,
        fix=rule.fix,
        source=rule.source,
        needs_cluster=rule.needs_cluster,
        bad=bad,
        good=good,
        around=around,
        profile=rule.profile,
        once=rule.once_per_namespace,
    )


if __name__ == "__main__":
    TABLE.write_text(render_rules_document())
