"""Check ``kschedctl browse`` with hostile, empty and large clusters, in real terminals and without one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from driven_browser import (
    EVERYWHERE,
    drive,
    get_flat_text_above_tabs,
    get_widget_text,
    list_lines,
    list_overlay_lines,
    press,
    read_screen,
    start_session,
    write,
)
from textual.pilot import Pilot

from kschedctl.cli.options import Source
from kschedctl.cluster import Gap
from kschedctl.commands.browse.app import Browser
from kschedctl.commands.browse.background import QuestionQueue, Urgency
from kschedctl.commands.browse.session import BrowseSession

GAPS = {"PersistentVolumeClaim": Gap("could not be read: forbidden")}
HOSTILE = (
    "[red]x[/]\x1b[2J", "[link=https://evil.example]click", "a\nb\rc\x07", "\u202egnp.txt\u2066", "☸️🚀" * 20, "ש" * 40,
    "]8;;", "x" * 253, "{{7*7}}", "[@click=app.quit]quit[/]",
)  # fmt: skip
PATIENCE_SECONDS = 120.0
TERMINALS = ({"TERM": "xterm"}, {"TERM": "screen"}, {"TERM": "linux"}, {"TERM": "xterm-256color", "NO_COLOR": "1"})


def build_pod(name: str, cpu: str = "2", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": {"containers": [container], **spec}}


def build_node(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_shown_as_text(name: str) -> None:
    taint = {"key": name, "value": name, "effect": "NoSchedule"}
    objects = [build_node(name, {"pool": name, "topology.kubernetes.io/zone": name}, taints=[taint]), build_pod(name)]

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        seen = [read_screen(browser)]
        for keys in (("2",), ("enter",), ("escape", "3"), ("4",), ("enter",), ("escape", "w"), ("escape", "c"), ("1",)):
            await press(browser, pilot, *keys)
            seen.append(read_screen(browser))
        await write(browser, pilot, "a", "class=none")
        seen.append(read_screen(browser))
        for screen in seen:
            assert len(screen) == 24
            assert all(character.isprintable() for line in screen for character in line)
        assert browser.return_code is None

    drive(start_session(*objects), steps)


@pytest.mark.parametrize(
    "objects", [(), (build_node("n"),), (build_node("n"), build_pod("running", "1", nodeName="n"))], ids=len
)
def test_cluster_without_pending_pods(objects: tuple[dict[str, Any], ...]) -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert " ".join(list_lines(browser.pod_list)).startswith("no pod is pending here")
        await press(browser, pilot, "enter", "w", "a", "c", "2", "down", "enter", "4", "enter", "escape", "1", "escape")
        assert len(browser.screen_stack) == 1
        await write(browser, pilot, "slash", "n")
        assert [each.name for each in browser.pod_list.subjects] == ["n"] * bool(objects)
        if objects:
            await press(browser, pilot, "enter")
            assert "Would fit here on their own: 0 of 0 pending pods" in list_overlay_lines(browser)

    drive(start_session(*objects), steps)


def test_unknowns_are_shown_above_the_tabs() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert get_flat_text_above_tabs(browser).startswith(
            "d/web Schedulable (not certain: PersistentVolumeClaim d/data was not read; "
            "PersistentVolumeClaims could not be read: forbidden)"
        )

    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    cluster = replace(start_session(build_node("n"), build_pod("web", "100m", volumes=[claim])).cluster, gaps=GAPS)
    drive(BrowseSession(cluster, Source(), EVERYWHERE), steps)


def test_five_thousand_nodes_and_a_thousand_pending_pods() -> None:
    nodes = [build_node(f"n{i:04}", {"kubernetes.io/hostname": f"n{i:04}"}) for i in range(5000)]
    pods = [build_pod(f"big-{i:03}", f"{2 + i % 50}") for i in range(1000)]

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert get_widget_text(browser, "#head").startswith("1,000 pending pods · across all namespaces · 5,000 nodes")
        assert len(browser.pod_list.subjects) == 1000
        await press(browser, pilot, "2")
        assert len(browser.answer_pane.node_list.subjects) == 5000
        await press(browser, pilot, "slash", *"n4321", "enter", "enter")
        assert list_overlay_lines(browser)[0].startswith("Node n4321")
        assert "Would fit here on their own: 0 of 1,000 pending pods" in list_overlay_lines(browser)
        await press(browser, pilot, "escape", "escape", "escape", "end")
        assert browser.chosen_key == browser.pod_list.subjects[-1].name
        await write(browser, pilot, "a", "cpu=1")
        assert "now: Schedulable" in get_flat_text_above_tabs(browser)
        await write(browser, pilot, "a", "node=n0007")
        assert "now: Unschedulable" in get_flat_text_above_tabs(browser)
        await write(browser, pilot, "slash", "big-77")
        assert [each.name for each in browser.pod_list.subjects] == [f"d/big-{i}" for i in range(770, 780)]

    drive(start_session(*nodes, *pods), steps)


def test_background_answers_the_latest_question_of_each_kind_in_order() -> None:
    import threading  # noqa: PLC0415

    said, go, failures = list[str](), threading.Event(), list[Exception]()
    desk = QuestionQueue(failures.append)

    def broken() -> None:
        raise ValueError("broken")

    desk.ask(Urgency.PAGE, lambda: go.wait(60) and None)
    for kind in (Urgency.REMEDIES, Urgency.ANSWER):
        for name in ("old", "new"):
            desk.ask(kind, lambda told=f"{kind.name} {name}": said.append(told))
    desk.ask(Urgency.REMEDIES, lambda: said.append("REMEDIES of the new answer"))
    desk.ask(Urgency.LIST, broken)
    go.set()
    end = time.monotonic() + PATIENCE_SECONDS
    while desk.is_busy and time.monotonic() < end:
        time.sleep(0.01)
    assert said == ["ANSWER new", "REMEDIES of the new answer"]
    assert [str(error) for error in failures] == ["broken"]


class Terminal:
    """The program in a terminal of 80×24."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        settings = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLORTERM")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kschedctl", "browse", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, env=settings | environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.set_blocking(self.ours, False)
        self.seen = b""

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, self.seen[-2000:]
            with contextlib.suppress(OSError):  # nothing more, for now or for good
                self.seen += os.read(self.ours, 1 << 16)
            time.sleep(0.02)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def end(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        with contextlib.suppress(OSError):
            while more := os.read(self.ours, 1 << 16):
                self.seen += more
        os.close(self.ours)
        return self.process.returncode


@contextlib.contextmanager
def open_terminal(*arguments: str, **environment: str) -> Iterator[Terminal]:
    found = Terminal(*arguments, **environment)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            os.killpg(found.process.pid, signal.SIGKILL)
            found.process.wait()


@pytest.mark.parametrize("environment", TERMINALS, ids=["xterm", "screen", "linux", "no color"])
def test_real_terminals(environment: dict[str, str]) -> None:
    with open_terminal("--demo", "-A", **environment) as found:
        found.until(lambda: b"ingress-nginx" in found.seen and b"Unschedulable" in found.seen)
        found.type(b"c")
        found.until(lambda: b"\x1b]52;c;" in found.seen)
        found.type(b"q")
        assert found.end() == 0
    assert b"38;2;" not in found.seen
    assert found.seen.rstrip().endswith(b"kschedctl explain platform/ingress-nginx-7b4f6c9d85-wt7jd --demo")
    if "NO_COLOR" in environment:
        assert not any(b"\x1b[%dm" % color in found.seen for color in range(30, 38))


def test_control_c_ends_the_browser_while_it_works(tmp_path: Path) -> None:
    with open_terminal("--demo", "-A", TERM="xterm") as found:
        found.until(lambda: b"pending" in found.seen or b"replaying" in found.seen)
        found.type(b"\x03")
        assert found.end() == 0


def test_error_without_a_terminal_is_one_line(run: Run) -> None:
    code, out, err = run("browse", "--demo")
    assert (code, out) == (2, "")
    assert err == "error: browse needs a terminal (kschedctl explain -A prints the same)\n"


def test_error_without_textual_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['textual'] = None; from kschedctl.cli.main import main; sys.exit(main())"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program, "browse", "--demo"], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        assert process.wait(PATIENCE_SECONDS) == 2
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    assert said.startswith("error: browse needs Textual: ")
    assert "(pip install 'kschedctl[tui]')" in said
    assert said.count("\n") == 1


def test_other_commands_do_not_load_textual() -> None:
    program = (
        "import sys; from kschedctl.cli.main import main\n"
        "try: main(['explain', '-A', '--demo', '-o', 'name'])\n"
        "except SystemExit: pass\n"
        "assert not any(name.split('.')[0] == 'textual' for name in sys.modules), 'textual'"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).stderr == b""
