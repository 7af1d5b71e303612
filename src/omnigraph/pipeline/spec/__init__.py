"""`pipeline.yaml` and column maps: parsed, checked, with the place of every mistake."""
