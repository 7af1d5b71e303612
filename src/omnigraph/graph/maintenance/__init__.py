"""Work that changes no row: building indexes."""
