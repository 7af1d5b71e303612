"""The rules that need committed rows, as joins on executors or on the driver."""
