"""Manifests put right: which findings have a safe fix, the files after it, and that it did what it should."""

from __future__ import annotations

import codecs
import difflib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kschedctl.commands.lint.fixes_report import FileFixes, LintFixes
from kschedctl.lint.catalogue import INVALID
from kschedctl.lint.framework.rule import Rule
from kschedctl.lint.objects.subject import Problem, path_text
from kschedctl.reports.findings import Finding, Findings
from kschedctl.sources.documents.corrections import Correction, corrected
from kschedctl.sources.documents.positions import LocatedObject, Text, manifests_of
from kschedctl.sources.output_file import write_file
from kschedctl.sources.repository import Repository

HIDING = frozenset({INVALID.id, "api-refused", "api-unknown-field"})
"""Rules of objects as the API does not take them: what is wrong with those that it takes comes to light later."""
Problems = Sequence[tuple[Rule, Problem]]
Linted = tuple[Findings, Problems]
Sort = tuple[str, str, str]
"""Rule, file and object: what of a finding stays as it is when a field of the object changes."""


@dataclass(frozen=True)
class FixedText:
    """A file after its fixes, and the findings that they were for."""

    text: Text
    after: str
    findings: tuple[Finding, ...]

    def then(self, later: FixedText) -> FixedText:
        """This outcome, and what was fixed of it later."""
        return FixedText(self.text, later.after, self.findings + later.findings)

    @property
    def manifests(self) -> dict[tuple[int, object], LocatedObject]:
        """The objects of the file by where they stand."""
        content = self.text.content._replace(text=self.after)
        return {(manifest.document, manifest.root): manifest for manifest in manifests_of(self.text.file, content)}


@dataclass
class LintFixer:
    """``lint`` lints manifests: before the fixes, and after them to see that all findings are gone and none came."""

    manifests: Repository
    lint: Callable[[Repository], Linted]
    files: dict[str, FixedText] = field(default_factory=dict)

    def run(self) -> Findings:
        """What is left to report. Files in which a fix does not do what it should stay as they are."""
        texts = {located.text for located in self.manifests.objects if isinstance(located, LocatedObject)}
        writable = {text.file for text in texts if _is_as_read(text)}
        current, (report, problems) = self.manifests, self.lint(self.manifests)
        for hiding in (True, False):
            mine = [(rule, problem) for rule, problem in problems if (rule.id in HIDING) is hiding]
            fixed = [fix for fix in _fixed_texts(report, mine) if fix.text.file in writable]
            while fixed:
                after = _replaced(current, fixed)
                linted = self.lint(after)
                wrong = _too_many(report, linted[0], fixed, hiding)
                if not wrong:
                    current, (report, problems) = after, linted
                    self._keep(fixed)
                    break
                fixed = [fix for fix in fixed if fix.text.file not in wrong] if _blames(wrong, fixed) else []
        return report

    def _keep(self, fixed: Iterable[FixedText]) -> None:
        for fix in fixed:
            before = self.files.get(fix.text.file)
            self.files[fix.text.file] = before.then(fix) if before else fix

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the fixes put right."""
        return tuple(finding for fixed_text in self.files.values() for finding in fixed_text.findings)

    def write(self) -> None:
        """Raises InputError for a file that cannot be written; those before it are."""
        for file, fix in self.files.items():
            mark = codecs.BOM_UTF8 if _raw(fix.text).startswith(codecs.BOM_UTF8) else b""
            write_file(file, [mark, fix.after.encode()])

    def document(self) -> LintFixes:
        """Fixes as diffs."""
        return LintFixes(tuple(FileFixes(file, _diff(fix), fix.findings) for file, fix in self.files.items()))


def _replaced(manifests: Repository, fixed: Iterable[FixedText]) -> Repository:
    """The manifests, those of fixed files as they are then."""
    after = {fix.text: fix.manifests for fix in fixed}
    objects = (
        after[m.text][m.document, m.root] if isinstance(m, LocatedObject) and m.text in after else m
        for m in manifests.objects
    )
    return manifests._replace(objects=tuple(objects))


def _blames(wrong: set[str], fixed: Iterable[FixedText]) -> bool:
    return any(fix.text.file in wrong for fix in fixed)


def _fixed_texts(report: Findings, problems: Problems) -> Iterable[FixedText]:
    reported = {(f.rule, f.object, f.path, f.file, f.line, f.column): f for f in report.findings}
    wanted: dict[Text, dict[Correction, Finding]] = defaultdict(dict)
    for rule, problem in problems:
        place, change = problem.subject.place, rule.find_edit(problem)
        if change is None or not isinstance(place, LocatedObject) or place.source:  # Helm would write it again
            continue
        key = rule.id, str(problem.subject), path_text(problem.path), place.file, *place.locate(problem.path)
        if key in reported:
            wanted[place.text][Correction(place.document, place.root, change)] = reported[key]
    for text, findings in wanted.items():
        after, made = corrected(text.content, list(findings))
        if made:
            yield FixedText(text, after, tuple(findings[correction] for correction in made))


def _is_as_read(text: Text) -> bool:
    """Whether it is a file that can be written: no pipe, not packed, and not changed meanwhile."""
    return os.path.isfile(text.file) and _raw(text).removeprefix(codecs.BOM_UTF8) == text.content.text.encode()


def _raw(text: Text) -> bytes:
    try:
        with open(text.file, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _too_many(before: Findings, after: Findings, fixed: Iterable[FixedText], hiding: bool) -> set[str]:
    """The files that have a finding which the fixes should have put right, or made.

    What comes to light where another finding was ``hiding`` it was there before.
    """
    gone = Counter(_sort(finding) for fix in fixed for finding in fix.findings)
    allowed = Counter(map(_sort, before.findings))
    allowed.subtract(gone)
    sorts = Counter(map(_sort, after.findings))
    return {sort[1] for sort in sorts if sorts[sort] > allowed[sort] and (sort in gone or not hiding)}


def _sort(finding: Finding) -> Sort:
    return finding.rule, finding.file, finding.object


def _diff(fixed: FixedText) -> str:
    """A unified diff, as patch and git apply take it."""
    before, after = (list(io.StringIO(text, newline="\n")) for text in (fixed.text.content.text, fixed.after))
    name = fixed.text.file
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
