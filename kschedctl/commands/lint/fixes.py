"""The fixes of `lint --fix` and `--diff`: kept only if they remove findings and add none."""

from __future__ import annotations

import codecs
import difflib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.errors import UsageError
from kschedctl.lint.catalogue import INVALID
from kschedctl.lint.objects.subject import Problem, format_path
from kschedctl.lint.rule import Rule
from kschedctl.reports.document import Document, RootDocument
from kschedctl.reports.findings import Finding, Findings
from kschedctl.sources.documents.positions import LocatedObject, Text, parse_objects
from kschedctl.sources.documents.yaml_edits import Correction, correct_text
from kschedctl.sources.output_file import write_file
from kschedctl.sources.repository import Repository
from kschedctl.text.printable import printable

HIDING_RULES = frozenset({INVALID.id, "api-refused", "api-unknown-field"})
"""Rules about objects that the API server rejects. Their findings can hide other findings about the object."""
Problems = Sequence[tuple[Rule, Problem]]
Linted = tuple[Findings, Problems]
FindingKey = tuple[str, str, str]
"""The rule, file and object of a finding, which stay the same when a field of the object changes."""


class FileFixes(Document, frozen=True):
    """The fixes of a file."""

    file: str
    diff: str
    """The unified diff of the file."""
    findings: tuple[Finding, ...]
    """The findings that the fixes correct."""


class LintFixes(RootDocument, frozen=True):
    """The files that --fix would change."""

    files: tuple[FileFixes, ...] = ()
    kind: str = "LintFixes"


class _FindingLocation(NamedTuple):
    """The rule of a finding and the field that it is about. A problem and its finding have the same location."""

    rule: str
    object: str
    path: str
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class FixedText:
    """A file with its fixes."""

    text: Text
    fixed_text: str
    """The text with the fixes."""
    findings: tuple[Finding, ...]
    """The findings that the fixes correct."""

    def combine(self, later: FixedText) -> FixedText:
        """Return these fixes together with later ones of the same file."""
        return FixedText(self.text, later.fixed_text, self.findings + later.findings)

    @property
    def parsed_objects(self) -> dict[tuple[int, object], LocatedObject]:
        """The objects of the fixed file by document number and path in the document."""
        content = self.text.content._replace(text=self.fixed_text)
        return {(manifest.document, manifest.root): manifest for manifest in parse_objects(self.text.file, content)}


@dataclass(frozen=True)
class _LintedManifests:
    """Manifests and what lint finds in them."""

    manifests: Repository
    report: Findings
    problems: Problems


@dataclass
class LintFixer:
    """The fixes of manifests, which are linted again to check them."""

    manifests: Repository
    lint: Callable[[Repository], Linted]
    """The function that lints manifests."""
    files: dict[str, FixedText] = field(default_factory=dict)
    """The fixes of each file."""

    def run(self) -> Findings:
        """Fix the manifests in memory and return the remaining findings.

        Findings that may hide others are fixed first. A file stays as it is if a fix in it fails to remove its finding
        or causes a new one.
        """
        texts = {located.text for located in self.manifests.objects if isinstance(located, LocatedObject)}
        writable_files = {text.file for text in texts if _is_writable(text)}
        linted = _LintedManifests(self.manifests, *self.lint(self.manifests))
        for hiding in (True, False):  # first the problems that hide others
            fixable = [(rule, problem) for rule, problem in linted.problems if (rule.id in HIDING_RULES) is hiding]
            fixes = [fix for fix in _iter_fixed_texts(linted.report, fixable) if fix.text.file in writable_files]
            linted = self._make_working_fixes(linted, fixes, hiding=hiding)
        return linted.report

    def _make_working_fixes(
        self, linted: _LintedManifests, fixes: list[FixedText], *, hiding: bool
    ) -> _LintedManifests:
        """Make the fixes of the files in which all fixes work, record them, and return the fixed manifests.

        If there are no such files, the manifests are returned unchanged. `hiding` says whether the fixed problems may
        hide others.
        """
        while fixes:
            fixed_manifests = _replace_manifests(linted.manifests, fixes)
            fixed = _LintedManifests(fixed_manifests, *self.lint(fixed_manifests))
            failed_files = _find_failed_files(linted.report, fixed.report, fixes, hiding=hiding)
            if not failed_files:
                self._record_fixes(fixes)
                return fixed
            # Try again without the failed files. Give up if none of them has a fix.
            remaining_fixes = [fix for fix in fixes if fix.text.file not in failed_files]
            fixes = remaining_fixes if len(remaining_fixes) < len(fixes) else []
        return linted

    def _record_fixes(self, fixes: Iterable[FixedText]) -> None:
        """Add fixes to the earlier fixes of their files."""
        for fix in fixes:
            before = self.files.get(fix.text.file)
            self.files[fix.text.file] = before.combine(fix) if before else fix

    @property
    def fixed_findings(self) -> tuple[Finding, ...]:
        """The findings that the fixes correct."""
        return tuple(finding for fixed_text in self.files.values() for finding in fixed_text.findings)

    def write(self) -> None:
        """Write the fixed files, each with its byte order mark if it had one.

        Raises InputError at the first file that cannot be written.
        """
        for file, fix in self.files.items():
            byte_order_mark = codecs.BOM_UTF8 if _read_bytes(fix.text).startswith(codecs.BOM_UTF8) else b""
            write_file(file, [byte_order_mark, fix.fixed_text.encode()])

    def build_report(self) -> LintFixes:
        """Build the report with the diff of each fixed file."""
        return LintFixes(tuple(FileFixes(file, _build_diff(fix), fix.findings) for file, fix in self.files.items()))


