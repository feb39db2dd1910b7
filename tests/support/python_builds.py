"""Calls of build backends as frontends make them, and what is in the archives they write."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from wheel_house import ROOT, Env

DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
IMAGE = bytes((ROOT / "examples" / "digits" / "sample.npy").read_bytes()[-64:])
HOOK = "import importlib, sys; m = importlib.import_module({backend!r}); print(m.{hook}({folder!r}, {settings!r}))"
READ = f"import digit_reader; print(digit_reader.read({IMAGE!r}))"
Given = Mapping[str, str] | None


def call(
    env: Env, project: Path, hook: str, settings: Given = None, *,
    backend: str = "stowplan_setuptools.backend", **more: str,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Call a hook of a backend in a process of its own, in the project's folder, as PEP 517 has it."""
    dist = project / "dist"
    dist.mkdir(exist_ok=True)
    code = HOOK.format(backend=backend, hook=hook, folder=str(dist), settings=settings)
    return env.run(env.python, "-c", code, cwd=project, **more)


def built(env: Env, project: Path, hook: str = "build_wheel", settings: Given = None, **more: str) -> Path:
    """Call a hook that has to succeed, and return the archive it wrote."""
    done = call(env, project, hook, settings, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return project / "dist" / done.stdout.strip().splitlines()[-1]


def contents(archive: Path) -> dict[str, bytes]:
    """Return the files of a wheel or of an sdist, those of an sdist without its folder's name."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return {name: file.read(name) for name in file.namelist()}
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as file:
        members = [member for member in file.getmembers() if member.isreg()]
        return {m.name.partition("/")[2]: found.read() for m in members if (found := file.extractfile(m))}


def edit(project: Path, old: str, new: str) -> None:
    """Change the project's pyproject.toml; the text to replace has to be there."""
    path = project / "pyproject.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language, in their order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no block in {language}"
    return found


def commands(page: Path) -> list[str]:
    """Return what a page tells its reader to type."""
    lines = "".join(blocks(page, "console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
