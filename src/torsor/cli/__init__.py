"""The command line."""

from torsor.cli.app import main

__all__ = ["main"]
