#!/usr/bin/env bash
# Run the default suite: format, lint, types, contracts, dependencies, tests.
# With arguments run pytest alone, with these arguments: scripts/test.sh tests/unit -k settings
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd -- "$ROOT"

check_java
install_packages all
if [ "$#" -gt 0 ]; then
    run_tests "$@"
else
    static_checks
    # One worker runs everything on Spark, so that one Java is started.
    run_tests -q -n auto --maxprocesses 8 --dist loadgroup \
        -m "not slow and not extended and not cluster"
fi
