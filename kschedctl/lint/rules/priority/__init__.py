"""PriorityClasses, who uses them, and who evicts whom."""
