"""Graphs behind a server: `connect` and `connect_async`.

One core without any transport (`calls` builds requests, `decoding` reads answers) and thin
transports, so that two kinds of graphs cannot differ in what they send and understand.
"""

from omnigraph.client.async_graph import AsyncGraph, connect_async
from omnigraph.client.remote_graph import RemoteGraph, connect

__all__ = ["AsyncGraph", "RemoteGraph", "connect", "connect_async"]
