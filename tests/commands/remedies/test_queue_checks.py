"""Check that fixes hold while all other pods wait, and that fixes for a few pods equal those for all."""

from __future__ import annotations

from random import Random

import pytest
from held_fixes import HeldFixes
from waiting_worlds import waiting_world

from kschedctl import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.fixes import queue_replay
from kschedctl.fixes.ranking import QueueResult
from kschedctl.fixes.trial.trials import RemedyTrial


def test_first_fixes_hold_in_random_clusters() -> None:
    """95 % of the first fixes without rivals hold, and 90 % of the pods with fixes have one that does."""
    held = HeldFixes()
    for seed in range(70):
        documents, waiting = waiting_world(seed)
        held.judge(documents, Random(seed).sample(waiting, 4), most=1)
    assert len(held.helped) >= 42
    assert len(held.broken) <= 0.05 * len(held.promised), held.broken
    assert len(held.helpless) <= 0.1 * len(held.helped), held.helpless


def test_trying_the_concerned_pods_alone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run_with_fix, compared = queue_replay.replay_queue_with_fix, []

    def compare(trial: RemedyTrial) -> QueueResult:
        result = run_with_fix(trial)
        with monkeypatch.context() as patch:
            patch.setattr(queue_replay, "find_nodes_with_new_room", lambda *_: None)
            full = run_with_fix(trial)
        compared.append(trial)
        assert result.holds == full.holds
        for field in ("rivals", "ahead", "also_places"):
            assert {*getattr(result, field)} == {*getattr(full, field)}
        return result

    monkeypatch.setattr(queue_replay, "replay_queue_with_fix", compare)
    for seed in range(1000, 1014):
        documents, waiting = waiting_world(seed)
        explain(Cluster.from_objects(documents), Random(seed).choice(waiting), remedies=True)
    assert len(compared) > 17
