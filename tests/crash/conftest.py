"""Crash tests import each other as `tests.crash.…`, in the parent and in its children."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
