"""torch and JAX on the CPU, where they are installed."""

from __future__ import annotations

import gpu_interop
import pytest

FLOATS = ["float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", [*FLOATS, "bfloat16", "uint8", "int64", "bool", "complex64"])
@pytest.mark.parametrize("strides", [None, (1, 8)])
def test_torch(memory: gpu_interop.Memory, dtype: str, strides: tuple[int, int] | None) -> None:
    torch = pytest.importorskip("torch", reason="the package torch is not installed")
    if dtype == "bool" and int(torch.__version__.split(".")[0]) < 2:
        pytest.skip("this version of torch has no bool in DLPack")
    tensor = memory.tensor((8, 8), dtype, strides, 64)
    view = torch.from_dlpack(tensor)
    assert view.data_ptr() == tensor.ptr and tuple(view.shape) == (8, 8) and view.stride() == tensor.strides
    assert str(view.dtype) == f"torch.{dtype}"
    view.fill_(1)
    again = torch.from_dlpack(memory.tensor((8, 8), dtype, strides, 64))
    assert (again == 1).all()


@pytest.mark.parametrize("dtype", [*FLOATS[:2], "bfloat16", "uint8", "int32"])
def test_jax(memory: gpu_interop.Memory, dtype: str) -> None:
    jax = pytest.importorskip("jax", reason="the package jax is not installed")
    tensor = memory.tensor((16, 16), dtype, offset=4096)
    view = jax.dlpack.from_dlpack(tensor)
    assert view.unsafe_buffer_pointer() == tensor.ptr and view.shape == (16, 16) and view.dtype == dtype
    memory.device.default_stream.fill(tensor, 0)
    assert float(view.sum()) == 0.0
