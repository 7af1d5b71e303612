"""A tabular file of moderate size is loaded here, unless something of Spark is asked for."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnigraph.cli.commands.load import LoadOptions
from omnigraph.cli.commands.load_lane import find_lane
from omnigraph.cli.source_options import SourceOptions
from omnigraph.errors import UsageError
from omnigraph.settings import load_settings


def lane_of(file: Path, engine: str = "auto", **options: Any) -> tuple[str, str]:  # noqa: ANN401 - of a load
    target: Any = SimpleNamespace(settings=load_settings({"OMNIGRAPH_ENGINE": engine}))
    given = LoadOptions(
        uri=None,
        data=str(file),
        load={"mode": "append"},
        rows=SourceOptions(type="Person"),
        as_json=False,
        **options,
    )
    lane = find_lane(target, given, str(file))
    return lane.engine, lane.why


def test_an_option_of_spark_takes_a_csv_to_spark(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("name\nAda\n")
    assert lane_of(file) == ("local", "")
    assert lane_of(file, spark_conf=["a=b"]) == ("spark", "--spark-conf")
    assert lane_of(file, resume="01K3") == ("spark", "--resume")
    assert lane_of(file, engine="spark") == ("spark", "")
    with pytest.raises(UsageError, match="--spark-conf is about Spark"):
        lane_of(file, engine="local", spark_conf=["a=b"])
