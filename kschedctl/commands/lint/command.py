"""The command line of `kschedctl lint`."""

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
from kschedctl.cli.autoscaler_options import POOL_KINDS, InstanceTypeInput
from kschedctl.cli.options import Source, parse_feature_gates, with_options
from kschedctl.cli.output_options import (
    TABLE,
    UNDECIDED,
    Answer,
    Color,
    ColorOption,
    Output,
    OutputFormat,
    QuietOption,
    VerboseOption,
    declare_output_option,
)
from kschedctl.cli.progress import show_progress
from kschedctl.cli.source import CREATION_LIMIT_KINDS, load_cluster, read_files
from kschedctl.commands.lint import DescribedCluster, Destination, build_context, build_report
from kschedctl.commands.lint.fixes import Linted, LintFixer, LintFixes, count_fixable
from kschedctl.commands.lint.settings import (
    LintFilters,
    Project,
    build_path_ignores,
    find_settings,
    read_baseline,
    read_settings,
)
from kschedctl.errors import UsageError
from kschedctl.lint.catalogue import build_rule_list, build_rule_report
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import LintSettings, choose_rules, find_all_problems, get_rule
from kschedctl.lint.reporting import Reporting
from kschedctl.lint.rule import RuleProfile, Severity
from kschedctl.lint.suppression import STDIN_NAME, render_baseline
from kschedctl.reports.findings import Findings
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.documents.files import STDIN, find_files, make_relative_path
from kschedctl.sources.output_file import validate_output_files, write_file
from kschedctl.sources.repository import Repository, read_repository
from kschedctl.text.counts import counted

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
class ClusterOptions(InstanceTypeInput):
    """The cluster of the manifests. Without manifests, the cluster itself is linted.

    Snapshot, kubeconfig and context are options of `Source`.
    """

    with_cluster: Annotated[
        list[str],
        typer.Option(
            "--with-cluster",
            metavar="FILE",
            help="File with the objects of the cluster to which the manifests will be applied. Repeatable.",
        ),
    ] = field(default_factory=list)
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Lint against the live cluster of the current context; without manifests, lint the cluster itself.",
        ),
    ] = False

    def is_live(self, source: Source) -> bool:
        """Return whether the cluster is a live one."""
        return bool(self.live or source.kubeconfig or source.context)

    def find_name(self, source: Source) -> str | None:
        """Return the name of the cluster for people, "" without a cluster, or None if `source` knows the name.

        It knows the name of a snapshot, of the demo and of a live cluster.
        """
        if source.snapshot or source.demo or self.is_live(source):
            return None
        return ", ".join(self.with_cluster)

    def load_cluster(self, source: Source) -> DescribedCluster | None:
        """Load the cluster that the options name, or return None if they name none.

        A snapshot or a live cluster takes precedence over files. Raises KschedctlError if the cluster cannot be loaded.
        """
        # The files of `source` are the manifests to lint, not objects of the cluster
        cluster_source = replace(source, filename=self.with_cluster)
        if source.snapshot or self.is_live(source):
            return DescribedCluster(load_cluster(cluster_source, live=CREATION_LIMIT_KINDS.union(POOL_KINDS)))
        if self.with_cluster or source.demo:
            return _load_cluster_from_files(cluster_source)
        return None


@dataclass(frozen=True)
class RuleOptions(LintFilters):
    """The rules to run, the findings to report, and whether to fix them."""

    profile: Annotated[
        RuleProfile | None,
        typer.Option(
            "--profile",
            metavar="|".join(RuleProfile),
            help="Set of rules to run. strict adds rules that many clusters do not follow. all runs every rule and "
            "lists repeated findings one by one.  [default: default]",
        ),
    ] = None
    select: Annotated[
        list[str],
        typer.Option("--select", metavar="RULE,…", help="Run only these rules; * matches any characters, as in pdb-*."),
    ] = field(default_factory=list)
    ignore: Annotated[
        list[str],
        typer.Option("--ignore", metavar="RULE,…", help="Skip these rules; * matches any characters, as in pdb-*."),
    ] = field(default_factory=list)
    fail_on: Annotated[
        Severity | None,
        typer.Option(
            "--fail-on",
            metavar="error|warning|note",
            help="Exit with 1 if there are findings of this severity or higher.  [default: warning]",
        ),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="Report only findings that are not in this file, which --write-baseline wrote earlier.",
        ),
    ] = None
    write_baseline: Annotated[
        str | None,
        typer.Option(
            "--write-baseline", metavar="FILE", help="Write all findings to this file, for later use with --baseline."
        ),
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 2 if a file cannot be read.")] = False
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings file: pyproject.toml or .kschedctl.yaml.  [default: the nearest one in this folder or "
            "above]",
        ),
    ] = None
    fix: Annotated[
        bool, typer.Option("--fix", help="Apply the safe fixes to the files, and report the remaining findings.")
    ] = False
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, without changing the files.")] = (
        False
    )

    def validate_fix_options(self, manifests: object) -> None:
        """Raise UsageError if --fix and --diff are combined, or used without manifests."""
        if self.fix and self.diff:
            raise UsageError(
                "--fix and --diff cannot be combined", hint="use --diff to see the fixes, --fix to write them"
            )
        if (self.fix or self.diff) and manifests is None:
            raise UsageError("nothing to fix: only files can be fixed, not a cluster", hint="pass manifests with -f")


