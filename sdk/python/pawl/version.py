"""The version of this package: that of the server it was released with."""

VERSION = "0.2.0"
