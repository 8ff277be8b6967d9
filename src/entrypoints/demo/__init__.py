"""The main job as a proof: real processes, a real file, and a comparison that shares nothing with the program."""
