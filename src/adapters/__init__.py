"""How what is true is stored and reached: one folder a technology, behind the domain's ports."""
