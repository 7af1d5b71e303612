"""The export job: sorted files of one snapshot."""
