"""`python -m linly_pipeline.cli`, where scripts are not on the path."""

import sys

from linly_pipeline.cli import main

sys.exit(main())
