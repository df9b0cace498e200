"""The command `snapshot` with its subcommands `save`, `show` and `diff`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.cli.main import build_command_line
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Color, ColorOption, QuietOption, Untabled, VerboseOption
from kschedctl.cli.source import ALL_KINDS, load_cluster
from kschedctl.cluster import NOT_LISTED
from kschedctl.commands.snapshot import diff as difference
from kschedctl.commands.snapshot.report import SnapshotReport
from kschedctl.errors import UsageError
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.archive_file import Header, read_archive, read_header, write_archive
from kschedctl.sources.cluster import WRITTEN_BY
from kschedctl.sources.output_file import STDOUT, validate_output_files, write_file

EXAMPLES = {
    "": (
        "kschedctl snapshot save -o prod.ksnap",
        "kschedctl explain -A --snapshot prod.ksnap",
    ),
    "save": (
        "kschedctl snapshot save -o prod.ksnap",
        "kschedctl snapshot save -o shared.ksnap --anonymize --mapping originals.json",
    ),
    "show": ("kschedctl snapshot show prod.ksnap",),
    "diff": ("kschedctl snapshot diff monday.ksnap tuesday.ksnap -o json",),
}
"""Subcommand -> command lines; "" is the command itself."""

EXIT_SAME, EXIT_DIFFERENT = 0, 1
File = Annotated[str, typer.Argument(metavar="FILE", help="File written by kschedctl snapshot save.")]


@dataclass(frozen=True)
class MessageOptions:
    """Options for messages on stderr."""

    color: ColorOption = Color.AUTO
    verbose: VerboseOption = 0
    quiet: QuietOption = False


@with_options
def save(
    *,
    source: Source,
    talk: MessageOptions,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="File to write, or - for stdout.")],
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize",
            help="Replace names, keys, label values and images with pseudonyms; the answers stay the same.",
        ),
    ] = False,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="With --anonymize: write the original name of each pseudonym to this JSON file.",
        ),
    ] = None,
) -> Answer | int:
    """Save what matters for scheduling from a cluster, without env, secrets, config maps or unneeded annotations.

    The file includes leases and scheduling events. The API server deletes events after an hour.

    To use the file later or elsewhere, pass it to any command with --snapshot FILE.
    """
    if mapping is not None and not anonymize:
        raise UsageError("there are no pseudonyms to save", where="--mapping", hint="add --anonymize")
    validate_output_files(output, mapping)
    cluster = load_cluster(source, live=ALL_KINDS)
    stays: tuple[str, ...] = ()
    if anonymize:
        cluster, originals, stays = anonymize_cluster(cluster)
        if mapping is not None:
            write_file(mapping, [json.dumps(originals, indent=1, ensure_ascii=False).encode()], private=True)
    header = write_archive(cluster, output, written_by=WRITTEN_BY, anonymized=anonymize, stays=stays)
    if STDOUT in (output, mapping):
        return EXIT_SAME
    return Untabled(color=talk.color).build_answer(_build_snapshot_report(header, output))


@with_options
def show(*, file: File, view: Untabled) -> Answer:
    """Show what a snapshot contains: when and where it was taken, how many objects of each kind, what is missing."""
    return view.build_answer(_build_snapshot_report(read_header(file), file))


@with_options
def diff(
    *,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="File of the earlier snapshot.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="File of the later snapshot.")],
    view: Untabled,
) -> Answer:
    """Show what changed between two snapshots that matters for scheduling. Exits with 1 if something did."""
    report = difference(read_archive(before), read_archive(after), (before, after))
    if not (report.changes or report.scheduler):
        return view.build_answer(report, EXIT_SAME)
    command = build_command_line("snapshot", "diff", before, after)
    return view.build_answer(report, EXIT_DIFFERENT, commands={"": (command,)})


snapshot = {"save": save, "show": show, "diff": diff}
"""The subcommands."""


def _build_snapshot_report(header: Header, file: str) -> SnapshotReport:
    """Build the report on a snapshot file from its header. The size is 0 if there is no such file."""
    report = SnapshotReport(
        file=file,
        size=os.path.getsize(file) if os.path.exists(file) else 0,
        written_at=header.written_at,
        written_by=header.written_by,
        anonymized=header.anonymized,
        stays=header.stays,
        kube_version=header.kube_version,
        objects=header.objects,
        feature_gates=header.feature_gates,
        configured=header.configuration is not None,
        unread={kind: gap.why for kind, gap in header.gaps.items() if gap.why != NOT_LISTED},
    )
    if header.provenance is None:
        return report
    provenance = header.provenance
    return replace(
        report,
        server=provenance.server,
        context=provenance.context,
        server_version=provenance.server_version,
        read_at=provenance.read_at,
        leader=provenance.leader,
        configured_by=provenance.configured_by,
        resource_versions=provenance.resource_versions,
        changed=provenance.changed,
    )
