"""What versions changed in the search for devices."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion

NONE_IS_ALL = ByVersion("whether a request for all devices is met where there are none", (("", True), ("1.33", False)))

NOT_ALL_TO_HAVE: ByVersion[str] = ByVersion(
    "what follows when some of all the devices that a request wants cannot be had",
    (
        ("", "it does without"),
        ("1.32", "the search ends"),
        ("1.33", "those taken stay taken"),
        ("1.34", "those taken are given back"),
    ),
)
ALL_OF_CLASS = ByVersion(
    "whether a request for all devices heeds the selectors of its class", (("", False), ("1.32", True))
)
ADMIN_TWICE = ByVersion(
    "whether a request with adminAccess may be given one device several times", (("", True), ("1.34", False)), "#131299"
)
AT_INVALID_POOL = ByVersion(
    "what ends a search with an error: a pool in which two devices share a name",
    (("", "nothing"), ("1.32", "a device of it that would do"), ("1.33", "coming to it"), ("1.35", "nothing")),
)
SECOND_OF_ALL = ByVersion(
    "whose selectors count for the second alternative of a request where the first wants all devices, as it does",
    (("", "the first's"), ("1.36", "its own")),
)
LATER_ALTERNATIVE = ByVersion(
    "with which alternative of a request the search goes on after the first of all devices",
    (("", "the first"), ("1.36", "the same")),
)
CONSUMERS = ByVersion(
    "devices that consume counters, while DRAPartitionableDevices is off",
    (("", "can be allocated"), ("1.34", "cannot be")),
)
EACH_SHARE = ByVersion(
    "whether each share of a device takes counters of its pool, not only the first", (("", True), ("1.35", False))
)
CHARGED_IN_VAIN = ByVersion(
    "whether counters may stay charged for a device that was tried in vain", (("", True), ("1.37", False)), "#140431"
)
CHARGED_TWICE = ByVersion(
    "whether a shared device that was allocated without capacity is charged to its counters again",
    (("", True), ("1.37", False)),
    "#140437",
)
ALL_HAVE_ROOM = ByVersion(
    "whether allocationMode All fails where one of the devices has too little capacity left",
    (("", False), ("1.37", True)),
    "#140769",
)
