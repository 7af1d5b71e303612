"""Lets the tests import the modules beside them by the names that the type checker knows."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
