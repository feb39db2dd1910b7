"""The version of stowplan, in its only place."""

VERSION = "0.1.0"
