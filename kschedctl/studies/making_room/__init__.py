"""Which pods have to move so that others fit, and in which order: plans that are replayed before they are told."""
