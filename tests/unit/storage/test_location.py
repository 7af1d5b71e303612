"""Which addresses name a graph, and what they become."""

from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.settings import StorageSettings, load_settings
from omnigraph.storage.location import parse_location

PLAIN = load_settings({}).storage


def test_a_local_root_is_absolute_and_free_of_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "real"))
    expected = str((tmp_path / "real" / "g").resolve())
    for given in ("real/g", "./link/../real/g", "link/g", Path("link/g"), "real/g/", "~/g"):
        found = parse_location(given, PLAIN)
        assert (found.root, found.is_local, str(found)) == (expected, True, expected)


def test_what_is_inside_is_named_relative_to_the_root(tmp_path: Path) -> None:
    found = parse_location(tmp_path / "g", PLAIN)
    assert found.path("__leases/x") == tmp_path / "g" / "__leases/x"
    assert found.uri("nodes/1-1") == f"{found.root}/nodes/1-1"
    bucket = parse_location("s3://bucket/a/b", PLAIN)
    assert bucket.uri("nodes/1-1") == "s3://bucket/a/b/nodes/1-1"


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_file_address_is_decoded(tmp_path: Path, host: str) -> None:
    (tmp_path / "two words").mkdir()
    given = f"file://{host}{tmp_path}/two%20words"
    assert parse_location(given, PLAIN).root == str((tmp_path / "two words").resolve())


@pytest.mark.parametrize(
    "given", ["s3://bucket/graph.omni", "s3://bucket/graph.omni/", "S3://bucket/graph.omni"]
)
def test_a_bucket_address_is_a_bucket_and_a_prefix(given: str) -> None:
    found = parse_location(given, PLAIN)
    assert (found.root, found.is_local) == ("s3://bucket/graph.omni", False)


def test_credentials_reach_the_options_and_no_text() -> None:
    settings = load_settings(
        {
            "AWS_ACCESS_KEY_ID": "me",
            "AWS_SECRET_ACCESS_KEY": "hush",
            "AWS_REGION": "eu-1",
            "AWS_ENDPOINT_URL": "http://any",
            "AWS_ENDPOINT_URL_S3": "http://s3",
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_FORCE_PATH_STYLE": "true",
        }
    ).storage
    found = parse_location("s3://bucket/g", settings)
    given = {
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hush",
        "aws_region": "eu-1",
        "aws_endpoint": "http://s3",
        "allow_http": "true",
    }
    assert given.items() <= dict(found.options).items()
    assert "hush" not in f"{found!r} {found}"
    assert not parse_location("g", settings).options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "names no graph"),
        ("   ", "names no graph"),
        ("a\0b", "names no graph"),
        ("http://h/g", "omnigraph.connect('http://h/g', graph=ID)"),
        ("https://h/g", "omnigraph.connect("),
        ("gs://b/g", "gs://"),
        ("az://b/g", "az://"),
        ("memory://x", "memory://"),
        ("file://server/share", "three slashes"),
        ("s3://", "bucket and a prefix"),
        ("s3://bucket", "bucket and a prefix"),
        ("s3://bucket/", "bucket and a prefix"),
        ("s3:///graph", "bucket and a prefix"),
        ("s3://bucket/a?versionId=1", "'?'"),
        ("s3://bucket/a#1", "'#'"),
        ("file:///tmp/a#1", "'#'"),
        ("~nobody-of-this-name/g", "home"),
    ],
)
def test_what_names_no_storage_is_refused_with_the_reason(given: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_location(given, PLAIN)
    assert said in str(caught.value)


def test_a_path_in_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InvalidArgument):
        parse_location(tmp_path / "a" / "g", StorageSettings())


def test_an_address_in_a_path_is_refused_because_it_lost_a_slash() -> None:
    with pytest.raises(InvalidArgument, match="give it as text"):
        parse_location(Path("s3://bucket/graph"), StorageSettings())


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidArgument, match="AWS_ACCESS_KEY_ID") as caught:
        parse_location("s3://key:secret@bucket/graph", StorageSettings())
    assert "secret@" not in str(caught.value)
