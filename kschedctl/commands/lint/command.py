"""``kschedctl lint``: what in these manifests, or in this cluster, makes scheduling go wrong?"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.ownership import Owner
from kschedctl.cli.answer import UNDECIDED, Answer
from kschedctl.cli.forms import TABLE, OutputFormat, output_option
from kschedctl.cli.option_groups.karpenter import POOL_KINDS, InstanceTypeInput
from kschedctl.cli.options import Color, Output, Source, parse_feature_gates, with_options
from kschedctl.cli.progress import show_progress
from kschedctl.cli.source import CREATION_LIMIT_KINDS, load_cluster, read_files
from kschedctl.commands.lint import Destination, lint_context, told
from kschedctl.commands.lint.described_cluster import DescribedCluster
from kschedctl.commands.lint.filters import LintFilters
from kschedctl.commands.lint.fixes import Linted, LintFixer
from kschedctl.commands.lint.fixes_report import LintFixes
from kschedctl.commands.lint.settings import Project, find_settings, path_ignores, read_baseline, read_settings
from kschedctl.errors import UsageError
from kschedctl.lint.engine import choose_rules, find_problems, get_rule
from kschedctl.lint.findings.reporting import Reporting
from kschedctl.lint.findings.suppression import STDIN_NAME, render_baseline
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import RuleProfile, Severity
from kschedctl.lint.rule_reports import build_rule_list, build_rule_report
from kschedctl.lint.settings import LintSettings
from kschedctl.reports.findings import Findings
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.documents.files import STDIN, find_files, from_here
from kschedctl.sources.output_file import check_output_files, write_file
from kschedctl.sources.repository import Repository, read_repository

EXAMPLES = (
    "kschedctl lint web.yaml charts/ -R",
    "helm template web ./web | kschedctl lint - --with-cluster --fail-on error",
    'kschedctl lint --live --select "pdb-*,drain-*"',
    "kschedctl lint deploy/ -R --profile strict",
    "kschedctl lint deploy/ -R --diff",
    "kschedctl lint nodepools.yaml --instance-types types.json",
    "kschedctl lint clusters/ charts/ -R --kustomize --helm",
    "kschedctl lint rules",
    "kschedctl lint explain pdb-zero-disruptions",
)

CLEAN, FOUND = 0, 1
DIFF_FORMS = ("table", "json", "yaml")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Around(InstanceTypeInput):
    """The cluster, where no manifests are given what is linted; snapshot, kubeconfig and context are of Source."""

    with_cluster: Annotated[
        list[str],
        typer.Option(
            "--with-cluster", metavar="FILE", help="Files of the cluster that the manifests go to. Repeatable."
        ),
    ] = field(default_factory=list)
    live: Annotated[bool, typer.Option("--live", help="Look at the live cluster of the current context too.")] = False

    def is_live(self, source: Source) -> bool:
        """Whether the cluster is a live one."""
        return bool(self.live or source.kubeconfig or source.context)

    def cluster(self, source: Source) -> DescribedCluster | None:
        """The cluster, if one is named. Raises KschedctlError."""
        named = replace(source, filename=self.with_cluster)
        if source.snapshot or self.is_live(source):
            return DescribedCluster(load_cluster(named, live=CREATION_LIMIT_KINDS.union(POOL_KINDS)))
        return _cluster_of_files(named) if self.with_cluster or source.demo else None


@dataclass(frozen=True)
class Which(LintFilters):
    """Which rules, and which findings to report."""

    profile: Annotated[
        RuleProfile | None,
        typer.Option(
            "--profile",
            metavar="|".join(RuleProfile),
            help="strict: advice that many do without too; all: every rule, wherever.  [default: default]",
        ),
    ] = None
    select: Annotated[
        list[str], typer.Option("--select", metavar="RULE,…", help="Only these rules; * stands for anything.")
    ] = field(default_factory=list)
    ignore: Annotated[list[str], typer.Option("--ignore", metavar="RULE,…", help="Not these rules.")] = field(
        default_factory=list
    )
    fail_on: Annotated[
        Severity | None,
        typer.Option(
            "--fail-on", metavar="error|warning|note", help="Exit 1 from this severity up.  [default: warning]"
        ),
    ] = None
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="FILE", help="Report only findings that are not in this file.")
    ] = None
    write_baseline: Annotated[
        str | None, typer.Option("--write-baseline", metavar="FILE", help="Write the findings to this file.")
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit 2 if a file cannot be read.")] = False
    settings: Annotated[
        str | None,
        typer.Option("--settings", metavar="FILE", help="pyproject.toml or .kschedctl.yaml.  [default: the nearest]"),
    ] = None
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes to the files; report the rest.")] = False
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and change nothing.")] = False

    def check_fixing(self, manifests: object) -> None:
        """Raises UsageError for what does not go together."""
        if self.fix and self.diff:
            raise UsageError("--fix writes what --diff only shows", hint="give one of them")
        if (self.fix or self.diff) and manifests is None:
            raise UsageError("nothing to fix: only files are written, never a cluster", hint="give manifests with -f")


@dataclass(frozen=True)
class Shown:
    """How to show what was found."""

    output: Annotated[
        OutputFormat, output_option("table", "wide", "json", "yaml", "sarif", "junit", "github", "markdown", "html")
    ] = TABLE
    color: Annotated[
        Color, typer.Option("--color", metavar="|".join(Color), help="auto: on terminals, unless NO_COLOR is set.")
    ] = Color.AUTO
    verbose: Annotated[
        int,
        typer.Option("-v", "--verbose", count=True, show_default=False, help="More detail on stderr; -vv: everything."),
    ] = 0
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only errors on stderr.")] = False
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="Also show how to fix each finding.")] = False

    def answer(self, document: object, exit_code: int = CLEAN) -> Answer:
        answer = Output(self.output, color=self.color).answer(document, exit_code)
        return replace(answer, style=replace(answer.style, fixes=self.show_fixes))

    def diff(self, fixes: LintFixes) -> Answer:
        """Raises UsageError for forms that show findings."""
        if self.output.name not in DIFF_FORMS:
            raise UsageError(f"--diff has no form {self.output.name}", hint="-o json or yaml, or none for the diff")
        answer = self.answer(fixes, FOUND if fixes.files else CLEAN)
        return replace(answer, format="diff") if self.output == TABLE else answer


@with_options
def lint(
    source: Source,
    around: Around,
    which: Which,
    shown: Shown,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE… | rules | explain RULE]", help="Manifests, as with -f.")
    ] = None,
) -> Answer | int:
    """What in these manifests, or in this cluster, makes scheduling go wrong?

    With --with-cluster, --snapshot, --demo, --live or a context, the rules that need nodes and pods run too; without
    manifests these lint the cluster itself. ``lint rules`` lists the rules, ``lint explain RULE`` explains one. The
    annotation kschedctl/ignore: RULE reason exempts an object from a rule.
    """
    words = files or []
    if words == ["rules"]:
        return shown.answer(build_rule_list())
    if words[:1] == ["explain"]:
        if len(words) != 2:
            raise UsageError("which rule?", hint="kschedctl lint explain RULE; kschedctl lint rules lists them")
        return shown.answer(build_rule_report(get_rule(words[1])))
    settings_file = Path(which.settings) if which.settings else find_settings(Path.cwd())
    settings = read_settings(settings_file)
    if not (source.snapshot or around.is_live(source)):
        source = replace(source, kube_version=source.kube_version or settings.kube_version)
    project = Project(settings, settings_file.parent if settings_file else Path.cwd())
    paths = [*source.filename, *words]
    manifests = _manifests(paths, source, which, project)
    check_output_files(which.write_baseline)
    which.check_fixing(manifests)
    cluster = around.cluster(source)
    types = around.read_types()
    goes = Destination(which.namespace or "", _together(project), _named(paths))
    linter = _linter(which, project, lambda linted: _lint_context(linted, source, cluster, goes, types))
    if manifests is not None and (which.fix or which.diff):
        return _fixed(LintFixer(manifests, linter), which, shown, settings)
    report = linter(manifests)[0]
    return shown.answer(report, UNDECIDED) if _only_templates(report, paths) else _told(report, which, shown, settings)


def _only_templates(report: Findings, paths: list[str]) -> bool:
    """Whether folders hold nothing but what something else would render; git's hooks name such files themselves."""
    nothing = not report.checked and not report.findings
    return nothing and any(passed_over.hint for passed_over in report.passed_over) and any(map(os.path.isdir, paths))


