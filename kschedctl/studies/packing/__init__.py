"""How well pods and nodes fit together: room that no pod can use, and nodes that others could do without."""
