"""Options that choose whether scheduler extenders are called, or recorded answers are used."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.errors import UsageError
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.sources.output_file import validate_output_files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extending:
    """Options about scheduler extenders."""

    call_extenders: Annotated[
        bool,
        typer.Option("--call-extenders", help="Really ask the configuration's extenders, at their URLs over HTTP."),
    ] = False
    record_extenders: Annotated[
        str | None,
        typer.Option("--record-extenders", metavar="FILE", help="Record their answers; needs --call-extenders."),
    ] = None
    extender_answers: Annotated[
        str | None,
        typer.Option("--extender-answers", metavar="FILE", help="Replay their recorded answers from a file."),
    ] = None

    @contextmanager
    def open_caller(self) -> Iterator[CallExtender | None]:
        """Yield a function that calls extenders, or None if they are not called.

        Recorded answers are written at the end of the block. Raises UsageError, InputError.
        """
        self._check()
        if self.extender_answers is not None:
            from kschedctl.sources.extenders.recording import RecordedAnswers  # noqa: PLC0415 - for few questions

            yield RecordedAnswers.read(self.extender_answers)
        elif not self.call_extenders:
            yield None
        else:
            from kschedctl.sources.extenders.http import HTTPCaller  # noqa: PLC0415
            from kschedctl.sources.extenders.recording import Recorder  # noqa: PLC0415
            from kschedctl.sources.extenders.whole_pods import WholePods  # noqa: PLC0415

            recorder = Recorder(WholePods(HTTPCaller()))
            yield recorder
            if not recorder.call_count:
                log.warning("note: no extender was asked: the configuration (--config) has none for these pods")
            if self.record_extenders is not None:
                recorder.write(self.record_extenders)
                log.info("recorded %s answers of extenders", f"{len(recorder.answers):,}")

    def arguments(self) -> list[str]:
        """Return the options that get the same answers from extenders again."""
        answers = ["--extender-answers", self.extender_answers] if self.extender_answers else []
        return ["--call-extenders"] * self.call_extenders + answers

    def _check(self) -> None:
        """Raise UsageError if the options contradict each other."""
        if self.call_extenders and self.extender_answers is not None:
            raise UsageError("--call-extenders and --extender-answers cannot be combined", hint="leave one of them out")
        if self.record_extenders is not None and not self.call_extenders:
            raise UsageError("--record-extenders needs --call-extenders", hint="only what is asked can be recorded")
        validate_output_files(self.record_extenders)
