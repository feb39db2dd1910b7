"""Where newer Bazel has this rule."""

load("//cc:defs.bzl", _cc_library = "cc_library")

cc_library = _cc_library
