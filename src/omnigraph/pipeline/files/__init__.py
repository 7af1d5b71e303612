"""Input files: splits, formats, shapes, and where a row stands."""