def count_fixable(report: Findings, problems: Problems) -> int:
    """Count the findings that have a safe fix in a file that can be changed."""
    return sum(len(fix.findings) for fix in _iter_fixed_texts(report, problems) if _is_writable(fix.text))


def _replace_manifests(manifests: Repository, fixes: Iterable[FixedText]) -> Repository:
    """Return the manifests, with the objects of fixed files replaced by those of the fixed text."""
    fixed_objects = {fix.text: fix.parsed_objects for fix in fixes}
    objects = (
        fixed_objects[manifest.text][manifest.document, manifest.root]
        if isinstance(manifest, LocatedObject) and manifest.text in fixed_objects
        else manifest
        for manifest in manifests.objects
    )
    return manifests._replace(objects=tuple(objects))


def _iter_fixed_texts(report: Findings, problems: Problems) -> Iterator[FixedText]:
    """Yield each file that has safe fixes for its reported problems, with the fixes.

    Files that Helm renders are left out, because Helm would overwrite them.
    """
    for text, finding_by_correction in _collect_corrections(report, problems).items():
        fixed_text, made_corrections = correct_text(text.content, list(finding_by_correction))
        if made_corrections:
            corrected_findings = tuple(finding_by_correction[correction] for correction in made_corrections)
            yield FixedText(text, fixed_text, corrected_findings)


def _collect_corrections(report: Findings, problems: Problems) -> dict[Text, dict[Correction, Finding]]:
    """Return the possible corrections of each file, each with the finding that it corrects.

    Problems that the report does not mention are left out, and so are files that Helm renders.
    """
    finding_by_location = {_build_finding_location(finding): finding for finding in report.findings}
    corrections: dict[Text, dict[Correction, Finding]] = defaultdict(dict)
    for rule, problem in problems:
        place = problem.subject.location
        edit = rule.find_edit(problem)
        if edit is None or not isinstance(place, LocatedObject) or place.source:
            continue
        finding = finding_by_location.get(_build_problem_location(rule, problem, place))
        if finding is not None:
            corrections[place.text][Correction(place.document, place.root, edit)] = finding
    return corrections


def _build_finding_location(finding: Finding) -> _FindingLocation:
    """Return the rule and the location of a finding."""
    return _FindingLocation(
        rule=finding.rule,
        object=finding.object,
        path=finding.path,
        file=finding.file,
        line=finding.line,
        column=finding.column,
    )


def _build_problem_location(rule: Rule, problem: Problem, place: LocatedObject) -> _FindingLocation:
    """Return the rule and the location that the finding about the problem has. `place` has the problem's object."""
    line, column = place.locate(problem.path)
    return _FindingLocation(
        rule=rule.id,
        object=str(problem.subject),
        path=format_path(problem.path),
        file=place.file,
        line=line,
        column=column,
    )


def _is_writable(text: Text) -> bool:
    """Return whether the text is a plain file that has not changed since it was read."""
    return os.path.isfile(text.file) and _read_bytes(text).removeprefix(codecs.BOM_UTF8) == text.content.text.encode()


def _read_bytes(text: Text) -> bytes:
    """Return the content of a file, or b"" if it cannot be read."""
    try:
        with open(text.file, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _find_failed_files(before: Findings, after: Findings, fixes: Iterable[FixedText], *, hiding: bool) -> set[str]:
    """Return the files in which a finding remains despite its fix, or in which a fix caused a new finding.

    With `hiding`, new findings are ignored, because the corrected findings may have hidden them.
    """
    corrected_counts = Counter(_get_finding_key(finding) for fix in fixes for finding in fix.findings)
    allowed_counts = Counter(map(_get_finding_key, before.findings))
    allowed_counts.subtract(corrected_counts)
    actual_counts = Counter(map(_get_finding_key, after.findings))
    failed_files = set()
    for key, actual_count in actual_counts.items():
        _, file, _ = key
        if actual_count > allowed_counts[key] and (key in corrected_counts or not hiding):
            failed_files.add(file)
    return failed_files


def _get_finding_key(finding: Finding) -> FindingKey:
    """Return the key by which a finding is compared before and after a fix."""
    return finding.rule, finding.file, finding.object


def _build_diff(fixed: FixedText) -> str:
    """Build the unified diff between the text of a file and its fixed text."""
    before = list(io.StringIO(fixed.text.content.text, newline="\n"))
    after = list(io.StringIO(fixed.fixed_text, newline="\n"))
    name = fixed.text.file
    lines = difflib.unified_diff(before, after, f"a/{name.lstrip('/')}", f"b/{name.lstrip('/')}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def render_diff(document: Document) -> str:
    """Render the diffs of all files, with control characters escaped. Raises UsageError for other documents."""
    if not isinstance(document, LintFixes):
        raise UsageError("-o diff works only for fixes", hint="use lint --diff")
    return "".join(f"{_escape_line(line)}\n" for file in document.files for line in file.diff.split("\n")[:-1])


def _escape_line(line: str) -> str:
    """Escape the control characters of a line, except tabs and the carriage return of a Windows line end."""
    carriage_return = "\r" if line.endswith("\r") else ""
    return "\t".join(map(printable, line.removesuffix("\r").split("\t"))) + carriage_return
