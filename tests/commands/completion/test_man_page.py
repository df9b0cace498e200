"""Check that the man page is current, names every command and option, and is read by groff without complaint."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from kschedctl.cli.completing import read_outline
from kschedctl.cli.main import COMMANDS
from kschedctl.cli.man_page import MAN_PAGE, build_man_page

GROFF = shutil.which("groff")


def test_man_page_is_current() -> None:
    """`python -m kschedctl.cli.man_page` writes the man page anew."""
    assert MAN_PAGE.read_text("utf-8") == build_man_page()


def test_man_page_has_every_command_and_option() -> None:
    text = MAN_PAGE.read_text("utf-8").replace(r"\-", "-")
    assert [name for name in COMMANDS if rf"\fB{name}\fR" not in text] == []
    options = {name for command in COMMANDS for option in read_outline(command).options for name in option.names}
    assert len(options) > 50
    assert [name for name in options if rf"\fB{name}\fR" not in text] == []


@pytest.mark.skipif(GROFF is None, reason="groff is not installed")
def test_groff_reads_the_man_page_without_warnings() -> None:
    command = [str(GROFF), "-man", "-Tutf8", "-Kutf8", "-ww", "-P-c", str(MAN_PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    plain = re.sub(r".\x08", "", done.stdout)
    assert re.search(r"^EXIT STATUS\n +0 +the pod schedules, or nothing is pending", plain, re.MULTILINE)
    assert re.search(r"^ +--no-remedies$", plain, re.MULTILINE)
