"""The Spark data source `omnigraph`: reading snapshots and writing frames."""
