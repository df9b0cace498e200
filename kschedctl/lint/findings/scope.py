"""The objects whose findings are reported, by namespace and label selector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.api.json_values import object_at
from kschedctl.api.labels import Selector
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.objects.subject import Subject


@dataclass(frozen=True)
class LintScope:
    """Reports findings of objects in a namespace or with some labels. Rules still see all linted objects."""

    namespace: str = ""
    """Only objects in this namespace, or "" for all. Cluster-scoped objects are in none."""
    selector: Selector | None = None
    """Only objects that have such labels, themselves or on their pods."""

    def build_filter(self, context: LintContext) -> Callable[[Subject], bool]:
        """Return a function that returns whether findings of an object are reported."""
        if self.selector is None:
            return self._is_in_namespace
        labels = _collect_labels(context)
        return lambda subject: (
            self._is_in_namespace(subject) and self._matches_any([_get_own_labels(subject), labels[subject]])
        )

    def _is_in_namespace(self, subject: Subject) -> bool:
        """Return whether the object is in the namespace."""
        return self.namespace in ("", subject.namespace)

    def _matches_any(self, label_sets: list[Mapping[str, str]]) -> bool:
        """Return whether the selector matches one of the label sets."""
        return any(map(self.selector.matches, label_sets)) if self.selector else True


ALL_OBJECTS = LintScope()


def _collect_labels(context: LintContext) -> Mapping[Subject, Mapping[str, str]]:
    """Return the labels of workloads' pods, and those of the cluster's other objects."""
    labels: dict[Subject, Mapping[str, str]] = defaultdict(dict)
    for items in context.items.values():
        for item in items:
            if not item.subject.document:
                labels[item.subject] = item.value.metadata.labels
    return labels | {workload.subject: workload.labels for workload in context.workloads}


def _get_own_labels(subject: Subject) -> Mapping[str, str]:
    """Return the labels of a manifest whose values are strings, as the API demands."""
    labels = object_at(subject.document, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}
