"""Globals of Bazel 4, under names that other files can give on."""

builtin_cc_common = cc_common
builtin_cc_info = CcInfo
builtin_cc_toolchain_config_info = CcToolchainConfigInfo
