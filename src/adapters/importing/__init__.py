"""Files of tasks, read record by record."""
