"""The conformance kit for plugin authors; `conformance.py` says how to use it."""

from stowplan.testing.backend import BackendConformance
from stowplan.testing.builder import GraphBuilder
from stowplan.testing.compressor import CompressorConformance
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, Skipped, skip
from stowplan.testing.graphs import GRAPHS
from stowplan.testing.importer import ImporterConformance
from stowplan.testing.profiler import ProfilerConformance
from stowplan.testing.recorder import HookCall, HookCalls, record_hooks
from stowplan.testing.samples import plan_of
from stowplan.testing.scheduler import SchedulerConformance

__all__ = [
    "GRAPHS", "BackendConformance", "CompressorConformance", "Conformance", "Fault", "GraphBuilder", "HookCall",
    "HookCalls", "ImporterConformance", "ProfilerConformance", "SchedulerConformance", "Skipped", "plan_of",
    "record_hooks", "skip",
]  # fmt: skip
