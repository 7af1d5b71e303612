"""What both executors of a query share: plans, pushed predicates, comparison, vectors, topology."""
