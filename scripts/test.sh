#!/usr/bin/env bash
# Run the default suite: format, lint, types, contracts, dependencies, tests.
# With arguments run pytest alone, with these arguments: scripts/test.sh tests/unit -k settings
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd -- "$ROOT"

install_packages all
if [ "$#" -gt 0 ]; then
    run_tests "$@"
else
    static_checks
    run_tests -q -n auto --maxprocesses 8 -m "not slow and not spark"
fi
