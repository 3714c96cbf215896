"""Builds and runs molecular dynamics systems with OpenMM, one task directory at a time.

The worker knows no HTTP and no SQL: its one tie to the service is the directory, whose files are
described in `molbox_worker.directory`.
"""

__version__ = "0.2.0"
