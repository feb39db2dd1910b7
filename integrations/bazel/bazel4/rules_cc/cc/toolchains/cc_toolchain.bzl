"""Where newer Bazel has this rule."""

load("//cc:defs.bzl", _cc_toolchain = "cc_toolchain")

cc_toolchain = _cc_toolchain
