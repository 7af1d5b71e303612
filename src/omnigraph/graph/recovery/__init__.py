"""How strangers write side by side: leases, sidecars, and settling what the dead left."""
