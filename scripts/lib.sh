# shellcheck shell=bash
# Functions shared by the scripts and the Makefile. This file is sourced, never run.
#
# It works from a clean clone, from any working directory, with any HOME or none, and asks nothing.
# The network it needs is the Python package index and, on Debian and Ubuntu as root, apt.

set -euo pipefail

ROOT="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
VENV="$ROOT/.venv"
LOCK="$ROOT/requirements.lock"
STAMP="$VENV/.installed"       # what a finished installation was made from
UNFINISHED="$VENV/.unfinished" # there while an installation runs

# Settings of the caller that would lead pip or Python away from .venv.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX VIRTUAL_ENV
# Images of containers often forbid bytecode files. Every program that a test starts would then compile
# all that it imports again: a small command takes three times as long.
unset PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "Installing with apt-get: $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" \
        </dev/null >&2
}

apt_update() { DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null >&2; }

system_certificates() {
    local file
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [ -s "$file" ]; then
            printf '%s\n' "$file"
            return 0
        fi
    done
    return 1
}

# uv brings its own root certificates and so does pip; a machine behind a company's proxy has more
# of them in the system's store. A slim container has no store at all, hence the test.
if system_certificates >/dev/null; then
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
fi

is_python_311() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    # A name on PATH proves nothing (version managers leave stubs), so each candidate is run.
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
        if is_python_311 "$candidate"; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

require_python() {
    find_python && return 0
    if can_apt; then
        apt_update || true
        apt_install python3 python3-venv || true
        find_python && return 0
    fi
    say "error: no Python 3.11 or later was found."
    say "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install"
    say "python@3.13; others: https://www.python.org/downloads/), or set PYTHON to its path."
    return 1
}

# A Debian Python comes without the module that puts pip into a virtual environment.
require_ensurepip() {
    local python="$1" version
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && return 0
    version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    if can_apt; then
        apt_update || true
        apt_install "python$version-venv" || apt_install python3-venv || true
        "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && return 0
    fi
    die "$python cannot create virtual environments; install python$version-venv (apt-get install)"
}

# Complete, of a fitting Python, and made at this very path: a copied tree has the old path in it.
is_venv_usable() {
    [ ! -e "$UNFINISHED" ] &&
        is_python_311 "$VENV/bin/python" &&
        "$VENV/bin/python" -m pip --version >/dev/null 2>&1 &&
        grep -qF -- "$VENV" "$VENV/bin/activate"
}

ensure_venv() {
    local python
    is_venv_usable && return 0
    python="$(require_python)" || exit 1
    require_ensurepip "$python"
    say "Creating .venv with $("$python" --version 2>&1)"
    rm -rf -- "$VENV"
    mkdir -p -- "$VENV"
    : >"$UNFINISHED"
    "$python" -m venv "$VENV"
}

ensure_home() {
    # Caches and user folders need a place; without one of the user's own it is inside .venv.
    if [ -z "${HOME:-}" ] || [ ! -w "$HOME" ]; then
        export HOME="$VENV/home"
        mkdir -p -- "$HOME"
    fi
}

# uv at the version of the lock file, checked against the hashes there.
ensure_uv() {
    local wanted requirement="$VENV/.uv-requirement.txt" certificates
    ensure_venv
    ensure_home
    awk '/^uv==/ { found = 1 } found { print } found && !/\\$/ { exit }' "$LOCK" >"$requirement"
    wanted="$(sed -n 's/^uv==\([^ ]*\).*/\1/p' "$requirement")"
    [ -n "$wanted" ] || die "requirements.lock does not pin uv"
    case "$("$VENV/bin/uv" --version 2>/dev/null || true)" in
        "uv $wanted" | "uv $wanted "*) return 0 ;;
    esac
    say "Installing uv $wanted"
    "$VENV/bin/python" -m pip install -q --no-deps --force-reinstall -r "$requirement" && return 0
    certificates="$(system_certificates)" || return 1
    say "Trying again with the certificates of the system"
    PIP_CERT="$certificates" \
        "$VENV/bin/python" -m pip install -q --no-deps --force-reinstall -r "$requirement"
}

fingerprint() { cat "$ROOT/pyproject.toml" "$LOCK" | cksum; }

is_installed() {
    local mode="$1" stamped
    is_venv_usable && [ -r "$STAMP" ] || return 1
    stamped="$(cat "$STAMP")"
    # All the packages include those of the runtime.
    [ "$stamped" = "$mode $(fingerprint)" ] || [ "$stamped" = "all $(fingerprint)" ]
}

# install_packages runtime|all: put OmniGraph and its dependencies into .venv; fast when nothing changed.
install_packages() {
    local mode="$1"
    if is_installed "$mode"; then
        ensure_home
        return 0
    fi
    ensure_uv
    say "Installing the packages of requirements.lock ($mode)"
    rm -f -- "$STAMP"
    : >"$UNFINISHED"
    if [ "$mode" = all ]; then
        uv_install -r "$LOCK"
        uv_install --no-deps -e "$ROOT"
    else
        uv_install -c "$LOCK" -e "$ROOT"
    fi
    printf '%s\n' "$mode $(fingerprint)" >"$STAMP"
    rm -f -- "$UNFINISHED"
}

uv_install() { "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" "$@"; }

is_java_17() {
    local major
    # "17.0.1", "21", and the old style "1.8.0" all begin with a number that can be compared.
    major="$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)" || return 1
    [ -n "$major" ] && [ "$major" -ge 17 ]
}

find_java() {
    local java
    if [ -n "${JAVA_HOME:-}" ] && is_java_17 "$JAVA_HOME/bin/java"; then
        return 0
    fi
    if is_java_17 java; then
        unset JAVA_HOME # it names none or an older one, and Spark would use that
        return 0
    fi
    for java in /usr/lib/jvm/*/bin/java; do
        if is_java_17 "$java"; then
            JAVA_HOME="${java%/bin/java}"
            export JAVA_HOME
            return 0
        fi
    done
    return 1
}

# Find Java 17 or later, or install it; otherwise say what to install and fail.
check_java() {
    find_java && return 0
    if can_apt; then
        apt_update || true
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
        find_java && return 0
    fi
    say "error: the data pipeline needs Java 17 or later, and none was found."
    say "Install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install"
    say "java-21-openjdk-headless; macOS: brew install openjdk@17), or set JAVA_HOME to it."
    return 1
}

step() {
    say "==> $*"
    "$VENV/bin/$1" "${@:2}" </dev/null
}

static_checks() {
    step ruff format --check .
    step ruff check .
    step mypy
    step lint-imports --no-logo
    step deptry --no-ansi src
}

run_tests() { "$VENV/bin/pytest" "$@" </dev/null; }
