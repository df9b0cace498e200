"""Matching of a pod's tolerations with taints.

Upstream: staging/src/k8s.io/api/core/v1/toleration.go and
staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go (v1.36).

``comparison_operators`` is the feature gate TaintTolerationComparisonOperators (alpha, off by default in 1.36). Without
it the operators Gt and Lt tolerate nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.quantity import INT64_MAX, INT64_MIN

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""The taint effects that keep pods off a node."""
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that the node controller puts on a cordoned node."""
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint, comparison_operators: bool = False) -> bool:
    """Return whether a toleration tolerates a taint. An empty key or effect matches any key or effect.

    The operators Gt and Lt match only if ``comparison_operators`` is true. Unknown operators never match.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            return comparison_operators and _satisfies_comparison(toleration.operator, taint.value, toleration.value)
    return False


def is_tolerated(tolerations: Iterable[Toleration], taint: Taint, comparison_operators: bool = False) -> bool:
    """Return whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint, comparison_operators) for toleration in tolerations)


def find_untolerated_taint(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: Container[str] | None = None,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint that no toleration tolerates, or None if all are tolerated.

    If ``effects`` is given, only taints with one of these effects count. ``comparison_operators`` enables the operators
    Gt and Lt.
    """
    tolerations = tuple(tolerations)
    for taint in taints:
        if (effects is None or taint.effect in effects) and not is_tolerated(tolerations, taint, comparison_operators):
            return taint
    return None


def _satisfies_comparison(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Return whether the taint's number is greater (Gt) or less (Lt) than the toleration's number.

    Values that are not int64 never match.
    """
    actual = _parse_decimal_integer(taint_value)
    threshold = _parse_decimal_integer(toleration_value)
    if actual is None or threshold is None:
        return False
    return actual > threshold if operator == "Gt" else actual < threshold


def _parse_decimal_integer(text: str) -> int | None:
    """Parse a decimal int64 that has no plus sign and no leading zeros.

    Return None for any other string, including a number that exceeds an int64.
    """
    if _DECIMAL_INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None
