"""Problems become findings: which of them are reported, which are known or silenced, and in which order."""
