"""One Ethos-U in one system, as a user names it, with every default filled in: what Vela's output depends on.

A name is an accelerator and options with colons between: `ethos-u55-128:memory=Sram_Only:optimise=Size`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field
from stowplan.units import parse_size
from stowplan_backend_ethosu.configuration import Configuration, read_configuration
from stowplan_backend_ethosu.installation import default_config

ACCELERATORS: Mapping[str, tuple[int, int]] = {
    "ethos-u55-32": (32, 1), "ethos-u55-64": (64, 1), "ethos-u55-128": (128, 1), "ethos-u55-256": (256, 1),
    "ethos-u65-256": (256, 1), "ethos-u65-512": (256, 2),
    "ethos-u85-128": (128, 1), "ethos-u85-256": (256, 1), "ethos-u85-512": (512, 1), "ethos-u85-1024": (1024, 1),
    "ethos-u85-2048": (2048, 1),
}  # fmt: skip
"""Multiply-accumulates per cycle and core, and cores."""
DEFAULTS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_Client_Server", "Dedicated_Sram_384KB"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
}
"""System configuration and memory mode that Vela takes where none is named."""
ADDRESS_BITS = {"ethos-u55": 32, "ethos-u65": 40, "ethos-u85": 40}
WRITTEN = {"arena": ("Sram", "Dram"), "cache": ("Sram",)}
"""Which memories will do for what the NPU writes."""
OPTIONS = ("system", "memory", "config", "optimise", "arena", "allocator", "alignment", "ignore", "cop")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An accelerator with its system, and how to compile for it. `arena_bytes` limits what Vela may use of fast memory.

    `ignored` are kinds of operators that are to stay on the CPU.
    """

    accelerator: str
    system: str
    memory: str
    configuration: Configuration = field(repr=False)
    optimise: str
    arena_bytes: int
    allocator: str
    alignment: int
    ignored: tuple[str, ...]
    cop: str

    @property
    def core_clock_hz(self) -> float:
        return self.configuration.number(f"System_Config.{self.system}", "core_clock", 1.0)

    @property
    def areas(self) -> Mapping[str, str]:
        """The memories of the NPU's constants, its arena and the arena's cache, by Vela's names."""
        return _areas(self.configuration, self.system, self.memory)

    @property
    def architecture(self) -> str:
        """The family as Vela's compiler names it."""
        return _family(self.accelerator).replace("ethos-u", "EthosU")

    @property
    def system_text(self) -> str:
        """What Vela's compiler is told of the machine."""
        macs, cores = ACCELERATORS[self.accelerator]
        head = f"[architecture]\nmacs={macs}\ncores={cores}\n[vela]\n"
        return head + f"system_config_name={self.system}\nmemory_mode_name={self.memory}\n" + self.configuration.text

    @property
    def options_text(self) -> str:
        """What Vela's compiler is told of its work; its database of operators is what coverage is read from."""
        lines = [
            "[compiler]", "enable_db=true", "output_format=TFLite", f"cop_format={self.cop}",
            "[scheduler]", f"optimize={self.optimise}", f"arena_size_limit={self.arena_bytes}", "disable_feature=",
            f"cpu_tensor_alignment={self.alignment}", f"tensor_allocator={self.allocator}",
            "[graph]", "softmax_int16_neg_exp_range=10.0",
            *([f"ignore_ops={','.join(self.ignored)}"] if self.ignored else []),
        ]  # fmt: skip
        return "\n".join(["", *lines, ""])

    @property
    def facts(self) -> dict[str, str]:
        """For keys: everything as text, the configuration file by its content."""
        return {
            "accelerator": self.accelerator, "system": self.system, "memory": self.memory,
            "configuration": sha256(self.configuration.text.encode()).hexdigest(), "optimise": self.optimise,
            "arena_bytes": str(self.arena_bytes), "allocator": self.allocator, "alignment": str(self.alignment),
            "ignored": ",".join(self.ignored), "cop": self.cop,
        }  # fmt: skip


