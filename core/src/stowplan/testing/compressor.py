"""What every compressor has to hold."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.testing import samples
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, skip

MOST_GROWTH = 1.1
SLACK_BYTES = 64


class CompressorConformance(Conformance):
    """`supports_c_decoder`: whether the C runtime unpacks this format, so that plans can be made with it."""

    kind = "compressor"
    supports_c_decoder: bool | None = None

    def packed(self, what: str, data: bytes) -> bytes:
        found = self.ask(f"compress({what})", self.record.compress, data)
        if type(found) is not bytes:
            raise Fault(f"compress({what}) returned {type(found).__name__}. Return bytes.")
        return found

    def unpacked(self, what: str, data: bytes, size_bytes: int) -> bytes:
        found = self.ask(f"decompress({what}, {size_bytes})", self.record.decompress, data, size_bytes)
        if type(found) is not bytes:
            raise Fault(f"decompress({what}, {size_bytes}) returned {type(found).__name__}. Return bytes.")
        return found

    def answers(self) -> Iterator[str]:
        for what, data in samples.blocks().items():
            yield f"{what}: {samples.digest(self.packed(what, data))}"

    def test_round_trips_every_length_from_0(self) -> None:
        for what, data in samples.blocks().items():
            again = self.unpacked(what, self.packed(what, data), len(data))
            if len(again) != len(data):
                raise Fault(
                    f"{what} came back as {len(again)} bytes. Return exactly the size_bytes that were asked for."
                )
            if again != data:
                where = next(i for i, (a, b) in enumerate(zip(again, data, strict=True)) if a != b)
                raise Fault(f"{what} came back changed, first at byte {where}. Packing must lose nothing.")

    def test_same_bytes_same_packed_form_whatever_came_before(self) -> None:
        alone = {what: self.packed(what, data) for what, data in samples.blocks().items()}
        for what, data in reversed(samples.blocks().items()):
            if self.packed(what, data) != alone[what]:
                raise Fault(
                    f"compress({what}) gives other bytes the second time. Keep no state between calls: builds of two "
                    "models at once share one record."
                )

    def test_refuses_a_size_that_is_not_the_true_one(self) -> None:
        for what, data in samples.blocks().items():
            packed = self.packed(what, data)
            for size in {max(len(data) - 1, 0), len(data) + 1, 2 * len(data) + 100} - {len(data)}:
                try:
                    found = self.ask(
                        f"decompress({what}, {size})", self.record.decompress, packed, size, allow=(ValueError,)
                    )
                except ValueError:
                    continue
                raise Fault(
                    f"decompress({what}, {size}) returned {len(found)} bytes where {len(data)} were packed. Raise "
                    "ValueError: the plan's sizes may be damaged."
                )

    def test_refuses_damaged_data_and_never_crashes(self) -> None:
        for what, data in samples.blocks().items():
            packed = self.packed(what, data)
            for damaged in (packed[: len(packed) // 2], packed[:-1], packed + b"\xff", b"\xff" * len(packed)):
                if damaged == packed:
                    continue
                try:
                    call = f"decompress(damaged {what}, {len(data)})"
                    found = self.ask(call, self.record.decompress, damaged, len(data), allow=(ValueError,))
                except ValueError:
                    continue
                if len(found) != len(data):
                    raise Fault(f"{call} returned {len(found)} bytes. Return {len(data)} or raise ValueError.")

    def test_does_not_blow_up_what_it_cannot_shrink(self) -> None:
        for what, data in samples.blocks().items():
            size = len(self.packed(what, data))
            if size > MOST_GROWTH * len(data) + SLACK_BYTES:
                raise Fault(f"{what} became {size} bytes. Store what cannot be shrunk, with a mark that says so.")

    def test_shrinks_what_is_easy(self) -> None:
        data = bytes(70_001)
        if len(self.packed("zeros", data)) > len(data) // 2:
            raise Fault("70001 zeros were packed into more than half of that. Then -c with this name only costs time.")

    def test_the_c_runtime_unpacks_it(self) -> None:
        from stowplan.testing.decoding import decoded_by_runtime

        if self.supports_c_decoder is False:
            skip("supports_c_decoder is False: plans cannot be made with it")
        if decoded_by_runtime(self.record):
            return
        if self.supports_c_decoder is None:
            skip("the C runtime has no decoder for it: plans cannot be made with it")
        raise Fault(
            f"the C runtime does not unpack what {self.record.name} packs. Give a format that it knows, or set "
            "supports_c_decoder = False."
        )