def _fixed(fixer: LintFixer, which: Which, shown: Shown, settings: LintSettings) -> Answer | int:
    """What is left, or what would change."""
    report = fixer.run()
    if which.diff:
        return shown.diff(fixer.document())
    fixer.write()
    return _told(replace(report, fixed=fixer.findings), which, shown, settings)


def _linter(
    which: Which, project: Project, context_of: Callable[[Repository | None], LintContext]
) -> Callable[[Repository | None], Linted]:
    """Lints manifests as was asked for; without any, the cluster."""
    settings = project.settings
    ignored = (*settings.ignore, *_listed(which.ignore))
    # A profile that the command line names is what is wanted now, whatever the settings select.
    selected = _listed(which.select) or (settings.select if which.profile is None else ())
    profile = which.profile or settings.profile
    rules = choose_rules(selected, ignored, profile, settings.severity)
    reporting = Reporting(
        settings.severity,
        which.severity or Severity.NOTE,
        _baseline(which, project),
        path_ignores(project),
        condensed=which.write_baseline is None and not selected and profile is not RuleProfile.ALL,
    )

    def linter(manifests: Repository | None) -> Linted:
        context = context_of(manifests)
        problems = find_problems(context, rules)
        return told(context, rules, problems, reporting, which.scope), problems

    return linter


