"""From problems to findings: of which objects they are told, which are known or silenced, in which order."""
