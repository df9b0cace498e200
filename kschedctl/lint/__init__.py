"""Rules about what makes scheduling go wrong, checked on manifests alone or on manifests within their cluster."""
