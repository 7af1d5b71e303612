"""What a reader sees: snapshots, branches, commits, recoveries, runs of pipelines."""
