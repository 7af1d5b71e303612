"""What a load means in either lane: its request, its one flow, rows, vectors, rejects, rules."""
