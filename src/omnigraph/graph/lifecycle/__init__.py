"""An open graph: how it is created, opened, kept short and closed."""
