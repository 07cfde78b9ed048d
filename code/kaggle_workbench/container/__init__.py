"""The container: the project's spec, its image and mounts, the engine that runs it."""
