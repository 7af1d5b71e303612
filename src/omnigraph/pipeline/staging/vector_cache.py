"""Vectors that were paid for, kept on storage until they are committed.

Every answered request is one Arrow file: the keys of its texts and their vectors. A task that runs
again, and a job that runs again after a crash, read these files before they ask. They are no part
of the graph; losing one costs money and nothing else, so a file that cannot be read is passed over.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.embedding.text_keys import KEY_BYTES, text_keys
from omnigraph.ids import UlidSource
from omnigraph.pipeline.spark.conform import from_ipc, to_ipc
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from omnigraph.storage.objects import StorageAdapter

log = logging.getLogger(__name__)

PAID_FOLDER: Final = "__staging/embed"
"""Below the root of a graph; each job has a folder of its own in it."""

_PLACES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(KEY_BYTES),
    # The name of a file is longer than the rest, and many texts share it.
    "file": pa.dictionary(pa.int32(), pa.string()),
}
PLACES: Final = pa.schema(_PLACES)
"""Texts, and where their vectors are."""

# Keys are of one length: zeros at the end, which NumPy leaves out, tell no two of them apart.
_KEY: Final = np.dtype(f"S{KEY_BYTES}")
_SUFFIX: Final = ".arrow"
_STOP: Final = "stop"
_OPEN_FILES: Final = 64


class PaidVectors:
    """The files of one folder; also what a `VectorFiller` remembers with."""

    def __init__(self, objects: StorageAdapter, folder: str) -> None:
        self._objects = objects
        self._folder = folder
        self._ids = UlidSource(SystemClock())
        self._reader: VectorReader | None = None
        self._before: dict[str, list[bytes]] = {}
        self._given: set[bytes] = set()
        self._kept: list[str] = []

    def keep(self, keys: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> str:
        """Write what a request gave, durable when this returns; the name of the file."""
        path = f"{self._folder}/{self._ids.next_ulid()}{_SUFFIX}"
        column = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1]
        )
        batch = pa.record_batch({"key": pa.array(keys, pa.binary(KEY_BYTES)), "vector": column})
        self._objects.create(path, to_ipc([batch], batch.schema), durable=True)
        return path

    def places(self) -> dict[bytes, str]:
        """Which file holds the vector of which key; reads all files."""
        return _by_key(self.keys_by_file())

    def keys_by_file(self) -> dict[str, list[bytes]]:
        """Which keys each file holds that can be read; reads all files."""
        by_file: dict[str, list[bytes]] = {}
        for path in self.files():
            batch = read_file(self._objects, path)
            if batch is not None:
                by_file[path] = _keys(batch)
        return by_file

    def files(self) -> list[str]:
        """The names of the files, those of folders inside too."""
        return [each.path for each in self._objects.list(self._folder) if is_paid_file(each.path)]

    def stop(self) -> None:
        """Tell whoever else fills this folder that it is no use."""
        self._objects.put(f"{self._folder}/{_STOP}", b"")

    def is_stopped(self) -> bool:
        """Whether somebody said so."""
        return self._objects.head(f"{self._folder}/{_STOP}") is not None

    def remove(self) -> None:
        """Delete everything in the folder."""
        self._objects.delete_prefix(self._folder)

    def recall_texts(
        self, model: str, dimension: int, texts: Sequence[str]
    ) -> list[npt.NDArray[np.float32] | None]:
        """The vectors of texts that were kept before this object was first asked."""
        if self._reader is None:
            self._before = self.keys_by_file()
            self._reader = VectorReader(self._objects, _by_key(self._before))
        keys = text_keys(model, dimension, texts)
        vectors = [self._reader.find(key) for key in keys]
        self._given.update(key for key, each in zip(keys, vectors, strict=True) if each is not None)
        return vectors

    def keep_texts(
        self, model: str, dimension: int, texts: Sequence[str], vectors: npt.NDArray[np.float32]
    ) -> None:
        """Keep the vectors of texts."""
        self._kept.append(self.keep(text_keys(model, dimension, texts), vectors))

    def spent(self) -> tuple[str, ...]:
        """The files all of whose vectors were given or kept here: once committed, of no more use.

        Others share the folder, and have paid for what else is in it.
        """
        given = (path for path, keys in self._before.items() if self._given.issuperset(keys))
        return (*given, *self._kept)


class VectorFiles:
    """The vectors in files; holds a few files at a time, those that were used last."""

    def __init__(self, objects: StorageAdapter) -> None:
        self._objects = objects
        self._open: OrderedDict[str, dict[bytes, npt.NDArray[np.float32]]] = OrderedDict()

    def find(self, key: bytes, path: str | None) -> npt.NDArray[np.float32] | None:
        """The vector of a key in a file, or `None` if it is not there or the file is gone."""
        if path is None:
            return None
        if path not in self._open:
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)
            self._open[path] = self._read(path)
        self._open.move_to_end(path)
        return self._open[path].get(key)

    def find_all(
        self, keys: Sequence[bytes], paths: Sequence[str | None]
    ) -> list[npt.NDArray[np.float32] | None]:
        """The vectors of keys, each in its file; every file is read once, if there are many too."""
        vectors: list[npt.NDArray[np.float32] | None] = [None] * len(keys)
        for at in sorted(range(len(keys)), key=lambda at: paths[at] or ""):
            vectors[at] = self.find(keys[at], paths[at])
        return vectors

    def _read(self, path: str) -> dict[bytes, npt.NDArray[np.float32]]:
        batch = read_file(self._objects, path)
        if batch is None:
            return {}
        column: Any = batch.column("vector")  # Any: a fixed-size list array
        rows = column.flatten().to_numpy().reshape(batch.num_rows, column.type.list_size)
        return dict(zip(_keys(batch), rows, strict=True))


class VectorReader:
    """Finds vectors by key."""

    def __init__(self, objects: StorageAdapter, places: Mapping[bytes, str]) -> None:
        self._files = VectorFiles(objects)
        self._places = places

    def find(self, key: bytes) -> npt.NDArray[np.float32] | None:
        """The vector, or `None` if it is unknown or its file is gone."""
        return self._files.find(key, self._places.get(key))


class StoredPlaces:
    """Which file holds the vector of which key, in one object that many tasks read.

    The keys are sorted and take their own bytes, a tenth of what a dictionary of them does.
    """

    def __init__(self, objects: StorageAdapter, path: str) -> None:
        (batch,) = from_ipc(objects.get(path))
        column: Any = batch.column("file")  # Any: a dictionary array
        self._paths: list[str] = column.dictionary.to_pylist()
        self._numbers: npt.NDArray[np.int32] = column.indices.to_numpy()
        data = b"".join(batch.column("key").to_numpy(zero_copy_only=False))
        self._keys = np.frombuffer(data, _KEY)

    @staticmethod
    def store(objects: StorageAdapter, path: str, places: Mapping[bytes, str]) -> None:
        """Write the object."""
        ordered = dict(sorted(places.items()))
        batch = places_batch(ordered)
        objects.put(path, to_ipc([batch], batch.schema))

    def files_of(self, keys: Sequence[bytes]) -> list[str | None]:
        """For each key its file, or `None` if it is not known."""
        if not len(self._keys) or not keys:
            return [None] * len(keys)
        wanted = np.array(keys, _KEY)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        is_known = self._keys[at] == wanted
        return [
            self._paths[number] if known else None
            for number, known in zip(self._numbers[at].tolist(), is_known.tolist(), strict=True)
        ]


def places_batch(places: Mapping[bytes, str]) -> pa.RecordBatch:
    """Keys and files as columns, in the order of the mapping."""
    files = {path: number for number, path in enumerate(dict.fromkeys(places.values()))}
    numbers = pa.array([files[path] for path in places.values()], pa.int32())
    return pa.record_batch(
        [
            pa.array(list(places), pa.binary(KEY_BYTES)),
            pa.DictionaryArray.from_arrays(numbers, pa.array(list(files), pa.string())),
        ],
        schema=PLACES,
    )


def is_paid_file(path: str) -> bool:
    """Whether an object of such a folder holds vectors."""
    return path.endswith(_SUFFIX)


def read_file(objects: StorageAdapter, path: str) -> pa.RecordBatch | None:
    """Keys and vectors of one file; `None` if it is gone or was not written to its end."""
    try:
        (batch,) = from_ipc(objects.get(path))
        if batch.schema.names != ["key", "vector"]:
            raise ValueError("it has other columns")
    except ObjectMissing:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        log.warning("paid vectors cannot be read", extra={"path": path, "why": str(error)})
        return None
    return batch


def _by_key(keys_by_file: Mapping[str, Sequence[bytes]]) -> dict[bytes, str]:
    return {key: path for path, keys in keys_by_file.items() for key in keys}


def _keys(batch: pa.RecordBatch) -> list[bytes]:
    return [each for each in batch.column("key").to_pylist() if each is not None]
