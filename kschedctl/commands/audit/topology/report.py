"""The report of the section about the topology domains of workloads."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class LostDomain(Document, frozen=True):
    """The effect of losing a domain on a workload."""

    domain: str
    lost: int
    """The number of pods that are lost."""
    skew: int
    """The skew of the remaining pods over the other domains."""


class WorkloadDomains(Document, frozen=True, kw_only=True):
    """The distribution of a workload's pods over the domains of a topology key."""

    key: str
    domains: int
    """The number of domains."""
    used: int
    """The number of domains with pods of the workload."""
    unlabelled: int
    """The number of pods on nodes without the key."""
    skew: int
    """The difference between the most and the fewest pods in a domain."""
    most: str
    """The domain with the most pods."""
    most_pods: int
    losses: tuple[LostDomain, ...] = ()
    """The effect of losing each domain, gravest first, or only the gravest one if there are many domains."""


class PlacedWorkload(Document, frozen=True):
    """A workload with the distribution of its pods by each topology key."""

    workload: str
    pods: int
    """The number of pods on nodes."""
    by_key: tuple[WorkloadDomains, ...]


class BrokenDomain(Document, frozen=True, kw_only=True):
    """The effect of losing a domain on a spread constraint."""

    domain: str
    lost: int
    """The number of matching pods that are lost."""
    skew: int
    """The skew of the remaining pods."""
    stranded: int = 0
    """The number of pods that cannot be placed again under the constraint once the domain's nodes are deleted."""
    stranded_while_down: int = 0
    """The number of pods that cannot be placed again while the nodes exist but take no pods."""


class SpreadPromise(Document, frozen=True, kw_only=True):
    """A topology spread constraint of a workload's pods and whether it holds, counted as kube-scheduler counts."""

    workload: str
    key: str
    when_unsatisfiable: str
    max_skew: int
    min_domains: int
    """1 if the constraint does not set it."""
    domains: int
    """The number of domains that count."""
    pods: int
    skew: int
    """The current skew; the minimum counts as 0 with fewer domains than `min_domains`."""
    holds: bool
    """True if the skew is at most `max_skew`."""
    most: str = ""
    most_pods: int = 0
    least: str = ""
    least_pods: int = 0
    match_label_keys: tuple[str, ...] = ()
    """The constraint's matchLabelKeys: only pods with the same values of these labels count."""
    min_domains_set: bool = False
    """True if the constraint sets minDomains."""
    least_why: str = ""
    """The reason why the domain with the fewest pods counts although pods cannot go there, empty if they can."""
    least_policy: str = ""
    """The constraint's field by which that domain counts, nodeTaintsPolicy or nodeAffinityPolicy."""
    losses: tuple[BrokenDomain, ...] = ()
    """The effect of losing each domain, gravest first, or only the gravest one if there are many domains."""


class TopologySection(Section, frozen=True, kw_only=True, tag="topology"):
    """The section about the effect of losing domains on workloads, and about spread constraints."""

    keys: tuple[str, ...] = ()
    """The topology keys that were examined."""
    workloads: int = 0
    """The number of workloads examined, each with at least two pods on nodes."""
    constraints: int = 0
    """The number of their spread constraints."""
    placed: tuple[PlacedWorkload, ...] = ()
    """The workloads in a single domain, or the selected workloads."""
    promises: tuple[SpreadPromise, ...] = ()
    """The constraints that do not hold or would strand pods after a loss, or all those of the selected workloads."""
