from pathlib import Path

import pytest

from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import InvalidArgument


def test_the_bytes_come_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.gq"
    path.write_bytes(b"\xef\xbb\xbf\r\n\x00")
    assert read_source_file(path, "--query") == b"\xef\xbb\xbf\r\n\x00"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("file/x", "cannot be read (Not a directory)"), ("a\0b", "cannot be a path")],
)
def test_a_path_that_leads_nowhere_is_explained(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="--query") as caught:
        read_source_file(tmp_path / name, "--query")
    assert reason in caught.value.message
    assert caught.value.details["option"] == "--query"


def test_a_file_of_somebody_else_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidArgument, match="not readable by this user"):
        read_source_file(tmp_path, "--schema")
