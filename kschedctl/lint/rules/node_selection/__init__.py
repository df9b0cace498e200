"""nodeSelector, node affinity, and labels of nodes."""
