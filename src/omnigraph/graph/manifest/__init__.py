"""The lines of the manifest: their rows, how they are read, kept in memory and published to."""
