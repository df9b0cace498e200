"""Rules about nodeSelector, node affinity and node labels."""
