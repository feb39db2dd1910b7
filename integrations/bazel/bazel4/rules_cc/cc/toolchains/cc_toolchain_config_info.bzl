"""Where newer Bazel has this provider."""

load("//cc/common:builtin.bzl", "builtin_cc_toolchain_config_info")

CcToolchainConfigInfo = builtin_cc_toolchain_config_info
