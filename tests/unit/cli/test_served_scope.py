"""Which server a command talks to, with which token, and what the files of configuration say."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serving import ACTOR, TOKEN, LiveServer, serving
from tests.unit.cli.help_examples import ON_A_SERVER

from omnigraph import Graph, connect
from omnigraph.client.credentials import name_of, read_credentials
from omnigraph.errors import PolicyError
from omnigraph.graph.access import EVERYTHING, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.cli.conftest import Result

    from omnigraph.graph.access import Action, Visibility
    from omnigraph.lang import Catalog

ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"


class Permissive:
    """Allows every action to everybody with a token."""

    names_queries = False

    def bind(self, catalog: Catalog) -> None: ...

    def authorize(self, actor: str | None, action: Action, *_: object, **__: object) -> Decision:
        return Decision(allowed=actor == ACTOR, rule_id="all", message=f"{action} is denied")

    def visibility(self, actor: str | None) -> Visibility:  # noqa: ARG002 - the same for all
        return EVERYTHING


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scope") / "people.omni"
    with Graph.init(path, schema="node Person { name: String @key }") as graph:
        graph.mutate('query m() { insert Person { name: "Ada" } }')
    return path


@pytest.fixture(scope="module")
def live(store: Path) -> Iterator[LiveServer]:
    policy = Permissive()
    with serving(
        {"people": store, "default": store},
        tokens={ACTOR: TOKEN},
        policies={"people": policy, "default": policy},
        server_policy=policy,
    ) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, live: LiveServer) -> Path:
    """An operator who knows the server as `prod`."""
    folder = tmp_path / ".omnigraph"
    folder.mkdir()
    content = {
        "servers": {"prod": {"url": live.url}},
        "defaults": {"server": "prod", "default_graph": "people"},
        "profiles": {"prod": {"server": "prod", "default_graph": "people"}},
    }
    (folder / "config.yaml").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_token_is_kept_for_its_own_server(
    call: Callable[..., Result], home: Path, live: LiveServer
) -> None:
    assert call("query", "-e", ALL, "--json").returncode == 1
    result = call("login", "prod", stdin=f"{TOKEN}\n".encode())
    assert (result.returncode, result.stdout) == (0, "logged in to prod\n")
    file = home / "credentials"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = json.loads(call("query", "-e", ALL, "--json").stdout)["rows"]
    assert rows == [{"p.name": "Ada"}]
    listed = json.loads(call("graphs", "list", "--json").stdout)
    assert [each["graph_id"] for each in listed["graphs"]] == ["default", "people"]
    other = live.url.replace("127.0.0.1", "localhost")
    refused = call("snapshot", "--server", other, "--graph", "people", "--json")
    assert json.loads(refused.stderr)["reason"] == "unauthenticated"
    file.chmod(0o644)
    leaky = call("snapshot")
    assert (leaky.returncode, f"chmod 600 {file}" in leaky.stderr) == (2, True)
    assert TOKEN not in leaky.stderr
    file.chmod(0o600)
    assert call("logout", "prod").stdout == "logged out of prod\n"
    assert call("logout", "prod").stdout == "there was no token of prod\n"
    assert call("snapshot").returncode == 1


def test_no_name_of_a_server_lends_its_token_to_others(
    call: Callable[..., Result], home: Path
) -> None:
    assert call("login", "DEFAULT", stdin=b"token-of-default\n").returncode == 0
    assert read_credentials(home)["DEFAULT"].reveal() == "token-of-default"
    with (home / "credentials").open("a") as file:
        file.write("\n[prod]\n")
    refused = call("snapshot")
    assert (refused.returncode, "[prod] has no token" in refused.stderr) == (2, True)


@pytest.mark.usefixtures("home")
def test_the_graph_is_never_picked_silently(call: Callable[..., Result], live: LiveServer) -> None:
    environ = {"OMNIGRAPH_TOKEN_PROD": TOKEN}
    error = call("snapshot", "--server", live.url, environ=environ).stderr
    assert "give --graph ID (it serves default, people)" in error
    unknown = call("snapshot", "--server", live.url).stderr
    assert "it does not tell you which graphs it serves" in unknown


@pytest.mark.usefixtures("home")
def test_a_server_takes_the_actor_from_the_token(call: Callable[..., Result]) -> None:
    environ = {"OMNIGRAPH_TOKEN_PROD": TOKEN}
    result = call("mutate", "-e", "query q() {}", "--as", "root", environ=environ)
    assert (result.returncode, "takes the actor from the token" in result.stderr) == (2, True)
    made = call("branch", "create", "side", "--json", environ=environ)
    assert json.loads(made.stdout)["actor_id"] == ACTOR
    assert "(served)" in made.stderr
    refused = call("branch", "delete", "side", "--json", environ=environ)
    assert (refused.returncode, "pass --yes" in refused.stderr) == (1, True)
    assert call("branch", "delete", "side", "--yes", environ=environ).returncode == 0


@pytest.mark.usefixtures("home")
def test_a_direct_command_refuses_a_server(call: Callable[..., Result]) -> None:
    for words in (["verify"], ["recovery", "list"]):
        result = call(*words)
        assert (result.returncode, "give --store URI" in result.stderr) == (2, True)


@pytest.mark.usefixtures("home")
def test_profiles_are_listed_and_shown(call: Callable[..., Result], live: LiveServer) -> None:
    environ = {"OMNIGRAPH_PROFILE": "prod"}
    [row] = json.loads(call("profile", "list", "--json", environ=environ).stdout)["profiles"]
    assert row == {
        "name": "prod",
        "binding": "prod",
        "scope_kind": "server",
        "target": live.url,
        "default_graph": "people",
        "active": True,
        "valid": True,
        "error": None,
    }
    assert json.loads(call("profile", "show", "--json", environ=environ).stdout) == row
    assert call("profile", "show").returncode == 2


def test_a_project_file_names_graphs_and_aliases(
    call: Callable[..., Result],
    store: Path,
    live: LiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "people.gq").write_text(
        "query named($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    )
    content = {
        "graphs": {
            "local": {"uri": str(store)},
            "dev": {"uri": live.url, "bearer_token_env": "DEV_TOKEN"},
            "stolen": {"uri": live.url},
        },
        "cli": {"graph": "local", "output_format": "jsonl", "actor": "act-me"},
        "query": {"roots": ["queries"]},
        "aliases": {"who": {"query": "people.gq", "args": ["n"], "graph": "dev"}},
    }
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    assert json.loads(call("snapshot", "--json").stdout)["graph_branch"] == "main"
    assert call("query", "-e", ALL).stdout.splitlines()[1:] == ['{"p.name":"Ada"}']
    environ = {"DEV_TOKEN": TOKEN, "OMNIGRAPH_BEARER_TOKEN": TOKEN}
    assert call("alias", "who", "Ada", environ=environ).stdout.endswith('{"p.name":"Ada"}\n')
    by_file = call("query", "--query", "people.gq", "--params", '{"n": "Ada"}')
    assert by_file.stdout.endswith('{"p.name":"Ada"}\n')
    assert call("snapshot", "--target", "dev", environ=environ).returncode == 0
    # The file may come from anywhere: a token of somebody else's server is not sent to it.
    stolen = call("snapshot", "--target", "stolen", "--json", environ=environ)
    assert json.loads(stolen.stderr)["reason"] == "unauthenticated"
    ignored = call("snapshot", environ={"OMNIGRAPH_NO_PROJECT_CONFIG": "1"})
    assert "no graph is addressed" in ignored.stderr


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("OMNIGRAPH_TOKEN_PROD", None),
        ("OMNIGRAPH_BEARER_TOKEN", None),
        ("OMNIGRAPH_TOKEN_OTHER", "setting_invalid"),
        ("OMNIGRAPH_SERVER_BEARER_TOKEN", "setting_invalid"),
        ("OPENAI_API_KEY", "setting_invalid"),
        ("AWS_SECRET_ACCESS_KEY", "setting_invalid"),
    ],
)
def test_a_project_file_sends_no_secret_that_is_kept_for_something_else(
    call: Callable[..., Result],
    live: LiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    reason: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"graphs": {"dev": {"uri": live.url, "bearer_token_env": variable}}}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / ".omnigraph").mkdir()
    servers = {"servers": {"prod": {"url": live.url}, "other": {"url": "https://other.example"}}}
    (tmp_path / ".omnigraph" / "config.yaml").write_text(json.dumps(servers), encoding="utf-8")
    result = call("snapshot", "--target", "dev", "--json", environ={variable: TOKEN})
    if reason is None:
        assert result.returncode == 0, result.stderr
        return
    assert (result.returncode, json.loads(result.stderr)["reason"]) == (2, reason)
    assert variable in result.stderr
    assert TOKEN not in result.stderr


def test_an_env_file_of_a_project_leads_no_key_of_the_operator_elsewhere(
    call: Callable[..., Result], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"graphs": {"g": {"uri": str(store)}}, "auth": {"env_file": "env"}}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "env").write_text("OMNIGRAPH_EMBED_BASE_URL=https://elsewhere.example/v1\n")
    words, address = ("snapshot", "--target", "g"), "OMNIGRAPH_EMBED_BASE_URL"
    assert call(*words).returncode == 0
    refused = call(*words, environ={"OPENAI_API_KEY": "key-of-mine"})
    assert (refused.returncode, address in refused.stderr) == (2, True)
    assert "key-of-mine" not in refused.stderr
    meant = {"OPENAI_API_KEY": "key-of-mine", address: "https://mine.example/v1"}
    assert call(*words, environ=meant).returncode == 0


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("OMNIGRAPH_SPARK_CONF", "spark.driver.extraJavaOptions=-Dx=y", True),
        ("OMNIGRAPH_SPARK_REMOTE", "sc://elsewhere.example", True),
        ("OMNIGRAPH_SPARK_MASTER", "spark://elsewhere.example:7077", True),
        ("OMNIGRAPH_EMBED_PROVIDER", "theirs:embedder", True),
        ("OMNIGRAPH_SPARK_MASTER", "local[2,4]", False),
        ("OMNIGRAPH_EMBED_PROVIDER", "mock", False),
    ],
)
def test_an_env_file_of_a_project_chooses_no_code_that_runs_with_the_rights_of_the_operator(
    call: Callable[..., Result],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    *,
    is_refused: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"graphs": {"g": {"uri": str(store)}}, "auth": {"env_file": "env"}}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "env").write_text(f"{name}={value}\n")
    told = call("snapshot", "--target", "g", "--json")
    assert told.returncode == (2 if is_refused else 0)
    if is_refused:
        assert (json.loads(told.stderr)["reason"], name in told.stderr) == ("setting_invalid", True)
        assert call("snapshot", "--target", "g", environ={name: value}).returncode == 0


@pytest.mark.parametrize("address", ["http://host:port", "http://[::1", "https://a b"])
def test_an_address_that_is_none_is_wrong_usage_wherever_it_stands(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    told = call("snapshot", "--server", address, "--graph", "people", "--json")
    assert (told.returncode, json.loads(told.stderr)["reason"]) == (2, "usage")
    (tmp_path / "omnigraph.yaml").write_text(json.dumps({"graphs": {"dev": {"uri": address}}}))
    told = call("snapshot", "--target", "dev")
    assert (told.returncode, "graphs.dev.uri" in told.stderr) == (2, True)
    (tmp_path / ".omnigraph").mkdir()
    servers = {"servers": {"prod": {"url": address}}}
    (tmp_path / ".omnigraph" / "config.yaml").write_text(json.dumps(servers), encoding="utf-8")
    told = call("snapshot", "--server", "prod", "--config", "none.yaml")
    assert told.returncode == 2
    (tmp_path / "omnigraph.yaml").unlink()
    told = call("snapshot", "--server", "prod")
    assert (told.returncode, "servers.prod.url" in told.stderr) == (2, True)


def test_the_branch_of_the_project_is_that_of_its_graphs_alone(
    call: Callable[..., Result], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copied = shutil.copytree(store, tmp_path / "copied.omni")
    with Graph.open(copied) as graph:
        graph.branches.create("draft")
    content = {
        "graphs": {"local": {"uri": "copied.omni"}},
        "cli": {"graph": "local", "branch": "draft"},
        "aliases": {
            "all": {"query": "all.gq", "graph": "local"},
            "usual": {"query": "all.gq"},
            "main": {"query": "all.gq", "branch": "main"},
        },
    }
    (tmp_path / "all.gq").write_text(ALL, encoding="utf-8")
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    made = call("mutate", "-e", 'query add() { insert Person { name: "Zoe" } }', "--json")
    assert json.loads(made.stdout)["branch"] == "draft", made.stderr
    for words, branch in (
        (("query", "-e", ALL, "--json"), "draft"),
        (("query", "-e", ALL, "--branch", "main", "--json"), "main"),
        (("query", "-e", ALL, "--store", str(copied), "--json"), "main"),
        (("query", "-e", ALL, "--target", "local", "--json"), "draft"),
        (("alias", "all", "--json"), "draft"),
        (("alias", "usual", "--json"), "draft"),
        (("alias", "main", "--json"), "main"),
    ):
        assert json.loads(call(*words).stdout)["target"]["branch"] == branch
    assert json.loads(call("snapshot", "--json").stdout)["graph_branch"] == "draft"
    old = call("query", "-e", ALL, "--snapshot", "0", "--json")
    assert json.loads(old.stdout)["target"] == {"branch": None, "snapshot": "0"}


def test_a_key_that_nobody_knows_is_told_by_who_serves_the_project_and_by_nobody_else(
    call: Callable[..., Result], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {"uri": str(store), "polcy": "policy.yaml"}
    content = {"graphs": {"local": entry}, "server": {"graph": "local"}, "quries": "queries"}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    told = call("serve", "--bind", "nowhere")  # So it does not start.
    assert told.returncode == 2
    warnings = [line for line in told.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: unknown key quries of the project's file is ignored; the nearest is queries",
        "warning: unknown key graphs.local.polcy of the project's file is ignored; the nearest is"
        " policy",
    ]
    assert "warning" not in call("snapshot", "--target", "local").stderr


def test_a_graph_of_the_project_is_served_with_its_queries_and_its_policy(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "people.gq").write_text(ALL, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(
        "version: 1\ngroups: { all: [act-me] }\nrules:\n  - { id: r, allow: { actors: { group:"
        " all }, actions: [read, invoke_query] } }\n",
        encoding="utf-8",
    )
    content = {
        "graphs": {"local": {"uri": str(store), "policy": {"file": "policy.yaml"}}},
        "server": {"graph": "local", "bind": "127.0.0.1:0"},
        "auth": {"env_file": "env"},
        "queries": {"all": {"file": "people.gq"}},
    }
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "env").write_text('OMNIGRAPH_SERVER_BEARER_TOKENS_JSON={"act-me": "s3cret"}\n')
    program = Path(sys.executable).with_name("omnigraph")
    clean = {name: value for name, value in os.environ.items() if "OMNIGRAPH" not in name}
    with subprocess.Popen(
        [program, "serve", "--target", "local"],
        cwd=tmp_path,
        env=clean | {"OMNIGRAPH_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("OMNIGRAPH_LISTEN_ADDR=")
        try:
            with connect(f"http://{address}", graph="default", token="s3cret") as graph:  # noqa: S106 - of tests
                assert [query.name for query in graph.queries.list()] == ["all"]
                assert len(graph.queries.invoke("all")) == 1  # type: ignore[arg-type]  # rows
                with pytest.raises(PolicyError):
                    graph.branches.create("other")
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("true", "true", "1.5"), {"t": "true", "b": True, "f": 1.5}),
        (("1.5", "false", "2"), {"t": "1.5", "b": False, "f": 2.0}),
        (("a", "maybe", "2"), None),
    ],
)
def test_words_of_an_alias_are_what_the_parameters_take(
    call: Callable[..., Result],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    row: dict[str, object] | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    alias = {"query": "kinds.gq", "args": ["t", "b", "f"], "graph": "dev", "format": "jsonl"}
    project = {"graphs": {"dev": {"uri": str(store)}}, "aliases": {"kinds": alias}}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(project), encoding="utf-8")
    (tmp_path / "kinds.gq").write_text(
        "query kinds($t: String, $b: Bool, $f: F64)"
        " { match { $p: Person } return { $t as t, $b as b, $f as f } }",
        encoding="utf-8",
    )
    result = call("alias", "kinds", *words)
    if row is None:
        assert (result.returncode, 'got string "maybe"' in result.stderr) == (1, True)
    else:
        assert json.loads(result.stdout.splitlines()[-1]) == row, result.stderr


@pytest.mark.parametrize("path", ON_A_SERVER, ids=" ".join)
def test_the_example_of_a_command_that_needs_a_server_or_a_configuration_works(
    call: Callable[..., Result],
    path: tuple[str, ...],
    home: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    live: LiveServer,
) -> None:
    monkeypatch.chdir(tmp_path)
    config = json.loads((home / "config.yaml").read_text())
    config["profiles"]["staging"] = {"server": "prod", "default_graph": "people"}
    (home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    alias = {"query": "triage.gq", "name": "triage", "args": ["since"], "graph": "dev"}
    project = {"graphs": {"dev": {"uri": str(store)}}, "aliases": {"triage": alias}}
    (tmp_path / "omnigraph.yaml").write_text(json.dumps(project), encoding="utf-8")
    text = "query triage($since: Date) { match { $p: Person } return { $p.name } }"
    (tmp_path / "triage.gq").write_text(text, encoding="utf-8")
    _, _, sentence, _, title, example, *_ = call(*path, "--help").stdout.splitlines()
    assert (sentence.strip()[-1], title.strip()) == (".", "Example:")
    words, _, file = example.replace("http://127.0.0.1:8080", live.url).partition("<")
    stdin = f"{TOKEN}\n".encode() if file.strip() == "token.txt" else b""
    result = call(*words.split()[1:], stdin=stdin, environ={"OMNIGRAPH_TOKEN_PROD": TOKEN})
    assert (result.returncode, bool(result.stdout)) == (0, True), result.stderr


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/a/b", "deep"),
        ("https://h/a", "host"),
        ("https://h/ab", "host"),
        ("https://h:443/", "host"),
        ("http://h/a/b", None),
        ("https://other/a/b", None),
    ],
)
def test_the_longest_address_by_whole_segments_names_the_server(url: str, name: str) -> None:
    assert name_of(url, {"host": "https://h", "deep": "https://h/a/b"}) == name


def test_a_command_on_a_server_loads_neither_lance_nor_datafusion(
    live: LiveServer, tmp_path: Path
) -> None:
    (tmp_path / "line.ndjson").write_text('{"type":"Person","data":{"name":"Bob"}}\n')
    commands = [
        ["query", "-e", ALL, "--json"],
        ["mutate", "-e", 'query m() { delete Person where name = "-" }', "--json"],
        ["load", "--data", str(tmp_path / "line.ndjson"), "--mode", "merge", "--json"],
        ["commit", "list", "--json"],
        ["branch", "list"],
        ["snapshot", "--json"],
        ["changes", "poll", "--json"],
    ]
    code = (
        "import sys; from omnigraph.cli.main import main\n"
        f"for words in {commands!r}:\n"
        f"    assert main([*words, '--server', {live.url!r}, '--graph', 'people'],"
        f" {{'HOME': {str(tmp_path)!r}, 'OMNIGRAPH_BEARER_TOKEN': {TOKEN!r}}}) == 0, words\n"
        "    heavy = {'lance', 'obstore', 'datafusion', 'pyspark', 'fastapi'} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ended.stderr), ended.stderr


@pytest.mark.parametrize("words", [("-e", ALL), ("people",)], ids=["text", "stored"])
def test_a_server_runs_no_query_on_spark(
    call: Callable[..., Result], live: LiveServer, words: tuple[str, ...]
) -> None:
    place = ("--server", live.url, "--graph", "people", "--json")
    result = call("query", *words, "--engine", "spark", *place)
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["reason"] == "not_served"
