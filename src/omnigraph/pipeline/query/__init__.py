"""The second executor of read queries: the IR as Spark frames, with the rows of the engine."""
