"""What kube-scheduler's own metrics say of it: how long it takes, what waits, and what to do about it."""
