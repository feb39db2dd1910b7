"""Vela's configuration files: sections of systems and memory modes, which may inherit from each other."""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ParserError
from difflib import get_close_matches
from pathlib import Path

from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field

MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A file's text, which Vela's compiler reads itself, and its sections."""

    where: str
    text: str = field(repr=False)
    parser: ConfigParser = field(repr=False)

    def check(self, *sections: str) -> None:
        """Raise `UsageError` for a section that is missing, with those that could be meant."""
        for section in sections:
            if self.parser.has_section(section):
                continue
            kind, _, name = section.partition(".")
            known = [found.partition(".")[2] for found in self.parser.sections() if found.startswith(f"{kind}.")]
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
            what = "system" if kind == "System_Config" else "memory"
            raise UsageError(f"{what}={name[:60]}: {self.where} has no section {section[:80]}; {hint}")

    def number(self, section: str, key: str, default: float) -> float:
        """Return a value of a section or of one it inherits from. Raises `UsageError` when it is no number."""
        text = self.text_of(section, key)
        try:
            return default if text is None else float(text)
        except ValueError:
            raise UsageError(f"{self.where}: {section}: {key}={text!r} is no number") from None

    def text_of(self, section: str, key: str, seen: tuple[str, ...] = ()) -> str | None:
        """Return a value as it is written, None where neither the section nor one it inherits from has it."""
        if section in seen or not self.parser.has_section(section):
            raise UsageError(f"{self.where}: {(seen or (section,))[-1]}: cannot inherit from {section}")
        if self.parser.has_option(section, key):
            return self.parser.get(section, key)
        parent = self.parser.get(section, "inherit", fallback=None)
        return None if parent is None else self.text_of(parent, key, (*seen, section))


def read_configuration(path: str | Path) -> Configuration:
    """Read a configuration file. Raises `UsageError` when it is none."""
    place = Path(path)
    try:
        data = place.read_bytes()
        text = data.decode("utf-8")
        if len(data) > MOST_BYTES:
            raise UsageError(f"{place}: {len(data)} bytes are more than a configuration of Vela has")
        parser = ConfigParser(interpolation=None)
        parser.read_string(text)
    except OSError as err:
        raise UsageError(f"{place}: cannot be read: {err.strerror or err}") from err
    except (UnicodeDecodeError, ParserError) as err:
        raise UsageError(f"{place}: is no configuration of Vela: {str(err).splitlines()[0]}") from err
    return Configuration(where=place.name, text=text, parser=parser)
