"""What a load means in either lane: options, rows, vectors, rejects and their rules."""
