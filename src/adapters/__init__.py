"""How tasks and exports are stored and reached: each adapter keeps the laws of a port of the domain."""
