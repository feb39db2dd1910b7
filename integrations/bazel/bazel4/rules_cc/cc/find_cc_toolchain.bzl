"""Finds the C toolchain, with the functions of newer rules_cc."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def find_cc_toolchain(ctx):
    return find_cpp_toolchain(ctx)

def use_cc_toolchain(mandatory = True):  # buildifier: disable=unused-variable
    return ["@bazel_tools//tools/cpp:toolchain_type"]
