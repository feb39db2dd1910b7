"""The conformance kit of stowplan on this plugin."""

from __future__ import annotations

from stowplan.testing import CompressorConformance


class TestAcme(CompressorConformance):
    plugin = "compressor-acme"
    supports_c_decoder = False
