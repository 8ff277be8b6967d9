"""Who calls: the HTTP API, the worker, the command line, and the one place that wires them to adapters."""
