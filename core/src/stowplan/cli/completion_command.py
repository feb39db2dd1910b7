"""`stowplan completion SHELL`: a script for bash, zsh or fish, made from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from stowplan.cli.options import Parser
from stowplan.nouns import dataclass

PLUGIN_OPTIONS = {"--scheduler": "scheduler", "--compress": "compressor", "--backend": "backend"}
"""Options whose values are the names of installed plugins, as they are when the script is made."""
TOP = ("--help", "--version")


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its spellings, whether a value follows, which values there are (none known: any), what it does."""

    flags: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand: `words` are what its first argument may be, where that is a word and no file."""

    name: str
    text: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'bash: put eval "$(stowplan completion bash)" into ~/.bashrc; zsh: likewise into ~/.zshrc, after compinit; '
        "fish: put stowplan completion fish | source into ~/.config/fish/config.fish"
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    print("\n".join(SHELLS[arguments.shell](commands())))
    return 0


def commands() -> list[Command]:
    """Return what there is to complete, from the parsers of all commands."""
    from stowplan.cli.entry import COMMANDS

    found = []
    for name, (module, text) in COMMANDS.items():
        parser = Parser(prog=name, description=text)
        import_module(f"stowplan.cli.{module}").configure(parser)
        actions = parser._actions  # argparse has no other way to ask
        options = tuple(_option(action) for action in actions if action.option_strings)
        words = [str(word) for a in actions if not a.option_strings for word in a.choices or ()]
        found.append(Command(name=name, text=text, options=options, words=tuple(words)))
    return found


def _option(action: argparse.Action) -> Option:
    values = tuple(str(value) for value in action.choices or ())
    kind = next((PLUGIN_OPTIONS[flag] for flag in action.option_strings if flag in PLUGIN_OPTIONS), "")
    if kind and not values:
        values = _installed(kind)
    return Option(
        flags=tuple(action.option_strings),
        takes_value=action.nargs != 0,
        values=values,
        text=" ".join((action.help or "").replace("%%", "%").split()),
    )


def _installed(kind: str) -> tuple[str, ...]:
    from stowplan.plugins.host import host

    names = sorted({offer.name for _, offer in host().offered(kind)})
    return ("none", *names) if kind == "compressor" else tuple(names)


def bash(found: list[Command]) -> Iterator[str]:
    names = " ".join([*(command.name for command in found), *TOP])
    yield "# bash completion of stowplan; made by: stowplan completion bash"
    yield "_stowplan() {"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words="" files=yes'
    yield "    local IFS=$' \\t\\n'"
    yield '    case "${COMP_WORDS[1]}" in'
    for command in found:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        words = " ".join(command.words)
        yield f"        {command.name}) case $current in -*) words='{flags}' files= ;; *) words='{words}' ;; esac ;;"
    yield "    esac"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for command in found:
        for option in command.options:
            if option.takes_value:
                pattern = "|".join(f"'{command.name} {flag}'" for flag in option.flags)
                wanted = f"words='{' '.join(option.values)}' files=" if option.values else "words= files=yes"
                yield f"        {pattern}) {wanted} ;;"
    yield "    esac"
    yield f"    if [ \"$COMP_CWORD\" -eq 1 ]; then words='{names}' files=; fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "    IFS=$'\\n'  # names of files may have blanks"
    yield '    if [ "$files" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi'
    yield "}"
    yield "complete -o filenames -F _stowplan stowplan"


def zsh(found: list[Command]) -> Iterator[str]:
    yield "#compdef stowplan"
    yield "# zsh completion of stowplan; made by: stowplan completion zsh"
    yield "_stowplan() {"
    yield "    local -a commands"
    yield "    commands=("
    for command in found:
        yield f"        {_quoted(f'{command.name}:{command.text}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    local chosen=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $chosen in"
    for command in found:
        specs = [_quoted(spec) for option in command.options for spec in _zsh_specs(option)]
        rest = f"1:word:({' '.join(command.words)})" if command.words else "*:file:_files"
        yield f"        {command.name}) _arguments {' '.join([*specs, _quoted(rest)])} ;;"
    yield "    esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = "_stowplan" ]; then _stowplan "$@"; else compdef _stowplan stowplan; fi'


def _zsh_specs(option: Option) -> Iterator[str]:
    text = "".join("\\" + c if c in "[]:\\" else c for c in option.text)
    tail = ""
    if option.takes_value:
        tail = f":value:({' '.join(option.values)})" if option.values else ":value:_files"
    for flag in option.flags:
        yield f"*{flag}[{text}]{tail}"


def fish(found: list[Command]) -> Iterator[str]:
    yield "# fish completion of stowplan; made by: stowplan completion fish"
    for command in found:
        yield f"complete -c stowplan -n __fish_use_subcommand -f -a {command.name} -d {_fish(command.text)}"
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            yield f"complete -c stowplan {seen} -a {_fish(' '.join(command.words))}"
        for option in command.options:
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
            value = " -x -a " + _fish(" ".join(option.values)) if option.values else " -r" if option.takes_value else ""
            yield f"complete -c stowplan {seen} {flags}{value} -d {_fish(option.text)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
