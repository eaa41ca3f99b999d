"""The examples that run without a GPU, and the parts of the others that need none."""

from __future__ import annotations

import re
import runpy
import struct
import subprocess
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import vulkan

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["numpy_lavapipe", "gpu_memory", "jax_reads"])
def test_it_runs(device: gpu_interop.Device, name: str) -> None:
    if name == "jax_reads":
        pytest.importorskip("jax", reason="the package jax is not installed")
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "rounds" in result.stdout


@pytest.mark.parametrize("name", ["start.py", "two_processes.py", "two_workers.py"])
def test_programs_of_the_readme_run(device: gpu_interop.Device, tmp_path: Path, name: str) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    programs = [block for block in re.findall("```python\n(.*?)```", readme, re.S) if block.startswith(f"# {name}\n")]
    assert len(programs) == 1
    (tmp_path / name).write_text(programs[0])
    result = subprocess.run([sys.executable, str(tmp_path / name)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_it_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) < 100


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of render_to_torch.py, without torch."""
    torch = types.ModuleType("torch")
    torch.nn = types.ModuleType("torch.nn")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    return runpy.run_path(str(EXAMPLES / "render_to_torch.py"))


def test_vulkan_draws_the_views(context: vulkan.Context, device: gpu_interop.Device, renderer: dict[str, Any]) -> None:
    views, side, bar = renderer["VIEWS"], renderer["SIDE"], renderer["BAR"]
    picture = renderer["panorama"]()
    assert picture.shape == (renderer["ROWS"], side, 4) and picture.dtype == "float32"
    world, batch = context.buffer(picture.nbytes, exportable=False), context.buffer(views * renderer["VIEW"])
    context.upload(world, picture)
    context.release(batch)
    rows = numpy.random.default_rng(5).integers(0, renderer["ROWS"] - side, views)
    renderer["draw"](world, batch, context, rows).submit().wait(60)
    seen = numpy.from_dlpack(device.import_memory(batch.export()).tensor((views, side, side, 4), "float32"))
    for view, row in enumerate(rows):
        expected = picture[row : row + side].copy()
        first = row % (side - bar)
        expected[first : first + bar] = 0
        numpy.testing.assert_array_equal(seen[view], expected)


def test_the_plot_is_a_picture(tmp_path: Path, renderer: dict[str, Any]) -> None:
    path = tmp_path / "loss.png"
    renderer["plot"](str(path), [1 / (step + 1) for step in range(200)])
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    pixels = numpy.frombuffer(zlib.decompress(data[start : start + length]), "uint8").reshape(height, width + 1)
    assert (width, height) == (400, 200) and (pixels[:, 1:] == 0).any(axis=0).all()
    # The curve falls from the top left to the bottom right.
    assert (pixels[0:2, 1] == 0).any() and (pixels[-3:, -1] == 0).any()
