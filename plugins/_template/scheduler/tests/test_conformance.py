"""The conformance kit of stowplan on this plugin."""

from __future__ import annotations

from stowplan.testing import SchedulerConformance


class TestAcme(SchedulerConformance):
    plugin = "scheduler-acme"
    supports_streamed_inputs = False
