"""JSON Schemas of the documents that users see, made from the structs; ``kschedctl schema KIND`` prints one."""

from __future__ import annotations

from typing import Any

import msgspec

from kschedctl.api.json_values import Json
from kschedctl.commands.audit.races.report import Races
from kschedctl.commands.audit.report import AnySection, Audit
from kschedctl.commands.audit.sampling.report import SamplingCosts
from kschedctl.commands.capacity.report import Capacity
from kschedctl.commands.consolidate.report import NodeConsolidation
from kschedctl.commands.drain.report import Drain
from kschedctl.commands.explain.compact import CompactExplanation, CompactExplanations
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.explain.reports import Explanations
from kschedctl.commands.failures.report import Failures
from kschedctl.commands.lint.fixes_report import LintFixes
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.pools.report import NodePools
from kschedctl.commands.rebalance.report import Rebalancing
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.commands.simulate.following_report import FollowedRollout
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.commands.size.report import NodeSizing
from kschedctl.commands.snapshot.report import SnapshotDiff, SnapshotReport
from kschedctl.commands.version.report import Version
from kschedctl.commands.versions.report import VersionChanges
from kschedctl.commands.wakes.report import Wakes, WakesBetween, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.replay.queue_run_report import QueueRun
from kschedctl.reports.answers import Answers
from kschedctl.reports.configuration import EffectiveConfiguration
from kschedctl.reports.disruption import Disruption
from kschedctl.reports.document import Document
from kschedctl.reports.extender_answers import ExtenderAnswers
from kschedctl.reports.findings import Findings, RuleList, RuleReport
from kschedctl.reports.provisioning import Provisioning
from kschedctl.reports.scale_down import ScaleDown
from kschedctl.reports.scale_up import ScaleUp
from kschedctl.reports.summary import Summary

DOCUMENTS: dict[str, Any] = {
    "explanation": Explanation,
    "explanations": Explanations,
    "compact-explanation": CompactExplanation,
    "compact-explanations": CompactExplanations,
    "pending-pods": PendingPods,
    "snapshot": SnapshotReport,
    "snapshot-diff": SnapshotDiff,
    "findings": Findings,
    "audit": Audit,
    "audit-section": AnySection,
    "lint-fixes": LintFixes,
    "lint-rules": RuleList,
    "lint-rule": RuleReport,
    "effective-configuration": EffectiveConfiguration,
    "simulation": SimulationReport,
    "followed-rollout": FollowedRollout,
    "sampling-costs": SamplingCosts,
    "capacity": Capacity,
    "drain": Drain,
    "failures": Failures,
    "whatif": WhatIf,
    "make-room": MakeRoom,
    "node-sizing": NodeSizing,
    "rebalancing": Rebalancing,
    "queue-run": QueueRun,
    "remedies": Remedies,
    "remedies-of-many": RemediesOfMany,
    "wake-ups": WakeUps,
    "wake-ups-of-many": WakeUpsOfMany,
    "wakes": Wakes,
    "wakes-of-many": WakesOfMany,
    "wakes-between": WakesBetween,
    "answers": Answers,
    "extender-answers": ExtenderAnswers,
    "races": Races,
    "node-pools": NodePools,
    "scale-up": ScaleUp,
    "scale-down": ScaleDown,
    "provisioning": Provisioning,
    "disruption": Disruption,
    "consolidation": NodeConsolidation,
    "summary": Summary,
    "version": Version,
    "version-changes": VersionChanges,
}
"""Name of a kind -> the document that its schema describes."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(document: type[Document]) -> dict[str, Json]:
    """The JSON Schema (2020-12) of a document."""
    return {"$schema": DIALECT, **msgspec.json.schema(document)}
