"""Keras callbacks of a run, one noun a module.

Reached through `training`, since a Keras class needs Keras at import; this package itself does not
import it, its modules do.
"""
