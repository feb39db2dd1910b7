"""The conformance kit of stowplan on this plugin."""

from __future__ import annotations

from pathlib import Path

from stowplan.testing import ImporterConformance

MODELS = Path(__file__).parent / "models"


class TestAcme(ImporterConformance):
    plugin = "importer-acme"
    models = (str(MODELS / "*.acme"),)