def machine(name: str) -> Machine:
    """Return the machine that a name stands for. Raises `UsageError` for a part that means nothing."""
    accelerator, *parts = name.split(":")
    if accelerator not in ACCELERATORS:
        raise UsageError(f"{accelerator[:40]}: is no Ethos-U; name one with --on or --aot: {', '.join(ACCELERATORS)}")
    given = _options(accelerator, parts)
    family = _family(accelerator)
    own = "config" in given
    if own and not {"system", "memory"} <= given.keys():
        raise UsageError(f"{accelerator}:config=...: its defaults are unknown; add system=NAME and memory=NAME")
    configuration = read_configuration(given["config"] if own else default_config())
    system, memory = given.get("system", DEFAULTS[family][0]), given.get("memory", DEFAULTS[family][1])
    configuration.check(f"System_Config.{system}", f"Memory_Mode.{memory}")
    other = re.match(r"Ethos_U\d+", system)
    if other and not own and other[0].lower().replace("_", "-") != family:
        raise UsageError(f"{accelerator}:system={system}: is a system of another Ethos-U; take one that has its name")
    _check_areas(configuration, system, memory)
    largest = 1 << ADDRESS_BITS[family]
    arena = given.get("arena")
    arena_bytes = configuration.number(f"Memory_Mode.{memory}", "arena_cache_size", largest) if arena is None else None
    return Machine(
        accelerator=accelerator, system=system, memory=memory, configuration=configuration,
        optimise=_one_of(given, "optimise", ("Performance", "Size")),
        arena_bytes=_within(parse_size(arena, "arena") if arena is not None else int(arena_bytes or 0), largest),
        allocator=_one_of(given, "allocator", ("HillClimb", "LinearAlloc", "Greedy")),
        alignment=_alignment(given.get("alignment", "16")), ignored=_ignored(given.get("ignore", "")),
        cop=_one_of(given, "cop", ("COP1", "COP2")),
    )  # fmt: skip


def _areas(configuration: Configuration, system: str, memory: str) -> dict[str, str]:
    found = {}
    for part in ("const", "arena", "cache"):
        port = configuration.text_of(f"Memory_Mode.{memory}", f"{part}_mem_area") or "Axi0"
        found[part] = configuration.text_of(f"System_Config.{system}", f"{port.lower()}_port") or "Sram"
    return found


def _check_areas(configuration: Configuration, system: str, memory: str) -> None:
    """Refuse a memory mode that does not go with a system: Vela's compiler would place an arena in flash."""
    areas = _areas(configuration, system, memory)
    for part, allowed in WRITTEN.items():
        if areas[part] not in allowed:
            raise UsageError(
                f"memory={memory}: puts the {part} into {areas[part]} of {system}, where only {' or '.join(allowed)} "
                "will do; take another memory mode or system"
            )
    if areas["const"] == "Sram" and set(areas.values()) != {"Sram"}:
        raise UsageError(f"memory={memory}: puts constants into Sram of {system}, but not the arena; take another mode")


def _options(accelerator: str, parts: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in OPTIONS or not equals or not value:
            raise UsageError(f"{accelerator}:{part[:60]}: write OPTION=VALUE, where OPTION is {', '.join(OPTIONS)}")
        if key in given:
            raise UsageError(f"{accelerator}:{part[:60]}: {key} is there twice")
        given[key] = value
    return given


def _family(accelerator: str) -> str:
    return accelerator.rpartition("-")[0]


def _one_of(given: Mapping[str, str], key: str, choices: tuple[str, ...]) -> str:
    """Return what was chosen, in any spelling of upper and lower case; the first where nothing was."""
    value = given.get(key, choices[0])
    for choice in choices:
        if choice.lower() == value.lower():
            return choice
    raise UsageError(f"{key}={value[:40]}: write {' or '.join(choices)}")


def _within(size_bytes: int, largest: int) -> int:
    if not 0 <= size_bytes <= largest:
        raise UsageError(f"arena={size_bytes}: this Ethos-U has addresses for {largest} bytes")
    return size_bytes


def _alignment(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if value < 16 or value & (value - 1):
        raise UsageError(f"alignment={text[:40]}: write a power of two from 16")
    return value


def _ignored(text: str) -> tuple[str, ...]:
    kinds = tuple(sorted({part.upper() for part in filter(None, text.split("+"))}))
    if not all(re.fullmatch(r"[A-Z0-9_]{1,60}", kind) for kind in kinds):
        raise UsageError(f"ignore={text[:60]}: write kinds of operators with + between, such as SOFTMAX+ADD")
    return kinds
