"""Check ``kschedctl browse`` on a live API server that sends changes, disconnects and denies requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from driven_browser import (
    EVERYWHERE,
    PATIENCE_SECONDS,
    drive,
    get_flat_text_above_tabs,
    get_widget_text,
    list_lines,
    list_overlay_lines,
    press,
    wait_until,
    wait_until_settled,
    write,
)
from sources.live.api_server import Response, build_status, replay_response, serve_api, write_kubeconfig
from textual.pilot import Pilot

from kschedctl.cli.options import Source
from kschedctl.commands.browse import app as browser_app
from kschedctl.commands.browse import session as browse_session
from kschedctl.commands.browse.app import Browser
from kschedctl.commands.browse.background import LiveSessions
from kschedctl.commands.browse.command import _iter_sessions
from kschedctl.commands.browse.lines import Openable
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.sources.live import follow as live_follow

PODS = "/api/v1/pods"
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
LATER = 5000
"""A resourceVersion after all recorded ones."""
WAITING = ("p01-cpu", "p02-memory", "p05-taint", "p11-spread", "p23-never", "p29-cordoned")
"""The recorded pending pods that the server has. Each of them is replayed after each change."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all waiting times and searches that no test here looks at."""
    monkeypatch.setattr(live_follow, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(live_follow, "MAX_WAIT", 0.02)
    monkeypatch.setattr(live_follow, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(live_follow, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(
        browse_session, "find_pod_remedies", partial(find_pod_remedies, criteria=RemedyCriteria(max_changes=1))
    )
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@cache
def answer_with_few_pending_pods() -> Response:
    """Return the recorded list of pods, with few pending pods."""
    recorded = replay_response(PODS, {})
    pods = json.loads(recorded.body)
    there = [each for each in pods["items"] if "nodeName" in each["spec"] or each["metadata"]["name"] in WAITING]
    return replace(recorded, body=json.dumps({**pods, "items": there}).encode())


class Changes:
    """The events of the pods' watch, and the server's response if it denies requests."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.events: list[tuple[int, bytes]] = []
        self.breaks: list[bytes] = []
        self.refusal: Response | None = None
        self.over = False
        self.version = LATER

    def __call__(self, path: str, query: dict[str, str]) -> Response | None:
        if self.over:
            return build_status(401, "Unauthorized", "Unauthorized")
        if self.refusal is not None:
            return self.refusal
        if "watch" not in query:
            return answer_with_few_pending_pods() if path == PODS else None
        return Response(chunks=self._said(int(query["resourceVersion"])) if path == PODS else self._silence())

    def tell(self, kind: str, name: str, **spec: Any) -> None:
        """Send an event of a pod in namespace lab that requests more CPU than any node has."""
        container = {"name": "c", "resources": {"requests": {"cpu": "999"}}}
        with self.changed:
            self.version += 1
            pod = {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "lab", "uid": name, "resourceVersion": str(self.version)},
                "spec": {"containers": [container], **spec},
                "status": {"phase": "Pending"},
            }
            self.events.append((self.version, json.dumps({"type": kind, "object": pod}).encode() + b"\n"))
            self.changed.notify_all()

    def end(self, said: bytes = b"") -> None:
        """End every watch of pods with this message, and forget earlier events."""
        with self.changed:
            self.events.clear()
            self.breaks.append(said)
            self.changed.notify_all()

    def _said(self, since: int) -> Iterator[bytes]:
        broken = len(self.breaks)
        while True:
            with self.changed:
                while not (self.over or len(self.breaks) > broken or self._after(since)):
                    self.changed.wait()
                if self.over:
                    return
                if len(self.breaks) > broken:
                    ends = self.breaks[-1]
                    break
                since, event = self._after(since)[0]
            yield event
        if ends:
            yield ends

    def _after(self, since: int) -> list[tuple[int, bytes]]:
        return [each for each in self.events if each[0] > since]

    def _silence(self) -> Iterator[bytes]:
        with self.changed:
            self.changed.wait_for(lambda: self.over)
        yield from ()


@contextmanager
def serve_live_cluster(tmp_path: Path) -> Iterator[tuple[Changes, LiveSessions]]:
    """Serve the recorded cluster with events that the test sends. At the end nobody may follow it any more."""
    changes, others = Changes(), set(threading.enumerate())
    with serve_api(changes, replay_response) as api:
        source = Source(kubeconfig=write_kubeconfig(api.url, tmp_path / "config"))
        try:
            yield changes, LiveSessions(_iter_sessions(source, EVERYWHERE), lambda: _iter_sessions(source, EVERYWHERE))
        finally:
            with changes.changed:
                changes.over = True
                changes.changed.notify_all()
            for thread in set(threading.enumerate()) - others:
                if thread.name.startswith(("watch-", "browse-following")):
                    thread.join(PATIENCE_SECONDS)
                    assert not thread.is_alive()


def is_listed(browser: Browser, name: str) -> bool:
    """Return whether the browser lists the pod."""
    return Openable("pod", f"lab/{name}") in browser.pod_list.subjects


def test_selection_survives_added_and_deleted_pods(tmp_path: Path) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            await press(browser, pilot, "down", "down", "down")
            chosen, was = browser.pod_list.chosen, get_flat_text_above_tabs(browser)
            changes.tell("ADDED", "aaa-new")
            await wait_until(pilot, lambda: is_listed(browser, "aaa-new"))
            await wait_until_settled(browser, pilot)
            assert get_widget_text(browser, "#head").startswith("live ")
            assert f"{len(WAITING) + 1} pending pods" in get_widget_text(browser, "#head")
            assert (browser.pod_list.chosen, get_flat_text_above_tabs(browser)) == (chosen, was)
            changes.tell("DELETED", "aaa-new")
            await wait_until(pilot, lambda: not is_listed(browser, "aaa-new"))
            assert browser.pod_list.chosen == chosen
            assert get_widget_text(browser, "#note") == ""

        drive(next(live.sessions), steps, live=live)


def test_fate_of_the_chosen_pod_is_shown(tmp_path: Path) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            await write(browser, pilot, "slash", "p01-cpu")
            assert browser.chosen_key == "lab/p01-cpu"
            changes.tell("MODIFIED", "p01-cpu", nodeName="w1")
            await wait_until(pilot, lambda: get_widget_text(browser, "#note") == "lab/p01-cpu has a node now: w1")
            assert not browser.pod_list.subjects or not is_listed(browser, "p01-cpu")
            assert browser.search_text == "p01-cpu"
            await press(browser, pilot, "escape")
            assert len(browser.pod_list.subjects) == len(WAITING) - 1
            assert browser.chosen_key != "lab/p01-cpu"
            assert get_flat_text_above_tabs(browser).startswith(f"{browser.chosen_key} ")

        drive(next(live.sessions), steps, live=live)


def test_search_assumption_and_open_node_survive_a_change(tmp_path: Path) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            await write(browser, pilot, "slash", "p23")
            await write(browser, pilot, "a", "priority=7")
            assert get_flat_text_above_tabs(browser).startswith("lab/p23-never as if priority=7 before:")
            changes.tell("ADDED", "p23-more")
            await wait_until(pilot, lambda: is_listed(browser, "p23-more"))
            await wait_until_settled(browser, pilot)
            assert [each.name for each in browser.pod_list.subjects if each.kind == "pod"] == [
                "lab/p23-never",
                "lab/p23-more",
            ]
            assert get_flat_text_above_tabs(browser).startswith("lab/p23-never as if priority=7 before:")
            await press(browser, pilot, "2", "home", "enter")
            assert any(f"of {len(WAITING) + 1} pending pods" in line for line in list_overlay_lines(browser))
            changes.tell("DELETED", "p23-more")
            await wait_until(
                pilot, lambda: any(f"of {len(WAITING)} pending pods" in line for line in list_overlay_lines(browser))
            )

        drive(next(live.sessions), steps, live=live)


def test_expired_watch_is_restarted(tmp_path: Path) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            changes.tell("ADDED", "aaa-new")
            await wait_until(pilot, lambda: is_listed(browser, "aaa-new"))
            changes.end(EXPIRED)
            await wait_until(pilot, lambda: not is_listed(browser, "aaa-new"), "the list is read anew")
            changes.tell("ADDED", "bbb-new")
            await wait_until(pilot, lambda: is_listed(browser, "bbb-new"))
            assert get_widget_text(browser, "#note") == ""

        drive(next(live.sessions), steps, live=live)


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (build_status(401, "Unauthorized", "Unauthorized"), "does not accept these credentials"),
        (Response(raw=(b"",)), ""),
    ],
    ids=["401", "connection lost"],
)
def test_lost_connection_is_reported_and_retried(tmp_path: Path, refusal: Response, why: str) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            changes.refusal = refusal
            changes.end()
            await wait_until(pilot, lambda: get_widget_text(browser, "#head").startswith("not live since "))
            assert get_widget_text(browser, "#note").startswith("no longer live (press r to read the cluster again): ")
            assert why in get_widget_text(browser, "#note")
            await press(browser, pilot, "down", "2", "escape")
            assert len(browser.pod_list.subjects) == len(WAITING)
            assert len(list_lines(browser.answer_pane.node_list)) > 1
            changes.refusal = None
            await press(browser, pilot, "r")
            await wait_until(pilot, lambda: get_widget_text(browser, "#head").startswith("live "))
            changes.tell("ADDED", "aaa-new")
            await wait_until(pilot, lambda: is_listed(browser, "aaa-new"))

        drive(next(live.sessions), steps, live=live)


def test_forbidden_watch_is_reported(tmp_path: Path) -> None:
    with serve_live_cluster(tmp_path) as (changes, live):
        forbidden = build_status(403, "pods is forbidden", "Forbidden")

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            changes.refusal = forbidden
            changes.end()
            await wait_until(
                pilot, lambda: browser.is_connection_lost or "forbidden" in get_widget_text(browser, "#note")
            )
            await press(browser, pilot, "down", "1")
            assert len(browser.pod_list.subjects) == len(WAITING)

        drive(next(live.sessions), steps, live=live)


def test_unexpected_error_ends_the_browser_and_is_raised(tmp_path: Path) -> None:
    looked_at = threading.Event()

    def broken() -> Iterator[Any]:
        looked_at.wait()
        raise RuntimeError("nobody expected that")
        yield

    with serve_live_cluster(tmp_path) as (_, live):

        async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
            looked_at.set()
            await wait_until(pilot, lambda: browser.return_code == browser_app.BUG_EXIT_CODE)

        with pytest.raises(RuntimeError, match="nobody expected that"):
            drive(next(live.sessions), steps, live=LiveSessions(broken(), broken))
