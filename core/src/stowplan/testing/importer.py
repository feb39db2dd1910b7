"""What every importer has to hold, on models that its author gives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

from stowplan.errors import ModelError, StowplanError, UnsupportedError, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.plugins.host import Host, host
from stowplan.plugins.kinds import Description, Importer
from stowplan.testing import samples
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, skip
from stowplan.testing.soundness import unsoundness

DAMAGES = 40
FOREIGN = {
    "no bytes at all": b"",
    "zeros": bytes(4096),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "text": b"hello\n",
}


class ImporterConformance(Conformance):
    """`models` are patterns of files that it has to read, relative to where the tests run."""

    kind = "importer"
    models: Sequence[str] = ()

    def samples(self) -> list[Model]:
        found = [Path(path) for pattern in self.models for path in sorted(glob(pattern, recursive=True))]
        if self.models and not found:
            raise Fault(f"no file matches models = {list(self.models)}. Paths are relative to where the tests run.")
        if not found:
            skip("needs a model: set `models` in the test class, or give --model FILE")
        return [Model.read(path) for path in found]

    def loaded(self, model: Model) -> Graph:
        call = f"load({model.name})"
        found = self.ask(call, self.record.load, model, {})
        if not isinstance(found, Graph):
            raise Fault(f"{call} returned {type(found).__name__}. Return a stowplan.flow.graph.Graph.")
        return found

    def refusal(self, call: str, model: Model) -> str | None:
        """Return how a model is refused, None where it is read after all. Raises `Fault` for any other end."""
        try:
            found = self.ask(call, self.record.load, model, {}, allow=(ModelError, UnsupportedError))
        except StowplanError as err:
            return str(err)
        for wrong in unsoundness(found):
            raise Fault(f"{call} returned a graph, but {wrong}. Raise ModelError for what is damaged.")
        return None

    def answers(self) -> Iterator[str]:
        for model in self.samples() if self.models else ():
            yield f"{model.name}: {samples.snapshot(self.loaded(model))}"

    def test_reads_its_models_into_sound_graphs(self) -> None:
        for model in self.samples():
            for wrong in unsoundness(self.loaded(model)):
                raise Fault(f"load({model.name}): {wrong}.")

    def test_knows_its_models_by_suffix_and_content(self) -> None:
        for model in self.samples():
            if model.path.suffix.lower() not in self.record.suffixes:
                raise Fault(f"{model.name} ends in none of its suffixes, {', '.join(self.record.suffixes)}.")
            if self.ask(f"sniff({model.name})", self.record.sniff, model.data) is not True:
                raise Fault(
                    f"sniff({model.name}) does not say True. Two importers that share a suffix are told apart by it."
                )

    def test_sniffs_anything_without_raising_and_claims_no_other_format(self) -> None:
        rng = random.Random(3)
        noise = {f"{size} random bytes": rng.randbytes(size) for size in (1, 2, 3, 7, 8, 64, 5000)}
        for what, data in {**FOREIGN, **noise}.items():
            found = self.ask(f"sniff({what})", self.record.sniff, data)
            if not isinstance(found, bool):
                raise Fault(f"sniff({what}) returned {found!r}. Return True or False.")
            if found and what in FOREIGN:
                raise Fault(f"sniff({what}) says True. Look for what only your format has.")

    def test_refuses_garbage_and_names_the_file(self) -> None:
        suffix = self.record.suffixes[0]
        for what, data in {**FOREIGN, "noise": random.Random(4).randbytes(999)}.items():
            model = samples.model_of(data, Path(f"garbage-{len(data)}{suffix}"))
            refused = self.refusal(f"load({what})", model)
            if refused is None:
                raise Fault(f"load({what}) returned a graph. Raise ModelError.")
            if model.name not in refused or "\n" in refused.strip():
                raise Fault(f"load({what}) says {refused!r:.300}. Say it in one line that begins with {model.name}.")

    def test_survives_damage_anywhere(self) -> None:
        rng = random.Random(5)
        for model in self.samples():
            for number in range(DAMAGES):
                data = bytearray(model.data)
                if number % 3 == 0:
                    del data[rng.randrange(len(data)) :]
                else:
                    for _ in range(1 + number % 4):
                        data[rng.randrange(len(data))] = rng.randrange(256)
                damaged = samples.model_of(bytes(data), model.path)
                self.refusal(f"load({model.name}, damaged, {number})", damaged)

    def test_same_bytes_same_graph_whatever_came_before(self) -> None:
        models = self.samples()
        alone = [samples.snapshot(self.loaded(model)) for model in models]
        for model, before in reversed(list(zip(models, alone, strict=True))):
            if samples.snapshot(self.loaded(model)) != before:
                raise Fault(f"load({model.name}) gives another graph the second time. Keep no state between calls.")

    def test_gives_each_caller_a_graph_of_its_own(self) -> None:
        for model in self.samples():
            first = self.loaded(model)
            before = samples.snapshot(self.loaded(model))
            if isinstance(first.constants, dict):
                first.constants["changed"] = b""
            if samples.snapshot(self.loaded(model)) != before:
                raise Fault(f"load({model.name}) returns the same dictionary again. Make a new one in each call.")

    def test_reads_the_bytes_it_is_given_and_not_the_file(self) -> None:
        for model in self.samples():
            if callable(getattr(self.record, "external_files", None)) and list(self.record.external_files(model)):
                continue
            moved = samples.model_of(model.data, Path("nowhere") / model.name)
            found = self.ask(f"load({moved.path}, which does not exist)", self.record.load, moved, {})
            if found.digest != self.loaded(model).digest:
                raise Fault(f"load({model.name}) depends on where the file lies. Read model.data.")

    def test_refuses_shapes_for_inputs_that_do_not_exist(self) -> None:
        for model in self.samples():
            call = f"load({model.name}, input_shapes={{'no-such-input': (1,)}})"
            try:
                self.ask(call, self.record.load, model, {"no-such-input": (1,)}, allow=(UsageError,))
            except UsageError:
                continue
            raise Fault(f"{call} returned a graph. Raise UsageError that lists the model's inputs.")

    def test_describes_what_it_loads(self) -> None:
        for model in self.samples():
            found = self.ask(f"describe({model.name})", self.record.describe, model)
            if not isinstance(found, Description):
                raise Fault(
                    f"describe({model.name}) returned {type(found).__name__}. Return a Description of plugins.kinds."
                )
            graph = self.loaded(model)
            mine = sorted(dtype for _, _, dtype in found.inputs)
            theirs = sorted(graph.tensors[t].dtype for t in graph.entries)
            if mine != theirs:
                raise Fault(
                    f"describe({model.name}) has inputs of {mine}, load() of {theirs}. Describe the same model."
                )

    def test_its_models_become_plans_that_are_proven(self) -> None:
        from stowplan.build.pipeline import CompileRequest, Session, compile_session

        if "stream" not in host().schedulers() or "c" not in host().backends():
            skip(
                "needs the scheduler stream and the backend c: pip install stowplan-scheduler-stream stowplan-backend-c"
            )
        if not host().backends()["c"].available().ok:
            skip(host().backends()["c"].available().why)
        for model in self.samples():
            try:
                compile_session(Session(CompileRequest(model_path=model.path), _ThisImporter(self.record), model=model))
            except UnsupportedError as err:
                skip(f"{model.name}: {err}")
            except StowplanError as err:
                raise Fault(f"{model.name} does not become a plan: {err}.") from err


class _ThisImporter(Host):
    """The host of this process, but for who reads the model: the one under test, whoever shares its suffix."""

    def __init__(self, importer: Importer) -> None:
        super().__init__()
        self._importer = importer

    def importer_for(self, model: Model) -> Importer:
        return self._importer
