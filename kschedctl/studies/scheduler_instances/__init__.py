"""Who schedules: leases and their holders, and which instances place pods under which name."""
