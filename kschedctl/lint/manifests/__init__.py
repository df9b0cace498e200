"""What manifests say together: which of them go to one cluster, and whose pods there may be."""
