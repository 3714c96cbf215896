"""The version, which is that of the whole repository: `cargo xtask version` changes it."""

__version__ = "0.2.0"
