"""The public rules: everything a BUILD file loads."""

load("//stowplan:providers.bzl", _StowplanLibraryInfo = "StowplanLibraryInfo", _StowplanModelInfo = "StowplanModelInfo", _StowplanToolchainInfo = "StowplanToolchainInfo")
load("//stowplan/private:budget_test.bzl", _stowplan_budget_test = "stowplan_budget_test")
load("//stowplan/private:library.bzl", _stowplan_library = "stowplan_library")
load("//stowplan/private:model.bzl", _stowplan_model = "stowplan_model")
load("//stowplan/private:toolchain.bzl", _stowplan_toolchain = "stowplan_toolchain")

StowplanLibraryInfo = _StowplanLibraryInfo
StowplanModelInfo = _StowplanModelInfo
StowplanToolchainInfo = _StowplanToolchainInfo
stowplan_budget_test = _stowplan_budget_test
stowplan_library = _stowplan_library
stowplan_model = _stowplan_model
stowplan_toolchain = _stowplan_toolchain