@dataclass(frozen=True)
class DisplayOptions:
    """The options for the output format and the level of detail."""

    output: Annotated[
        OutputFormat,
        declare_output_option("table", "wide", "json", "yaml", "sarif", "junit", "github", "markdown", "html"),
    ] = TABLE
    color: ColorOption = Color.AUTO
    verbose: VerboseOption = 0
    quiet: QuietOption = False
    brief: Annotated[bool, typer.Option("--brief", help="Print at most 12 lines: the most severe findings.")] = False
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="Also show how to fix each finding.")] = False

    def build_answer(self, document: object, exit_code: int = CLEAN, *, cluster_name: str | None = None) -> Answer:
        """Build the answer that shows a document in the chosen format."""
        answer = Output(self.output, color=self.color, brief=self.brief).build_answer(document, exit_code)
        style = replace(answer.style, fixes=self.show_fixes)
        return replace(answer, style=style, cluster_name=cluster_name)

    def build_diff_answer(self, fixes: LintFixes) -> Answer:
        """Build the answer that shows fixes, with exit code 1 if there are any.

        Raises UsageError for output formats that only show findings.
        """
        if self.output.name not in DIFF_FORMS:
            raise UsageError(
                f"--diff does not support -o {self.output.name}", hint="use -o json or yaml, or leave -o out for a diff"
            )
        answer = self.build_answer(fixes, FOUND if fixes.files else CLEAN, cluster_name="")
        if not fixes.files:
            log.warning("nothing to change: no finding has a fix that is certain to be right")
        return replace(answer, format="diff") if self.output == TABLE else answer


def _explain_rule(arguments: Sequence[str], display: DisplayOptions) -> Answer:
    """Answer ``lint explain`` for the rule in `arguments`. Raises UsageError unless there is exactly one argument."""
    if len(arguments) != 1:
        raise UsageError(
            "lint explain needs exactly one rule",
            hint="kschedctl lint explain RULE; list all rules with: kschedctl lint rules",
        )
    return display.build_answer(build_rule_report(get_rule(arguments[0])), cluster_name="")


@with_options
def lint(
    source: Source,
    cluster_options: ClusterOptions,
    rule_options: RuleOptions,
    display: DisplayOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE… | rules | explain RULE]",
            help="Manifests to lint, as with -f. rules lists the rules, and explain RULE explains one.",
        ),
    ] = None,
) -> Answer | int:
    """What would break scheduling in these manifests, or in this cluster?

    Rules that need nodes and pods run only with --with-cluster, --snapshot, --demo, --live or a context. Without
    manifests, lints the cluster itself. kschedctl lint rules lists the rules, and kschedctl lint explain RULE explains
    one of them. The annotation kschedctl/ignore: RULE reason exempts an object from a rule.
    """
    arguments = files or []
    if arguments == ["rules"]:
        return display.build_answer(build_rule_list(), cluster_name="")
    if arguments[:1] == ["explain"]:
        return _explain_rule(arguments[1:], display)

    # Read the settings and the input.
    settings_file = Path(rule_options.settings) if rule_options.settings else find_settings(Path.cwd())
    settings = read_settings(settings_file)
    if not (source.snapshot or cluster_options.is_live(source)):
        source = replace(source, kube_version=source.kube_version or settings.kube_version)
    project = Project(settings, settings_file.parent if settings_file else Path.cwd())
    paths = [*source.filename, *arguments]
    manifests = _read_manifests(paths, source, rule_options, project)
    validate_output_files(rule_options.write_baseline)
    rule_options.validate_fix_options(manifests)
    cluster = cluster_options.load_cluster(source)
    instance_types = cluster_options.read_types()

    # Lint, and fix if requested.
    destination = Destination(
        rule_options.namespace or "",
        declared_clusters=_resolve_paths_applied_together(project),
        named_files=_list_named_files(paths),
    )
    gates = FeatureGates(source.kube_version or KUBE_VERSION, parse_feature_gates(source.feature_gates))
    linter = _build_linter(
        rule_options, project, lambda linted: build_context(linted, cluster, gates, destination, instance_types)
    )
    if manifests is not None and (rule_options.fix or rule_options.diff):
        fixer = LintFixer(manifests, linter)
        return _fix_files(fixer, rule_options, display, settings, cluster_options.find_name(source))
    report, problems = linter(manifests)
    if _has_only_templates(report, paths):
        return display.build_answer(report, UNDECIDED, cluster_name="")
    report = replace(report, fixable=count_fixable(report, problems))
    return _build_findings_answer(report, rule_options, display, settings, cluster_options.find_name(source))


def _has_only_templates(report: Findings, paths: list[str]) -> bool:
    """Return whether the folders contain only templates that another tool has to render, so nothing was linted.

    Files given by name do not count, because git hooks name such files as well.
    """
    if report.checked or report.findings or not any(map(os.path.isdir, paths)):
        return False
    return any(passed_over.hint for passed_over in report.passed_over)


