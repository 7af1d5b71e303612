"""What a load reads from: requests, frames, cursors, and checks before Spark starts."""
