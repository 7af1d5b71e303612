"""What a job has written and nobody sees yet: files, keys, detached versions, paid vectors."""
