"""Every reader of files, given mutated ones; `python -m fuzz --help` from the folder of tests."""
