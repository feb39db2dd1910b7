"""The conformance kit of stowplan on this plugin."""

from __future__ import annotations

from stowplan.testing import BackendConformance


class TestAcme(BackendConformance):
    plugin = "backend-acme"
    supports_plans = True
    supports_sources = False
