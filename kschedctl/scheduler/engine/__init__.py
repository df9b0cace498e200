"""One attempt at a pod: the cycle from PreFilter to Permit, preemption, pod groups and extenders, over any plugins."""
