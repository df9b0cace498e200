"""JSON Schemas of the documents that users see, made from the structs; ``kschedctl schema KIND`` prints one."""

from __future__ import annotations

from typing import Any

import msgspec

from kschedctl.api.json_values import Json
from kschedctl.reports.answers import Answers
from kschedctl.reports.archive import SnapshotDiff, SnapshotReport
from kschedctl.reports.audit.audit import AnySection, Audit
from kschedctl.reports.audit.races import Races
from kschedctl.reports.audit.sampling import SamplingCosts
from kschedctl.reports.capacity import Capacity
from kschedctl.reports.compact import CompactExplanation, CompactExplanations
from kschedctl.reports.configuration import EffectiveConfiguration
from kschedctl.reports.consolidation import NodeConsolidation
from kschedctl.reports.disruption import Disruption
from kschedctl.reports.document import Document
from kschedctl.reports.drain import Drain
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.extender_answers import ExtenderAnswers
from kschedctl.reports.failures import Failures
from kschedctl.reports.findings import Findings, RuleList, RuleReport
from kschedctl.reports.following import FollowedRollout
from kschedctl.reports.lint_fixes import LintFixes
from kschedctl.reports.make_room import MakeRoom
from kschedctl.reports.pending import PendingPods
from kschedctl.reports.pools import NodePools
from kschedctl.reports.provisioning import Provisioning
from kschedctl.reports.queue_run import QueueRun
from kschedctl.reports.rebalancing import Rebalancing
from kschedctl.reports.remedies import Remedies, RemediesOfMany
from kschedctl.reports.scale_down import ScaleDown
from kschedctl.reports.scale_up import ScaleUp
from kschedctl.reports.simulation import SimulationReport
from kschedctl.reports.sizing import NodeSizing
from kschedctl.reports.summary import Summary
from kschedctl.reports.version import Version
from kschedctl.reports.version_changes import VersionChanges
from kschedctl.reports.wakes import Wakes, WakesBetween, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.reports.whatif import WhatIf

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
