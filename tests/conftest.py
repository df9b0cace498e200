"""Settings of the whole suite. ``--hypothesis-profile thorough`` tries far more random clusters."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["command_line", "opened_reports"]

settings.register_profile("suite", deadline=None, max_examples=100, print_blob=True)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=5000)
settings.load_profile("suite")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector the tests and modules, which stay to the end: every worker collects all tests.

    It also runs less often afterwards, as in the program, which helps the few tests that build many objects.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 20, 50)
        gc.enable()


SLOWEST = ("test_site.py::test_site",)
"""Tests that start first, as no core can help with one that starts last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the slowest tests to the start."""
    items.sort(key=lambda item: not item.nodeid.endswith(SLOWEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Start one worker more than there are cores, because tests of servers and browsers spend much time waiting."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker of ``-n`` whole folders, so that what a module's tests share is rarely built twice."""
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415 - not without xdist

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session", autouse=True)
def one_process() -> Iterator[None]:
    """Start no more processes than a test asks for: the other cores run other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        yield
