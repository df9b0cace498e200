"""What is linted: objects as manifests or a cluster have them, and where each field of them stands."""
