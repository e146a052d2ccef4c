"""The command line: each command parses, calls public functions, prints."""
