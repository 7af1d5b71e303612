"""The env file of a project: settings that come with a checkout, below those of the environment.

It sets settings of ours and keys of providers, nothing else. A checkout may come from anybody, so
it decides neither where a key of the operator is sent nor which code runs beside it: what would is
refused, unless the environment says it too, which wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PREFIX: Final = "OMNIGRAPH_"
_PROVIDER_KEYS: Final = ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
_EMBED_ADDRESS: Final = "OMNIGRAPH_EMBED_BASE_URL"
_EMBED_PROVIDER: Final = "OMNIGRAPH_EMBED_PROVIDER"
_SPARK_MASTER: Final = "OMNIGRAPH_SPARK_MASTER"
_SPARK: Final = (_SPARK_MASTER, "OMNIGRAPH_SPARK_REMOTE", "OMNIGRAPH_SPARK_CONF")
_MODULE: Final = ":"
_LOCAL: Final = "local"


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an env file; only settings of ours and keys of providers are taken.

    Raises:
        SettingInvalid: it cannot be read, a line of it sets nothing, or it sets what a checkout
            does not decide.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, f"cannot be read ({type(error).__name__})") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            # The line may be a secret: only its number is told.
            raise _invalid(path, f"line {number} sets no variable")
        if name.startswith(_PREFIX) or name in _PROVIDER_KEYS:
            found[name] = value.strip("'\"")
    _require_own_keys(found, environ)
    _require_no_code(found, environ)
    return found


def _require_own_keys(added: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Refuse an env file that would have keys of the operator sent to an address of its own.

    Raises:
        SettingInvalid: it would.
    """
    if _EMBED_ADDRESS not in added or _EMBED_ADDRESS in environ:
        return
    keys = [name for name in _PROVIDER_KEYS if environ.get(name, "").strip()]
    if keys:
        raise SettingInvalid(
            f"auth.env_file of the project's file sets {_EMBED_ADDRESS}, and {keys[0]} of the"
            f" environment would be sent there; set {_EMBED_ADDRESS} in the environment, if that is"
            " meant",
            name=_EMBED_ADDRESS,
        )


def _require_no_code(added: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Refuse an env file that would choose code: an embedder, options of a JVM, another cluster.

    Raises:
        SettingInvalid: it would.
    """
    for name, value in added.items():
        is_code = (name == _EMBED_PROVIDER and _MODULE in value) or (
            name in _SPARK and not (name == _SPARK_MASTER and value.startswith(_LOCAL))
        )
        if is_code and name not in environ:
            raise SettingInvalid(
                f"auth.env_file of the project's file sets {name}, which decides what code runs"
                " with your rights; set it in the environment, if that is meant",
                name=name,
            )


def _invalid(path: Path, what: str) -> SettingInvalid:
    return SettingInvalid(f"project file {str(path)!r}: {what}", name=str(path))
