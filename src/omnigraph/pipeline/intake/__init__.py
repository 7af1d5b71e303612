"""From input to staged rows: the first stage of a load."""
