"""One of several writers of a manifest on S3: `python -m tests.s3.publisher <uri> <writer> <n>`.

It is told nothing about the server: Lance finds all of it in the environment.
"""

import sys

import lance
from tests.guards.manifest_table import manifest_rows, objects, publish


def publish_until_it_wins(uri: str, commit_id: str) -> int:
    """Publishes one commit whose parent is the head it read; returns how often it lost."""
    rejected = 0
    while True:
        line = lance.dataset(uri)
        head = dict(objects(line))["graph_head"]
        try:
            publish(line, manifest_rows(graph_head=commit_id, **{commit_id: head}))
        except OSError:
            rejected += 1
        else:
            return rejected


def main(arguments: list[str]) -> None:
    """Publishes as one writer of several and writes how often it was rejected."""
    uri, writer, publishes = arguments
    rejected = sum(
        publish_until_it_wins(uri, f"commit-{writer}-{number}") for number in range(int(publishes))
    )
    sys.stdout.write(f"{rejected}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
