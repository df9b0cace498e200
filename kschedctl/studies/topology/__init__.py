"""In which zones, racks and nodes the pods of workloads are, and what their spread constraints make of that."""
