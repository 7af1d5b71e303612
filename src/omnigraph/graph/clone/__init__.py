"""A graph of its own, made of the states of another."""
