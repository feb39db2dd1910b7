"""The conformance kit of stowplan on this plugin."""

from __future__ import annotations

from stowplan.testing import ProfilerConformance


class TestAcme(ProfilerConformance):
    plugin = "profiler-acme"
    backend = "c"
