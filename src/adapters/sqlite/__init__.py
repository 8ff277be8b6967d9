"""SQLite on one local volume: tasks, queue, history and results in one file, so that one commit covers them."""
