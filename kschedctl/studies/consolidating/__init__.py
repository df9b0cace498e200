"""Which nodes could go, whoever takes them away."""
