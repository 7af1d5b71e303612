"""Looks through text files for what Spark's readers would change without a word.

The reader of CSV puts U+FFFD where bytes are no UTF-8, and the one of JSON makes text of a column
that has values of several types. Each costs one more pass over the files, on the executors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.csv_text import not_utf8
from omnigraph.pipeline.files.source_errors import reading_errors, source_errors
from omnigraph.pipeline.sources.frames import addresses_of
from omnigraph.pipeline.spark.errors import our_address
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec
    from omnigraph.storage.input_files import InputFile

_UTF_8: Final = ("utf-8", "utf8")
_SHOWN: Final = 60
_MIXED: Final = re.compile(r"(?:^|[:<] ?)VARIANT(?=[,>]|$)")
_PLAIN_NAME: Final = re.compile(r"[^\"'\\\[\]]+")
_READERS_WORDS: Final = ("columnnameofcorruptrecord", "mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCheck:
    """What is asked of the files of one source before their rows are taken."""

    spec: SourceSpec
    files: Sequence[InputFile]

    def require_kept(
        self, session: PipelineSession, frame: DataFrame, columns: Collection[str]
    ) -> None:
        """Make sure that these columns, taken as they are, hold what the files say.

        Raises:
            SourceError: a file is no UTF-8, or a column has values of several types.
        """
        options = {name.lower(): value.lower() for name, value in self.spec.options.items()}
        if self.spec.format is SourceFormat.CSV:
            encoding = options.get("encoding", options.get("charset", _UTF_8[0]))
            if encoding in _UTF_8:
                self._require_utf8(session)
        elif options.get("primitivesasstring") != "true" and options.get("multiline") != "true":
            texts = [
                name
                for name, kind in frame.dtypes
                if name in columns and "string" in kind and _PLAIN_NAME.fullmatch(name)
            ]
            if texts:
                self._require_one_type(session, texts)

    def _require_utf8(self, session: PipelineSession) -> None:
        from pyspark.sql import functions as f

        with source_errors(self.spec.name):
            frame = session.spark.read.format("text").load(addresses_of(self.spec, self.files))
        shown = f.substring(f.make_valid_utf8(f.col("value")), 1, _SHOWN)
        path = frame.metadataColumn("_metadata").getField("file_path")
        rows = self._run(
            session,
            frame.where(~f.is_valid_utf8(f.col("value")))
            .select(path.alias("path"), shown.alias("line"))
            .limit(1),
        ).to_pylist()
        if rows:
            where = our_address(rows[0]["path"])
            raise not_utf8(where, rows[0]["line"], self.spec.name)

    def _require_one_type(self, session: PipelineSession, names: Sequence[str]) -> None:
        from pyspark.sql import functions as f

        options = {
            name: value
            for name, value in self.spec.options.items()
            if name.lower() not in _READERS_WORDS
        }
        reader = session.spark.read.format("json").options(**options)
        reader = reader.option("singleVariantColumn", "row")
        with source_errors(self.spec.name):
            frame = reader.load(addresses_of(self.spec, self.files))
        kinds = [
            f.schema_of_variant_agg(f.try_variant_get(f.col("row"), f'$["{name}"]', "variant"))
            for name in names
        ]
        table = self._run(
            session, frame.agg(*(kind.alias(str(at)) for at, kind in enumerate(kinds)))
        )
        for name, column in zip(names, table.columns, strict=True):
            kind = column[0].as_py()
            if kind is not None and _MIXED.search(kind):
                raise SourceError(
                    f"type_error: `{name}` of source {self.spec.name!r} has values of several types"
                    f' (beside others, text); write {{expr: "cast(`{name}` as string)"}} if all of'
                    " them are to become text",
                    source=self.spec.name,
                    column=name,
                    code="type_error",
                )

    def _run(self, session: PipelineSession, frame: DataFrame) -> pa.Table:
        with reading_errors(self.spec.name):
            return StageRunner(session).run("list", frame.toArrow)
