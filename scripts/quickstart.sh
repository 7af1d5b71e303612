#!/usr/bin/env bash
# Install OmniGraph into .venv and run the sample. A second run is fast.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd -- "$ROOT"

install_packages runtime
check_java

"$VENV/bin/omnigraph" version
"$VENV/bin/omnigraph" doctor
"$VENV/bin/python" examples/papers/quickstart.py
"$VENV/bin/python" examples/papers/store.py

say ""
say "Next: source .venv/bin/activate, then"
say "  omnigraph lint --schema examples/papers/schema.pg --query examples/papers/queries.gq"
