"""Where newer Bazel has this provider."""

load("//cc/common:builtin.bzl", "builtin_cc_info")

CcInfo = builtin_cc_info
