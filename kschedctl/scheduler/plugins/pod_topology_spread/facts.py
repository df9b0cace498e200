"""Facts behind the rejections of PodTopologySpread."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Detail, Fact


class EmptiestDomain(Detail, frozen=True):
    """The domain with the fewest matching pods, and why it counts although the pod cannot go there."""

    domain: str
    equally_empty: int = 0
    """The number of other domains with as few pods."""
    policy: str = ""
    """The field of the constraint that includes the domain, nodeTaintsPolicy or nodeAffinityPolicy. Empty if the pod
    fits.
    """
    node: str = ""
    """The first node of the domain, if ``policy`` is set."""
    taint: str = ""
    """A taint of the node that the pod does not tolerate."""

    def words(self, fewest: int) -> str:
        """Return what the domain contains and why it counts, given its number of matching pods.

        >>> EmptiestDomain("b").words(0), EmptiestDomain("b", equally_empty=2).words(0)
        ('the emptiest domain b has 0', 'the emptiest domains b and 2 more have 0')
        >>> EmptiestDomain("cp1", 0, "nodeTaintsPolicy", "cp1", "master:NoSchedule").words(0)
        'cp1 (taint master:NoSchedule) counts as an empty domain, since nodeTaintsPolicy is Ignore'
        >>> EmptiestDomain("c", 1, "nodeTaintsPolicy", "n3", "sick:NoExecute").words(2)
        'c (taint sick:NoExecute of node n3) and 1 more count with 2, since nodeTaintsPolicy is Ignore'
        >>> EmptiestDomain("c", 0, "nodeAffinityPolicy", "n3").words(0)
        'c (the pod does not select node n3) counts as an empty domain, since nodeAffinityPolicy is Ignore'
        """
        more = f" and {self.equally_empty} more" if self.equally_empty else ""
        if not self.policy:
            verb = "s %s have" if more else " %s has"
            return f"the emptiest domain{verb % (self.domain + more)} {fewest}"
        of_node = f" of node {self.node}" if self.node != self.domain else ""
        why = f"taint {self.taint}{of_node}" if self.taint else f"the pod does not select node {self.node}"
        role = f"with {fewest}" if fewest else "as empty domains" if more else "as an empty domain"
        verb = "count" if more else "counts"
        return f"{self.domain} ({why}){more} {verb} {role}, since {self.policy} is Ignore"


class TooSkewed(Fact, frozen=True):
    """A topology domain that has too many matching pods compared with the emptiest domain."""

    key: str
    domain: str
    pods: int
    """The number of matching pods in the domain."""
    fewest: int
    """The global minimum: 0 if there are fewer ``domains`` than ``min_domains``."""
    skew: int
    max_skew: int
    domains: int = 0
    """The number of domains that count."""
    min_domains: int = 1
    emptiest: EmptiestDomain | None = None
    """None if the minimum counts as 0 because of ``min_domains``."""

    @property
    def has_too_few_domains(self) -> bool:
        """Whether the minimum counts as 0 because there are fewer domains than minDomains."""
        return self.domains < self.min_domains

    def words(self) -> str:
        """Return how many pods are in the domain, the skew that results, and why the minimum is so low.

        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, emptiest=EmptiestDomain("b")).words()
        'zone=a has 1 matching pod, the emptiest domain b has 0: skew would be 2, at most 1 is allowed'
        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, min_domains=3).words().partition("; ")[2]
        '2 domains, fewer than minDomains 3, so the minimum counts as 0: skew would be 2, at most 1 is allowed'
        """
        has = f"{self.key}={self.domain} has {self.pods} matching pod{'s' * (self.pods != 1)}"
        skew = f"skew would be {self.skew}, at most {self.max_skew} is allowed"
        if self.has_too_few_domains:
            count = f"{self.domains} domain{'s' * (self.domains != 1)}"
            return f"{has}; {count}, fewer than minDomains {self.min_domains}, so the minimum counts as 0: {skew}"
        if self.emptiest is None:
            return f"{has}, the emptiest domain {self.fewest}: {skew}"
        separator = ";" if self.emptiest.policy else ","
        return f"{has}{separator} {self.emptiest.words(self.fewest)}: {skew}"
