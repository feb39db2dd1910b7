"""PlatformIO runs this before a build: each model of `custom_stowplan_models` becomes C that is part of the firmware.

A line is NAME = MODEL, then options of `stowplan compile`.
"""

from __future__ import annotations

import os
import shlex

# ruff: noqa: F821  (SCons reads this file, and brings these names)
Import("env")


def models(lines: str) -> list[tuple[str, str, list[str]]]:
    """Return name, file and options of each line; ends the build with one line where one is not understood."""
    found = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        name, equals, rest = line.partition("=")
        words = shlex.split(rest)
        if not equals or not name.strip().isidentifier() or not words:
            env.Exit(f"custom_stowplan_models: {line}: write NAME = MODEL, then options such as -m 32K")
        found.append((name.strip(), words[0], words[1:]))
    return found


def add(name: str, model: str, options: list[str]) -> None:
    """Add the rules that make a model's plan and C, and its object to what is linked."""
    stem = os.path.join("$BUILD_DIR", "stowplan", name)
    products = [stem + suffix for suffix in (".stow", ".c", ".h")]
    command = [
        "stowplan",
        "compile",
        "$SOURCE",
        "-q",
        "-o",
        "${TARGETS[0]}",
        "--codegen",
        "${TARGETS[1]}",
        "--name",
        name,
    ]
    rule = ["--depfile", stem + ".d", *options]
    made = env.Command(products, os.path.join("$PROJECT_DIR", model), [[*command, *rule]])
    env.ParseDepends(env.subst(stem + ".d"))  # of the last build: the tool's own files
    env.Append(CPPPATH=[os.path.join("$BUILD_DIR", "stowplan")], PIOBUILDFILES=[env.Object(made[1])])


for model in models(env.GetProjectOption("custom_stowplan_models", "")):
    add(*model)
