"""Who is above whom, who starves, who would have to go first, and whom of those that serve users anybody may evict."""
