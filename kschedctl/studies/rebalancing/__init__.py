"""What the descheduler evicts, where the pods go then, and whether that ends."""
