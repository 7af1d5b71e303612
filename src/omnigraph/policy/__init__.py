"""Who may do what: bundles of rules, compiled to Cedar, that answer for one graph or a server.

The only package that imports Cedar. It knows actors, actions and branches, never transport.
"""

from omnigraph.policy.compiled_policy import CompiledPolicy
from omnigraph.policy.loading import load_policy, load_server_policy

__all__ = ["CompiledPolicy", "load_policy", "load_server_policy"]
