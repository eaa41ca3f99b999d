"""Tensors, with the buffer protocol."""

from __future__ import annotations

import ctypes
from typing import Any

from ._native import TensorBase

#: struct's characters for the types that the buffer protocol has.
_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}


class Tensor(TensorBase):
    """A view of memory as elements, for torch, CuPy, JAX and numpy. Keeps the memory alive.

    ``Memory.tensor`` creates one. Its consumers, too, keep the memory alive: the tensor and the memory's object may be
    deleted before them.
    """

    __slots__ = ()

    def view(self) -> memoryview:
        """View a packed tensor in memory of the CPU with the buffer protocol."""
        _check_host(self)
        block = (ctypes.c_char * self.nbytes).from_address(self.ptr)
        # The view keeps the block, and the block the memory.
        block.owner = self  # type: ignore[attr-defined]
        view: memoryview[Any] = memoryview(block).cast("B")
        shape = [list(self.shape)] if self.nbytes else []
        view = view.cast(_FORMATS[self.dtype], *shape)  # type: ignore[call-overload]
        return view.toreadonly() if self.readonly else view

    def __buffer__(self, flags: int) -> memoryview:
        """Buffer protocol of Python 3.12 and later."""
        view = self.view()
        if flags & 1 and view.readonly:
            raise BufferError("the tensor is read-only")
        return view


def _check_host(tensor: TensorBase) -> None:
    if tensor.__dlpack_device__()[0] != 1:
        raise BufferError("the host cannot access memory of a GPU; use torch, CuPy or JAX")
    if tensor.dtype not in _FORMATS:
        raise BufferError(f"the buffer protocol has no {tensor.dtype}; use DLPack, or view the memory as uint8")
    if tensor.size == 0 and tensor.ndim != 1:
        raise BufferError("the buffer protocol has empty tensors of one dimension only; use numpy.from_dlpack")
    expected = 1
    for length, stride in zip(reversed(tensor.shape), reversed(tensor.strides)):
        if length != 1 and stride != expected and tensor.size:
            raise BufferError("the buffer protocol has packed tensors only; use numpy.from_dlpack")
        expected *= length
    # Waits for the work on the tensor's stream.
    tensor.__dlpack__(copy=None, max_version=(1, 0))


__all__ = ["Tensor"]
