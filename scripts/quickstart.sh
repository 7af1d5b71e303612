#!/usr/bin/env bash
# Install OmniGraph into .venv and run the sample. A second run is fast.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd -- "$ROOT"

install_packages runtime
check_java

scratch="$(mktemp -d)"
trap 'rm -rf -- "$scratch"' EXIT
graph="$scratch/papers.omni"

"$VENV/bin/omnigraph" version
"$VENV/bin/omnigraph" doctor
"$VENV/bin/python" examples/papers/quickstart.py
"$VENV/bin/omnigraph" init "$graph" --schema examples/papers/schema.pg
say "Loading the sample on Spark; its start takes some seconds."
"$VENV/bin/omnigraph" run examples/papers/pipeline.yaml --store "$graph"
"$VENV/bin/omnigraph" query topic_overview --store "$graph" --query examples/papers/queries.gq
"$VENV/bin/python" examples/papers/store.py

say ""
say "Next: source .venv/bin/activate, then"
say "  omnigraph init papers.omni --schema examples/papers/schema.pg"
say "  omnigraph run examples/papers/pipeline.yaml --store papers.omni"
say "  omnigraph query topic_overview --store papers.omni --query examples/papers/queries.gq"