def _told(report: Findings, which: Which, shown: Shown, settings: LintSettings) -> Answer | int:
    if which.write_baseline is not None:
        write_file(which.write_baseline, [render_baseline(report.findings).encode(errors="backslashreplace")])
        log.warning("wrote %d findings to %s", len(report.findings), which.write_baseline)
        return CLEAN
    return shown.answer(report, FOUND if report.at_least(which.fail_on or settings.fail_on) else CLEAN)


def _baseline(which: Which, project: Project) -> Counter[str]:
    """The one that is named, else that of the settings, unless one is written."""
    if which.baseline is not None:
        return read_baseline(which.baseline)
    if project.settings.baseline and which.write_baseline is None:
        return read_baseline(str(project.folder / project.settings.baseline))
    return Counter()


def _together(project: Project) -> list[list[str]]:
    """The settings' lists of paths, as files are named here."""
    return [[from_here(str(project.folder / path)) for path in paths] for paths in project.settings.together]


def _named(paths: list[str]) -> list[str]:
    """The files that were asked for by their names, as findings name them."""
    return [STDIN_NAME if path == STDIN else from_here(path) for path in paths if not os.path.isdir(path)]


def _cluster_of_files(source: Source) -> DescribedCluster:
    """The cluster of files that manifests go to. Raises KschedctlError."""
    cluster, reading = read_files(source)
    documents = (manifest.document for manifest in (*reading.stored, *reading.manifests))
    return DescribedCluster(cluster, stored={_owner(document): document for document in documents})


def _owner(document: JsonObject) -> Owner:
    metadata = object_at(document, "metadata")
    return Owner(str(document["kind"]), str(metadata.get("namespace") or "default"), str(metadata.get("name") or ""))


def _lint_context(
    manifests: Repository | None,
    source: Source,
    cluster: DescribedCluster | None,
    goes: Destination,
    types: Sequence[JsonObject] | None,
) -> LintContext:
    gates = FeatureGates(source.kube_version or KUBE_VERSION, parse_feature_gates(source.feature_gates))
    return lint_context(manifests, cluster, gates, goes, types)


def _manifests(paths: list[str], source: Source, which: Which, project: Project) -> Repository | None:
    """None where no path is given."""
    if not paths:
        return None
    kept = which.kept(find_files(paths, source.recursive).files, project)
    files = [file if file == STDIN else from_here(file) for file in kept]
    builds = source.builds(files)
    with show_progress() as shown:
        return read_repository(files, builds, strict=which.strict, progress=shown.begin)


def _listed(given: list[str]) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for text in given for part in text.split(","))))