def _fix_files(
    fixer: LintFixer,
    rule_options: RuleOptions,
    display: DisplayOptions,
    settings: LintSettings,
    cluster_name: str | None,
) -> Answer | int:
    """Fix the files and report the remaining findings. With --diff, write nothing and show the changes."""
    report = fixer.run()
    if rule_options.diff:
        return display.build_diff_answer(fixer.build_report())
    fixer.write()
    report = replace(report, fixed=fixer.fixed_findings)
    return _build_findings_answer(report, rule_options, display, settings, cluster_name)


def _build_linter(
    rule_options: RuleOptions, project: Project, get_context: Callable[[Repository | None], LintContext]
) -> Callable[[Repository | None], Linted]:
    """Build a function that lints manifests, or the cluster, according to the options and settings."""
    settings = project.settings
    ignored = (*settings.ignore, *_split_lists(rule_options.ignore))
    selected = _split_lists(rule_options.select)
    if not selected and rule_options.profile is None:  # --profile overrides the rules that the settings select
        selected = settings.select
    profile = rule_options.profile or settings.profile
    rules = choose_rules(selected, ignored, profile, settings.severity)
    reporting = Reporting(
        settings.severity,
        rule_options.severity or Severity.NOTE,
        _load_baseline(rule_options, project),
        build_path_ignores(project),
        condensed=rule_options.write_baseline is None and not selected and profile is not RuleProfile.ALL,
    )

    def lint_manifests_or_cluster(manifests: Repository | None) -> Linted:
        """Lint manifests, or the cluster if they are None."""
        context = get_context(manifests)
        problems = find_all_problems(context, rules)
        return build_report(context, rules, problems, reporting, rule_options.scope), problems

    return lint_manifests_or_cluster


def _build_findings_answer(
    report: Findings,
    rule_options: RuleOptions,
    display: DisplayOptions,
    settings: LintSettings,
    cluster_name: str | None,
) -> Answer | int:
    """Build the answer that shows the findings, with exit code 1 if one of them is severe enough.

    If the options request a baseline, it is written instead, and exit code 0 is returned.
    """
    if rule_options.write_baseline is not None:
        write_file(rule_options.write_baseline, [render_baseline(report.findings).encode(errors="backslashreplace")])
        log.warning("wrote %s to %s", counted(len(report.findings), "finding"), rule_options.write_baseline)
        return CLEAN
    fails = report.has_at_least(rule_options.fail_on or settings.fail_on)
    return display.build_answer(report, FOUND if fails else CLEAN, cluster_name=cluster_name)


def _load_baseline(rule_options: RuleOptions, project: Project) -> Counter[str]:
    """Load the baseline of the options, or else that of the settings. Without either, return an empty baseline.

    The baseline of the settings is not used while a baseline is being written.
    """
    if rule_options.baseline is not None:
        return read_baseline(rule_options.baseline)
    if project.settings.baseline and rule_options.write_baseline is None:
        return read_baseline(str(project.folder / project.settings.baseline))
    return Counter()


def _resolve_paths_applied_together(project: Project) -> list[list[str]]:
    """Return the lists of paths in the setting ``together``, relative to the current folder."""
    return [[make_relative_path(str(project.folder / path)) for path in paths] for paths in project.settings.together]


def _list_named_files(paths: list[str]) -> list[str]:
    """Return the paths that are not folders, written as in findings."""
    return [STDIN_NAME if path == STDIN else make_relative_path(path) for path in paths if not os.path.isdir(path)]


def _load_cluster_from_files(source: Source) -> DescribedCluster:
    """Load the cluster that files describe, with the manifests of its workloads.

    Raises KschedctlError if a file cannot be read.
    """
    cluster, reading = read_files(source)
    documents = (manifest.document for manifest in (*reading.stored, *reading.manifests))
    return DescribedCluster(
        cluster, stored_manifests={_get_workload_identity(document): document for document in documents}
    )


def _get_workload_identity(document: JsonObject) -> Owner:
    """Return the kind, namespace and name of a workload's document, by which its pods refer to it."""
    metadata = object_at(document, "metadata")
    return Owner(str(document["kind"]), str(metadata.get("namespace") or "default"), str(metadata.get("name") or ""))


def _read_manifests(paths: list[str], source: Source, rule_options: RuleOptions, project: Project) -> Repository | None:
    """Read the manifests under the paths that are not excluded, or return None if no path is given."""
    if not paths:
        return None
    included = rule_options.exclude_files(find_files(paths, source.recursive).files, project)
    files = [file if file == STDIN else make_relative_path(file) for file in included]
    builds = source.builds(files)
    with show_progress() as progress:
        return read_repository(files, builds, strict=rule_options.strict, progress=progress.begin)


def _split_lists(lists: list[str]) -> tuple[str, ...]:
    """Return all items of comma-separated lists, without empty ones."""
    return tuple(filter(None, (part.strip() for text in lists for part in text.split(","))))
