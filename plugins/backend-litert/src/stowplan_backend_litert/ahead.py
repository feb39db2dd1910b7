"""Ahead of time: what a vendor's compiler would take of a model, and the model with those parts compiled.

Through the tool in the wheel, in a process and a folder of its own: vendors' compilers may crash, and leave files.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from stowplan.flow.model import Model
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import LoadOptions, Partitioning, Precompiled
from stowplan_backend_litert.errors import CompileFailedError, LibraryUnavailableError, OptionError, TimedOutError
from stowplan_backend_litert.library import folder, library, version
from stowplan_backend_litert.modelfile import read
from stowplan_backend_litert.options import NPU_DEVICES

TOOL = Path("tools") / "apply_plugin_main"
MOST_SECONDS = 600
_COUNT = re.compile(r"[Pp]artitioned subgraph<\d+>, selected (\d+) ops, from a total of (\d+) ops\. resulted in (\d+)")
_MISSING = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")


@dataclass(frozen=True)
class Vendor:
    """One vendor's compiler: its plugin, how the tool calls it, a chip by default, and where its kit comes from."""

    folder: str
    manufacturer: str
    chip: str
    kit: str
    remedy: str


_KIT = "pip install {0}; it downloads the kit, and where it cannot, it installs an empty package without a word"
_INTEL = "pip install openvino==2026.3.1, and Intel's NPU driver; --device cpu needs no driver"
VENDORS = {
    "intel": Vendor("intel_openvino", "IntelOpenVINO", "LNL", "openvino", _INTEL),
    "qualcomm": Vendor("qualcomm", "Qualcomm", "SM8650", "ai_edge_litert_sdk_qualcomm",
                       _KIT.format("ai-edge-litert-sdk-qualcomm")),
    "mediatek": Vendor("mediatek", "MediaTek", "mt6991", "ai_edge_litert_sdk_mediatek",
                       _KIT.format("ai-edge-litert-sdk-mediatek")),
    "google": Vendor("google_tensor", "Google", "Tensor_G5", "ai_edge_litert_sdk_google_tensor",
                     _KIT.format("ai-edge-litert-sdk-google-tensor")),
}  # fmt: skip


def partition(model: Model, vendor: str, options: LoadOptions) -> Partitioning:
    """Return what a vendor's compiler says it would take, without compiling it."""
    counts, _ = _apply("partition", model, vendor, options)
    return counts


def precompile(model: Model, vendor: str, options: LoadOptions) -> Precompiled:
    """Return a model whose parts are compiled for a vendor's chip: "intel", or "qualcomm:SM8750" for another chip.

    Raises `OptionError`, `LibraryUnavailableError` when the vendor's kit is missing, and `CompileFailedError`.
    """
    counts, data = _apply("apply", model, vendor, options)
    return Precompiled(data=data, counts=counts)


def toolchain(vendor: str) -> dict[str, str]:
    """Return the library's version and a digest over the libraries of the vendor's kit, by name and size."""
    name, _, chip = vendor.partition(":")
    kit = _kit(_vendor(name, chip))
    files = sorted(f"{path.name} {path.stat().st_size}" for place in kit for path in place.rglob("*.so*"))
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16] if files else "missing"
    return {"ai-edge-litert": version(), f"kit of {name}": digest}


def _apply(command: str, model: Model, wanted: str, options: LoadOptions) -> tuple[Partitioning, bytes]:
    name, _, chip = wanted.partition(":")
    vendor = _vendor(name, chip)
    read(model)  # refuses what is no model before another program sees it
    library()
    place = Path(folder() or "")
    tool, plugins = place / TOOL, place / "vendors" / vendor.folder / "compiler"
    if not tool.is_file() or not plugins.is_dir():
        raise LibraryUnavailableError(
            f"ai-edge-litert has no compiler for {name} on this platform; use Linux on x86-64"
        )
    with tempfile.TemporaryDirectory(prefix="stowplan-") as work:
        source, target = Path(work) / "model.tflite", Path(work) / "compiled.tflite"
        source.write_bytes(model.data)
        arguments = [f"--cmd={command}", f"--model={source}", f"--o={target}", f"--libs={plugins}",
                     f"--soc_manufacturer={vendor.manufacturer}", f"--soc_model={chip or vendor.chip}",
                     *_device(name, options)]  # fmt: skip
        output = _run([str(tool), *arguments], work, vendor, name)
        if not target.is_file():
            raise CompileFailedError(f"{model.name}: {name}'s compiler wrote nothing", text=output[-500:])
        return _counted(output, model.name, name), target.read_bytes()


def _run(command: list[str], work: str, vendor: Vendor, name: str) -> str:
    variables = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(_search_path(vendor))}
    try:
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise TimedOutError(f"{name}'s compiler did not end within {MOST_SECONDS} s", status=7) from None
    except OSError as err:
        raise LibraryUnavailableError(f"{command[0]} cannot be started: {err}") from err
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode == 0:
        return output
    missing = _MISSING.search(output)
    if missing or "Failed to load" in output:
        what = missing[1] if missing else "its kit"
        state = " (the package is there, but empty)" if _is_empty(vendor) else ""
        raise LibraryUnavailableError(
            f"{name}'s compiler cannot load {what}{state}: {vendor.remedy}", text=missing[0] if missing else ""
        )
    errors = re.findall(r"ERROR: (?:\[[^]]*\] )?(\S.*)", output)
    raise CompileFailedError(f"{name}'s compiler failed: {errors[0] if errors else f'exit code {done.returncode}'}")


def _counted(output: str, model: str, name: str) -> Partitioning:
    found = _COUNT.findall(output)
    if not found:
        raise CompileFailedError(f"{model}: {name}'s compiler does not say what it took", text=output[-500:])
    taken, operators, partitions = (sum(int(row[column]) for row in found) for column in (0, 1, 2))
    return Partitioning(operators=operators, taken=taken, partitions=partitions)


def _vendor(name: str, chip: str) -> Vendor:
    if name not in VENDORS:
        raise OptionError(f"--aot {name}: no such vendor; known are {', '.join(VENDORS)}")
    if chip and not re.fullmatch(r"[\w.-]{1,40}", chip):
        raise OptionError(f"--aot {name}:{chip[:40]}: is no chip's name")
    return VENDORS[name]


def _device(name: str, options: LoadOptions) -> list[str]:
    if not options.device or options.device == "default":
        return []
    if name != "intel" or options.device not in NPU_DEVICES:
        raise OptionError(f"device {options.device}: only intel has devices to choose from: cpu, gpu, npu")
    return [f"--intel_openvino_graph_backends={options.device}"]


def _search_path(vendor: Vendor) -> list[str]:
    found = [str(place) for place in _kit_folders(vendor)]
    return [*found, *filter(None, [os.environ.get("LD_LIBRARY_PATH", "")])]


def _kit_folders(vendor: Vendor) -> list[Path]:
    """Return the folders of a vendor's kit that hold shared libraries."""
    libraries = {library.parent for place in _kit(vendor) for library in place.rglob("*.so*")}
    return sorted(libraries)


def _is_empty(vendor: Vendor) -> bool:
    return bool(_kit(vendor)) and not _kit_folders(vendor)


def _kit(vendor: Vendor) -> list[Path]:
    try:
        spec = find_spec(vendor.kit)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
