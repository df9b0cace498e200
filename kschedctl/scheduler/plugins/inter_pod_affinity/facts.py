"""What stands behind a refusal of InterPodAffinity, with its words."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Fact


class NoPodToJoin(Fact, frozen=True):
    """A term of pod affinity selects no pod in the node's ``domain``.

    An empty ``selector`` selects all pods, None, which is that of a term without labelSelector, no pod at all.
    """

    selector: str | None
    key: str
    domain: str

    def words(self) -> str:
        """
        >>> NoPodToJoin("app=db", "zone", "a").words(), NoPodToJoin("", "zone", "a").words()
        ('no pod matching app=db in zone=a', 'no pod matching anything in zone=a')
        >>> NoPodToJoin(None, "zone", "a").words()
        'a term without labelSelector matches no pod'
        """
        if self.selector is None:
            return "a term without labelSelector matches no pod"
        return f"no pod matching {self.selector or 'anything'} in {self.key}={self.domain}"


class NoPodForAllTerms(Fact, frozen=True):
    """Each term of pod affinity selects some pod there, and no pod is selected by all of them."""

    def words(self) -> str:
        return "no pod matches all affinity terms here"


class PodInTheWay(Fact, frozen=True):
    """A ``pod``, and so many ``others``, that anti-affinity keeps apart; nothing is known of one that is nominated."""

    pod: str = ""
    others: int = 0
    key: str = ""
    domain: str = ""

    def words(self) -> str:
        """
        >>> PodInTheWay("shop/web", 2, "zone", "a").words(), PodInTheWay().words()
        ('shop/web and 2 more in zone=a', 'a nominated pod is in the same topology')
        """
        if not self.pod:
            return "a nominated pod is in the same topology"
        return f"{self.pod}{f' and {self.others} more' * bool(self.others)} in {self.key}={self.domain}"
