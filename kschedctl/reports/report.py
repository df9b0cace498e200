"""The base of all documents that answer a question, and the answers about several clusters: kind Answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from html import escape
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document, RootDocument
from kschedctl.reports.summary import MOST_COMMANDS, ShortPods, Summary
from kschedctl.reports.unknown import describe_unread_kinds
from kschedctl.text.counts import counted
from kschedctl.text.printable import printable

FRAME = "width: 100%; height: 40em; border: 0"


class GateProblem(NamedTuple):
    """A problem that fails a CI gate."""

    rule: str
    """The id of a rule in ``RULES`` of the gates."""
    object: str
    """Such as ``Pod shop/web``."""
    message: str
    fix: str = ""
    """The change that helps, or an empty string for the fix of the rule."""


def with_pod_count(pods: int, message: str) -> str:
    """Put the number of pods before the message if there are several.

    >>> with_pod_count(2, "Insufficient cpu")
    '2 pods: Insufficient cpu'
    """
    return message if pods == 1 else f"{counted(pods, 'pod')}: {message}"


def _render(report: PlainReport, form: str) -> object:
    """Render the report in an output format of ``-o``, such as ``html``."""
    # The renderers are in a higher layer, so they are imported by name
    style = import_module("kschedctl.render.page").Style()
    render = import_module("kschedctl.render.renderers").RENDERERS[form]
    return render(report, style)


class PlainReport(Document, frozen=True):
    """A document that answers a question of the library. No command prints it."""

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the headline, which answers the question in one line, in parts.

        A page may show the parts in different tones.
        """
        return (str(getattr(self, "headline", "")),)

    @property
    def headline_lists_causes(self) -> bool:
        """True if the headline only lists the causes, so that a page with the causes may leave it out."""
        return False

    @property
    def headline_names_unread(self) -> bool:
        """True if the headline of the summary names the unread kinds that could change the verdict."""
        return False

    @property
    def headline_entries(self) -> int:
        """Return how many of the first entries in the summary's pods its headline describes in full."""
        return 0

    def extend_summary(self, summary: Summary) -> Summary:
        """Extend the summary by the decisive facts of this kind of answer, and return it."""
        return summary

    def summary(self, commands: Iterable[str] = ()) -> Summary:
        """Build a summary of the decisive facts, at most 12 KB of JSON.

        `commands` are command lines to run next, of which the first MOST_COMMANDS are included.

        >>> PlainReport().summary().summarizes
        'PlainReport'
        """
        summary = Summary(
            summarizes=str(getattr(self, "kind", type(self).__name__)),
            subject="",
            verdict="",
            headline=" ".join(filter(None, self.build_headline_parts())),
            undecided=bool(getattr(self, "undecided", False)),
            doubts=tuple(dict.fromkeys(self.iter_doubts())),
            next=tuple(islice(dict.fromkeys(commands), MOST_COMMANDS)),
        )
        return self.extend_summary(summary).shorten()

    def build_csv_table(self) -> CsvTable | None:
        """Return the main table of the report for ``-o csv``, or None if it has none."""
        return None

    def list_pod_names(self) -> Iterable[str] | None:
        """Return the pods for ``-o name``, as ``namespace/name``, or None if the report is not about pods."""
        return None

    def find_ci_gate_problems(self) -> Iterable[GateProblem] | None:
        """Return the problems that fail a CI gate, or None if reports of this kind have no gate."""
        return None

    def describe_gaps(self) -> str:
        """Return what the report leaves open although nothing is unread, for the tile about certainty, or ""."""
        return ""

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "the answer is good"

    def describe_sections(self) -> Mapping[str, str]:
        """Return the title of each section that HTML folds away, with the section's state in a few words."""
        return {}

    def list_open_sections(self) -> Collection[str]:
        """Return the titles of the sections that HTML shows unfolded although `describe_sections` lists them."""
        return ()

    def as_list(self) -> Document:
        """Return the document whose main list becomes a DataFrame if this report has no CSV table."""
        return self

    def to_markdown(self) -> str:
        """Return the document as Markdown, like ``-o markdown``."""
        return str(_render(self, "markdown"))

    def to_html(self) -> str:
        """Return the document as one HTML page that loads nothing else, like ``-o html``."""
        return str(_render(self, "html"))

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame, for notebooks."""
        return f'<iframe sandbox="allow-scripts" style="{FRAME}" srcdoc="{escape(self.to_html())}"></iframe>'

    def to_frame(self) -> Any:
        """Return the rows of ``-o csv``, or else of the main list, as a DataFrame of polars or pandas.

        Without CSV, columns are named like the fields in JSON. Raises UsageError if neither library is installed.
        """
        return import_module("kschedctl.render.main_table").to_frame(self)

    def __str__(self) -> str:
        """Return the answer in one line, without control characters."""
        return printable(" ".join(filter(None, self.build_headline_parts())) or type(self).__name__)

    def iter_doubts(self) -> Iterator[str]:
        """Yield the doubts about the answer: what was not read, replayed or verified, and bugs of kube-scheduler."""
        yield from self._describe_interruption()
        if unknown := describe_unread_kinds(getattr(self, "unknown", ())):
            yield unknown
        yield from self._iter_further_doubts()

    def iter_doubts_besides_unread(self) -> Iterator[str]:
        """Yield what limits the answer, apart from what was not read."""
        yield from self._describe_interruption()
        yield from self._iter_further_doubts()

    def _describe_interruption(self) -> tuple[str, ...]:
        """Return a text that says that the user interrupted the command, or () if nobody did."""
        return ("interrupted: a partial result",) if getattr(self, "interrupted", False) else ()

    def _iter_further_doubts(self) -> Iterator[str]:
        """Yield the doubts about the answer other than an interruption and unread kinds."""
        yield from getattr(self, "doubts", ())
        yield from (f"not replayed: {what}" for what in getattr(self, "not_replayed", ()))
        if ignored := getattr(self, "ignored", ()):
            yield f"ignored by the replayed version: {'; '.join(ignored)}"
        if unverified := getattr(self, "unverified", ""):
            yield unverified
        yield from (f"a kube-scheduler bug decides this: {what}" for what in getattr(self, "upstream_faults", ()))


class Report(PlainReport, RootDocument, frozen=True):
    """A document that answers a question. Commands print it with the versions of its form and of kschedctl."""


class ClusterAnswer(Document, frozen=True):
    """The answer about one cluster."""

    cluster: str
    good: bool
    """True if the command would exit with 0."""
    document: Any
    """The document for this cluster; its `kind` says which struct it is."""


def get_answer_kind(document: Document) -> str:
    """Return the kind of the document, or of its first answer if there are several clusters, or else "this"."""
    if isinstance(document, Answers) and document.answers:
        document = document.answers[0].document
    return str(getattr(document, "kind", "this"))


class Answers(Report, frozen=True):
    """The answers in the order in which the clusters were named."""

    answers: tuple[ClusterAnswer, ...]
    asked: int
    """The number of clusters that were named."""
    interrupted: bool = False
    """True if the user interrupted the command, so that the remaining clusters are missing."""
    kind: str = "Answers"

    @property
    def undecided(self) -> bool:
        """True if an answer depends on something that was not read."""
        return any(answer.document.undecided for answer in self.answers)

    @property
    def good(self) -> bool:
        """True if all answers are good and no answer is missing."""
        return not self.interrupted and all(answer.good for answer in self.answers)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the answer, such as "In 2 of 3 clusters, …", and a note on an interruption, which may be empty."""
        good = sum(answer.good for answer in self.answers)
        interrupted = f"(interrupted after {len(self.answers):,})" if self.interrupted else ""
        clause = f", {self.answers[0].document.describe_good_answer()}" if self.answers else ""
        return (f"In {good:,} of {counted(self.asked, 'cluster')}{clause}", interrupted)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the headline of each cluster's answer."""
        answers = (
            ShortPods(pods=1, such_as=answer.cluster, workload="", why=answer.document.summary().headline)
            for answer in self.answers
        )
        return replace(summary, pods=tuple(answers))

    def build_csv_table(self) -> CsvTable | None:
        """Return the rows of all clusters, each preceded by its cluster's name, or None if an answer has no table."""
        tables = {answer.cluster: answer.document.build_csv_table() for answer in self.answers}
        if None in tables.values():
            return None
        header = next((table.header for table in tables.values()), ())
        rows = ((cluster, *row) for cluster, table in tables.items() for row in table.rows)
        return CsvTable(("cluster", *header), rows)

    def list_pod_names(self) -> tuple[str, ...] | None:
        """Return the pods of all clusters, or None if an answer is not about pods."""
        pods_by_answer = [answer.document.list_pod_names() for answer in self.answers]
        if None in pods_by_answer:
            return None
        return tuple(pod for pods in pods_by_answer for pod in pods)

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return the problems of all clusters, each preceded by the name of its cluster."""
        return [
            problem._replace(message=f"{answer.cluster}: {problem.message}")
            for answer in self.answers
            for problem in answer.document.find_ci_gate_problems() or ()
        ]
