"""Where newer Bazel has this module."""

load("//cc/common:builtin.bzl", "builtin_cc_common")

cc_common = builtin_cc_common
