"""Where newer Bazel has this rule."""

load("//cc:defs.bzl", _cc_test = "cc_test")

cc_test = _cc_test
