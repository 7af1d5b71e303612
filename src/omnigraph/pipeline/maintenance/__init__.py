"""Compaction and index builds on Spark: the work of tables as tasks, one commit of the kernel."""
