"""The pods of a rollout as the API server creates them: one after the other, as others go."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_ways import Way
from kschedctl.replay.controllers.not_created import refusal
from kschedctl.replay.controllers.rollout_limits import Change
from kschedctl.reports.not_created import NotCreated


class RolloutCreation:
    """What is said to the pods of a change; each rollout is asked about once.

    ``words``: why the last ones that were refused are.
    """

    def __init__(self, admissions: Admissions, owner: Owner, workload: Struct | None, change: Change) -> None:
        self.admissions, self._owner, self._workload, self._change = admissions, owner, workload, change
        self._refused_object = admissions.of_object(owner, change)
        self.words: Sequence[str] = self._refused_object

    def create(self, pods: Sequence[Pod]) -> int:
        """How many of the pods are created, in order."""
        if not pods or self._refused_object:
            return 0
        number, self.words = self.admissions.room_for(self._owner, self._workload, pods, len(pods))
        return number

    def release(self, pods: Collection[Pod]) -> None:
        """Let go pods that are gone."""
        self.admissions.release(pods)

    def lacking(self, pod: Pod, number: int) -> Way | None:
        """By how much quotas would have to be raised for so many more such pods."""
        return self.admissions.lacking(self._owner, pod, number)

    def not_created(self, missing: int) -> NotCreated | None:
        """What is to be said of so many pods that have not come; None where nobody refuses them."""
        if not missing or not self.words:
            return None
        return refusal(self._owner, self.words, self._change.desired, missing)
