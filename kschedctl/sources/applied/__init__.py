"""What of a repository is applied together: a repository is not one cluster."""
