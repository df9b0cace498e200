"""What looking at a part of the nodes costs and saves on a cluster: for which pods, by which percentage."""
