"""Rules that see, without a cluster, that another name was meant."""
