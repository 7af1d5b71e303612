"""What `embed` does with a file: the spec, the seed manifest and the selectors; pure.

A spec says for each type which member gets the vector and which members make up the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from omnigraph.errors import InvalidArgument

DEFAULT_OUTPUT: Final = Path("build/seed.embedded.jsonl")
"""Where a manifest's result goes that names no place for it, from the folder of the manifest."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class TypeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vector of one type."""

    target: str
    fields: tuple[str, ...]


class EmbedSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a file."""

    dimension: int
    types: dict[str, TypeSpec]
    model: str | None = None
    """The model that the embedder must have, unless it is the mock; any without one."""


class _Sources(msgspec.Struct, frozen=True):
    raw_seed: str


class _Artifacts(msgspec.Struct, frozen=True):
    embedded_seed: str


class _Seed(msgspec.Struct, frozen=True):
    data: str


class _Manifest(msgspec.Struct, frozen=True):
    """The manifest has other members too, which belong to others."""

    embeddings: EmbedSpec
    sources: _Sources | None = None
    artifacts: _Artifacts | None = None
    seed: _Seed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedManifest:
    """What to read, where to write, and the spec."""

    source: Path
    output: Path
    spec: EmbedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Records whose member has a value, of one type or of any."""

    type_name: str | None
    member: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read `[Type:]field=value`.

        Raises:
            InvalidArgument: it has another form.
        """
        left, equals, value = text.partition("=")
        type_name, colon, member = left.rpartition(":")
        if not equals or not member.strip() or (colon and not type_name.strip()):
            raise InvalidArgument(
                f"the selector {text!r} is not of the form field=value or Type:field=value",
                argument="select",
            )
        return cls(type_name=type_name.strip() or None, member=member.strip(), value=value.strip())


def read_spec(data: bytes, where: str) -> EmbedSpec:
    """The spec of a file in JSON or YAML.

    Raises:
        InvalidArgument: it is none; the message names the member.
    """
    return _checked(_decoded(data, EmbedSpec, where), where)


def read_manifest(data: bytes, path: Path) -> SeedManifest:
    """The seed manifest of a YAML file; its paths are relative to its folder.

    Raises:
        InvalidArgument: it is none; the message names the member.
    """
    manifest = _decoded(data, _Manifest, str(path))
    if manifest.sources is not None:
        source = manifest.sources.raw_seed
    elif manifest.seed is not None:
        source = manifest.seed.data
    else:
        raise InvalidArgument(
            f"{path}: sources.raw_seed is missing; name the file to read there", path=str(path)
        )
    named = manifest.artifacts
    output = DEFAULT_OUTPUT if named is None else Path(named.embedded_seed)
    return SeedManifest(
        source=path.parent / source,
        output=path.parent / output,
        spec=_checked(manifest.embeddings, str(path)),
    )


def _decoded(data: bytes, kind: type[_Struct], where: str) -> _Struct:
    try:
        return msgspec.yaml.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidArgument(f"{where}: {error}", path=where) from error


def _checked(spec: EmbedSpec, where: str) -> EmbedSpec:
    if spec.dimension < 1:
        raise InvalidArgument(
            f"{where}: dimension is {spec.dimension} and must be at least 1", path=where
        )
    if not spec.types:
        raise InvalidArgument(f"{where}: types is empty; name a type to embed", path=where)
    for name, each in spec.types.items():
        if not each.target or not each.fields:
            raise InvalidArgument(
                f"{where}: types.{name} needs a target and at least one of fields", path=where
            )
    return spec
