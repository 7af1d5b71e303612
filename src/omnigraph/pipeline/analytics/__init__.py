"""Measures of whole graphs: degrees, ranks, components, triangles, communities, distances."""
