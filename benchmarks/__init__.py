"""Benchmarks: each compares named alternatives within one run, and is started by `python -m benchmarks`."""
