"""`python -m linly_profiling`: see `cli`."""

from __future__ import annotations

import sys

from linly_profiling.cli import main

sys.exit(main())
