"""Spark itself: the session, Java, tasks and stages, their errors and types."""
