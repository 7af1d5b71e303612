"""The HTTP server: a front end that resolves an actor, authorises, admits, calls `Graph`, answers.

No engine logic lives here, no JVM is started, and nothing else in the tree imports FastAPI.
"""
