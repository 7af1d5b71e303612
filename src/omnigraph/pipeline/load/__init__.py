"""The load job: input, checks, commit, resume, and what it clears up behind itself."""
