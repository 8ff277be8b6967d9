"""What is true: the export protocol, its policies, the facts it speaks of and the use cases that drive it."""
