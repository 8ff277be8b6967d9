"""The `fencepost` command: one module a command, loaded when that command is called and not before."""
