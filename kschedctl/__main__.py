"""``python -m kschedctl``."""

from __future__ import annotations

import sys

from kschedctl.cli.main import main

sys.exit(main())
