"""The benchmarks run; no test here measures time."""
