"""Accepted schemas: immutable objects named by their hash, written once and kept."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.errors import ManifestCorrupt, SchemaInvalid
from omnigraph.graph.manifest.table_refs import CatalogTables
from omnigraph.lang import compile_schema, restore_schema
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from omnigraph.lang import AcceptedSchema
    from omnigraph.storage.objects import StorageAdapter


class Schemas:
    """Reads and writes `__schema/<hash>/`."""

    def __init__(self, objects: StorageAdapter) -> None:
        self._objects = objects
        self._loaded: dict[str, AcceptedSchema] = {}
        self._tables: dict[str, CatalogTables] = {}
        self._lock = threading.Lock()

    def load(self, schema_hash: str) -> AcceptedSchema:
        """The accepted schema of that hash.

        Raises:
            ManifestCorrupt: it is missing or not what its name says.
        """
        schema = self._loaded.get(schema_hash)
        if schema is None:
            schema = self._read(schema_hash)
            with self._lock:
                self._loaded[schema_hash] = schema
        return schema

    def reread(self, schema_hash: str) -> AcceptedSchema:
        """The accepted schema of that hash as it is stored now, whatever was read before.

        Raises:
            ManifestCorrupt: it is missing or not what its name says.
        """
        return self._read(schema_hash)

    def tables(self, schema_hash: str) -> CatalogTables:
        """The tables of an accepted schema, with their layouts."""
        tables = self._tables.get(schema_hash)
        if tables is None:
            tables = CatalogTables(self.load(schema_hash).catalog)
            with self._lock:
                self._tables[schema_hash] = tables
        return tables

    def source(self, schema_hash: str) -> str:
        """The source text as it was accepted."""
        return self._get(schema_hash, "schema.pg").decode()

    def store(self, accepted: AcceptedSchema, source: str, *, may_mend: bool = False) -> None:
        """Write an accepted schema; one that is there already means the same, and stays.

        Whoever holds the lease of the schema `may_mend` what a writer left that died: a power cut
        may have taken a part of it.
        """
        texts = {"schema.pg": source, "ir.json": accepted.ids_json()}
        files = {_path(accepted.schema_hash, name): text.encode() for name, text in texts.items()}
        for path, data in files.items():
            try:
                self._objects.create(path, data, durable=True)
            except AlreadyExists:
                self._objects.renew(path)
        if not may_mend:
            return
        try:
            self._read(accepted.schema_hash)
        except ManifestCorrupt:
            for path, data in files.items():
                self._objects.put(path, data)
                self._objects.renew(path)

    def _read(self, schema_hash: str) -> AcceptedSchema:
        try:
            catalog = compile_schema(self.source(schema_hash))
            restored = restore_schema(catalog, self._get(schema_hash, "ir.json").decode())
        except (SchemaInvalid, KeyError, TypeError, ValueError) as error:
            raise _damaged(schema_hash, str(error)) from error
        if restored.schema_hash != schema_hash:
            raise _damaged(schema_hash, f"its content has the hash {restored.schema_hash}")
        return restored

    def _get(self, schema_hash: str, name: str) -> bytes:
        try:
            return self._objects.get(_path(schema_hash, name))
        except ObjectMissing as error:
            raise _damaged(schema_hash, f"{name} is missing") from error


def _path(schema_hash: str, name: str) -> str:
    return f"__schema/{schema_hash}/{name}"


def _damaged(schema_hash: str, why: str) -> ManifestCorrupt:
    return ManifestCorrupt(
        f"the accepted schema {schema_hash[:12]} is damaged: {why}; restore __schema from a copy",
        schema_hash=schema_hash,
    )
