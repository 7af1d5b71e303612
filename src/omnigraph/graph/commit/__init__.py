"""The one way from a prepared change to a visible commit, and the read set that guards it."""
