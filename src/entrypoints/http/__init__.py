"""The HTTP API: one declaration an operation, strict at the edge, and every refusal in one form."""
