"""Runs queries in this process: scans, walks, search, grouping, order.

It reads one snapshot through `graph` and `storage`, and works on arrays of numbers; what a query
means is fixed by its IR, and nothing here may change a result, only its cost.
"""
