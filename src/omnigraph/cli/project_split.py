"""What of a project's file belongs to the team and what to one person; pure.

The team's part is a `cluster.yaml`, which declares graphs; the personal part is what an operator
config may hold. What neither can hold is told in words, so that nothing is lost in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omnigraph.cli.row_style import RowStyle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.cli.project_config import ProjectAlias, ProjectConfig, ProjectGraph

Yaml: TypeAlias = dict[str, Any]  # Any: what a YAML file may hold

DEFAULT_GRAPH: Final = "default"
_CLUSTER_ID: Final = re.compile("[A-Za-z][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The two parts, and what is in neither."""

    cluster: Yaml
    operator: Yaml
    notes: tuple[str, ...]


def split_project(project: ProjectConfig) -> Split:
    """The parts of a project's file."""
    stored = {name: graph for name, graph in project.graphs.items() if not graph.is_server}
    declared = {name: graph for name, graph in stored.items() if _CLUSTER_ID.fullmatch(name)}
    return Split(
        cluster=_cluster(project, declared),
        operator=_operator(project),
        notes=(
            *(
                f"graphs.{name}: no graph of a cluster can have this name; choose another one"
                for name in stored
                if name not in declared
            ),
            *(
                f"graphs.{name}: a cluster declares a schema; write it with"
                f" `omnigraph schema show {graph.uri} > {name}.pg`"
                for name, graph in declared.items()
            ),
            *_personal_notes(project),
        ),
    )


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Yaml:  # Any: as above
    """A file with what another one adds to it; what both have stays as it is."""
    result = dict(ours)
    for key, value in theirs.items():
        kept = result.get(key)
        if isinstance(kept, Mapping) and isinstance(value, Mapping):
            result[key] = merged(kept, value)
        elif kept is None:
            result[key] = value
    return result


def _cluster(project: ProjectConfig, graphs: Mapping[str, ProjectGraph]) -> Yaml:
    named = {} if project.name is None else {"metadata": {"name": project.name}}
    declared = {name: _declared(name, graph) for name, graph in graphs.items()}
    policies = _policies(graphs)
    return {
        "version": 1,
        **named,
        **({"graphs": declared} if declared else {}),
        **({"policies": policies} if policies else {}),
    }


def _declared(name: str, graph: ProjectGraph) -> Yaml:
    queries = list(graph.queries)
    shown = queries[0] if len(queries) == 1 else queries
    return {"schema": f"{name}.pg", **({"queries": shown} if queries else {})}


def _policies(graphs: Mapping[str, ProjectGraph]) -> Yaml:
    """Every file once, with the graphs that it guards, under the name of the file."""
    guarded: dict[str, list[str]] = {}
    for name, graph in graphs.items():
        if graph.policy is not None:
            guarded.setdefault(graph.policy, []).append(name)
    found: Yaml = {}
    for file, names in guarded.items():
        stem = re.sub("[^A-Za-z0-9_-]", "-", PurePath(file).name.split(".")[0]) or "policy"
        key = stem if stem not in found else f"{stem}-{len(found)}"
        found[key] = {"file": file, "applies_to": names}
    return found


def _operator(project: ProjectConfig) -> Yaml:
    servers = {
        name: {"url": graph.uri.rstrip("/")}
        for name, graph in project.graphs.items()
        if graph.is_server
    }
    aliases = {
        name: _alias(project, alias)
        for name, alias in project.aliases.items()
        if _why_shared(project, alias) is None
    }
    defaults = {**_default_place(project), **_style(project)}
    parts: Yaml = {
        "operator": {} if project.actor is None else {"actor": project.actor},
        "servers": servers,
        "defaults": defaults,
        "aliases": aliases,
    }
    return {key: value for key, value in parts.items() if value}


def _default_place(project: ProjectConfig) -> Yaml:
    if project.graph is None:
        return {}
    graph = project.graphs[project.graph]
    if graph.is_server:
        return {"server": project.graph, "default_graph": graph.graph or DEFAULT_GRAPH}
    return {"store": project.path_of(graph.uri)}


def _style(project: ProjectConfig) -> Yaml:
    usual, style = RowStyle(), project.row_style or RowStyle()
    given = {
        "output": (style.format, usual.format),
        "table_max_column_width": (style.table_max_column_width, usual.table_max_column_width),
        "table_cell_layout": (style.table_cell_layout, usual.table_cell_layout),
    }
    return {
        key: value if isinstance(value, int) else str(value)
        for key, (value, default) in given.items()
        if value != default
    }


def _alias(project: ProjectConfig, alias: ProjectAlias) -> Yaml:
    graph = project.graphs[alias.graph or ""]
    parts: Yaml = {
        "server": alias.graph,
        "graph": graph.graph or DEFAULT_GRAPH,
        "query": alias.name,
        "args": list(alias.args),
        "params": dict(alias.params),
        "format": None if alias.format is None else str(alias.format),
    }
    return {key: value for key, value in parts.items() if value}


def _why_shared(project: ProjectConfig, alias: ProjectAlias) -> str | None:
    """Why an alias cannot be one of the operator's, which names a stored query of a server."""
    graph = project.graphs.get(alias.graph or "")
    if graph is None or not graph.is_server:
        return "it reads a file of queries in a store"
    if alias.name is None:
        return "it names no query of its file"
    if (alias.branch or project.branch or "main") != "main":
        return "it reads a branch of its own"
    return None


def _personal_notes(project: ProjectConfig) -> Iterator[str]:
    for name, alias in project.aliases.items():
        why = _why_shared(project, alias)
        if why is not None:
            yield f"aliases.{name} stays in the project's file: {why}"
        else:
            yield f"aliases.{name}: the server has to have {alias.name} as a stored query"
    for name, graph in project.graphs.items():
        if graph.bearer_token_env is not None:
            yield (
                f"graphs.{name}.bearer_token_env: keep the token with `omnigraph login {name}`, or"
                " in a variable of its own"
            )
    if project.branch is not None:
        yield "cli.branch stays in the project's file: commands take --branch"
    if project.roots:
        yield "query.roots stays in the project's file: give --query the whole path"
    if project.env_file is not None:
        yield "auth.env_file stays in the project's file: set its variables in the environment"
    if project.server_graph is not None or project.server_bind is not None:
        yield "server stays in the project's file: it is for `omnigraph serve`"
