"""What a query or a mutation gives back, and its forms: Arrow, JSON, CSV, text."""
