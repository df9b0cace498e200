"""Karpenter's command-line options, with their defaults.

Upstream: pkg/operator/options/options.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import Struct
from kschedctl.errors import InputError

MAX_INSTANCE_TYPES = 600


class KarpenterGates(Struct, frozen=True, rename="pascal"):
    """The feature gates that affect the replay."""

    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    reserved_capacity: bool = True


class KarpenterOptions(Struct, frozen=True):
    """Options of Karpenter that affect the replay."""

    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    feature_gates: KarpenterGates = KarpenterGates()
    max_instance_types: int = MAX_INSTANCE_TYPES
    """Maximum number of types that a NodeClaim names, the cheapest first."""

    @property
    def ignores_preferences(self) -> bool:
        """Whether soft constraints of pods are ignored."""
        return self.preference_policy == "Ignore"

    @property
    def relaxes_min_values(self) -> bool:
        """Whether minValues that cannot be met are lowered."""
        return self.min_values_policy == "BestEffort"


def read_karpenter_options(document: Mapping[str, object]) -> KarpenterOptions:
    """Parse Karpenter's options from a document. Raises InputError if a value is invalid."""
    try:
        return convert_builtins(document, KarpenterOptions)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where="options") from None
