"""Rules about pod affinity, pod anti-affinity and host ports."""
