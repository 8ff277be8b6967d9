"""The machine: the only clock, and the only source of ids, secrets and chance."""
