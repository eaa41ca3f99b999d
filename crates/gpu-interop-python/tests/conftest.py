"""Devices of the tests: the CPU, through the host backend and a Vulkan driver for the CPU."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import gpu_interop
import numpy
import pytest
from capsules import Legacy, Versioned, capsule_name, pointer_of
from gpu_interop import vulkan


def pytest_configure() -> None:
    if numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0":
        raise pytest.UsageError("the tests need numpy 2.1: earlier versions import every tensor read-only")


@pytest.fixture(scope="session")
def context() -> vulkan.Context:
    try:
        return vulkan.Context()
    except gpu_interop.Error as error:
        pytest.fail(f"these tests need a Vulkan driver (Debian: libvulkan1 and mesa-vulkan-drivers): {error}")


@pytest.fixture(scope="session")
def device(context: vulkan.Context) -> gpu_interop.Device:
    return gpu_interop.open(matching=context)


@pytest.fixture
def memory(device: gpu_interop.Device) -> Iterator[gpu_interop.Memory]:
    """64 KiB that the device allocated."""
    with device.allocate(1 << 16) as memory:
        yield memory


@pytest.fixture(autouse=True)
def collect() -> Iterator[None]:
    yield
    gc.collect()


_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_void_p]

#: The name of a capsule that was taken. Capsules keep the address, not a copy.
_TAKEN = ctypes.create_string_buffer(b"used")


def capsule_struct(capsule: Any) -> Any:
    """The structure in a capsule, which stays the owner."""
    kind = Versioned if capsule_name(capsule) == b"dltensor_versioned" else Legacy
    return kind.from_address(pointer_of(capsule, capsule_name(capsule)))


def take(capsule: Any) -> tuple[Any, Any]:
    """Take the structure out of a capsule, as a consumer does, and return its deleter too, called without the GIL."""
    struct = capsule_struct(capsule)
    address = ctypes.addressof(struct)
    _rename(capsule, ctypes.addressof(_TAKEN))
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.deleter)
    return struct, lambda: deleter(address)
