"""Which release this checkout is."""

VERSION = "0.1.0"
