"""Which plugins there are: in-tree ones, those of scheduler-plugins, and those of other packages."""
