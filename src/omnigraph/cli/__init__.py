"""The command line: `omnigraph` and `omnigraph-server`.

The only layer that prints, and the only one that knows exit codes. A command reads its options,
calls the layers below and shows what they return; it decides nothing about graphs. Nothing heavy is
imported before a command needs it: `--help` and `version` load no compiler and no engine.
"""
