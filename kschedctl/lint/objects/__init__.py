"""Objects as lint rules read them, from manifests or from a cluster, and the location of each of their fields."""
