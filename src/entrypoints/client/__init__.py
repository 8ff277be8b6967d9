"""A client of the HTTP API: synchronous, typed, safe to repeat. The command line and the demonstration use it.

It knows the API by its contract alone and shares no code with the server, so that using it tests the contract.
"""
