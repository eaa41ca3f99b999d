"""DLPack's C exchange API, with a consumer in ctypes."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import gpu_interop
import numpy
import pytest
from capsules import DlTensor, Versioned
from exchange import Api, delete, prototype
from test_dlpack import mapped


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(gpu_interop.Tensor)


def test_the_table(api: Api, memory: gpu_interop.Memory) -> None:
    table = api.table
    assert (table.major, table.minor, table.previous) == (1, 3, None)
    assert all(getattr(table, name) for name, _ in table._fields_[3:])
    # One for the process, found by the type of any tensor.
    assert Api(type(memory.tensor(4, "int8"))).address == api.address


def test_owning_tensors(api: Api, device: gpu_interop.Device) -> None:
    memory = device.import_memory(device.allocate(1 << 16).export())
    address = memory.ptr
    tensor = memory.tensor((2, 3), "float32", (6, 2), 64)
    managed = api.managed(tensor)
    inner = managed.tensor
    assert (managed.major, managed.flags) == (1, 0)
    assert (inner.code, inner.bits, inner.lanes) == (2, 32, 1)
    assert (inner.device_type, inner.device_id) == tensor.__dlpack_device__()
    assert inner.data + inner.byte_offset == tensor.ptr
    assert inner.shape[:2] == [2, 3] and inner.strides[:2] == [6, 2]
    assert api.managed(memory.tensor(4, "int8", readonly=True)).flags == 1
    memory.close()
    del tensor, memory, inner
    gc.collect()
    assert mapped(address)
    thread = threading.Thread(target=delete, args=(managed,))
    thread.start()
    thread.join()
    gc.collect()


def test_the_deleter_frees_the_memory(api: Api, device: gpu_interop.Device) -> None:
    memory = device.import_memory(device.allocate(1 << 16).export())
    address = memory.ptr
    managed = api.managed(memory.tensor(16, "uint8"))
    memory.close()
    gc.collect()
    assert mapped(address)
    delete(managed)
    assert not mapped(address)


def test_tensors_without_an_owner(api: Api, memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor((4, 5), "int16", (1, 4), 2)
    plain = api.plain(tensor)
    assert plain.data == tensor.ptr and plain.byte_offset == 0 and plain.ndim == 2
    assert plain.shape[:2] == [4, 5] and plain.strides[:2] == [1, 4] and (plain.code, plain.bits) == (0, 16)
    # Those of the tensor itself: nothing was allocated.
    again = api.plain(tensor)
    assert ctypes.addressof(plain.shape.contents) == ctypes.addressof(again.shape.contents)
    with pytest.raises(BufferError, match="read-only"):
        api.plain(memory.tensor(4, "int8", readonly=True))


@pytest.mark.parametrize("given", [3, "x", None, object(), numpy.zeros(4)])
def test_other_objects_are_type_errors(api: Api, given: Any) -> None:
    for use in (api.managed, api.plain):
        with pytest.raises(TypeError):
            use(given)


def test_null_pointers_are_errors(api: Api, memory: gpu_interop.Memory) -> None:
    tensor = memory.tensor(4, "int8")
    calls: list[Any] = [
        lambda: api._managed(tensor, None),
        lambda: api._plain(tensor, None),
        lambda: api._object(None, ctypes.byref(ctypes.py_object())),
        lambda: api._object(ctypes.addressof(api.managed(tensor)), None),
    ]
    for call in calls:
        with pytest.raises(BufferError, match="null"):
            call()
    raw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(api.table.managed_from_object)
    with pytest.raises(BufferError, match="null"):
        raw(None, ctypes.addressof(ctypes.c_void_p()))


def test_the_stream_is_the_drivers_default(api: Api) -> None:
    assert [api.stream(kind, 0) for kind in (1, 2, 10)] == [None, None, None]


@pytest.mark.parametrize("function", ["managed", "plain"])
def test_memory_of_the_cpu_is_ready(
    api: Api, device: gpu_interop.Device, memory: gpu_interop.Memory, function: str
) -> None:
    stream, timeline = device.stream(), device.timeline()
    tensor = memory.tensor(16, "uint32", stream=stream)
    timeline.wait(stream, 1)
    stream.fill(tensor, 7, bits=32)
    late = threading.Timer(0.1, timeline.host_signal, (1,))
    late.start()
    made = getattr(api, function)(tensor)
    inner: DlTensor = made.tensor if isinstance(made, Versioned) else made
    assert (ctypes.c_uint32 * 16).from_address(inner.data)[:] == [7] * 16
    late.join()
    if isinstance(made, Versioned):
        delete(made)


def test_our_tensors_become_objects_again(api: Api, device: gpu_interop.Device) -> None:
    memory = device.import_memory(device.allocate(1 << 16).export())
    address = memory.ptr
    tensor = memory.tensor((3, 4), "int32", (8, 2), 128, readonly=True)
    again = api.object(api.managed(tensor))
    assert type(again) is gpu_interop.Tensor
    names = ("shape", "strides", "dtype", "offset", "ptr", "readonly")
    assert [getattr(again, name) for name in names] == [getattr(tensor, name) for name in names]
    copied = api.object(api.managed(again))
    memory.close()
    del tensor, again, memory
    gc.collect()
    assert mapped(address)
    del copied
    gc.collect()
    assert not mapped(address)


def test_foreign_tensors_are_deleted_and_refused(api: Api) -> None:
    deleted = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda address: deleted.append(address))
    foreign = Versioned(1, 3, None, ctypes.cast(deleter, ctypes.c_void_p), 0, prototype([4], 2, 32, (1, 0)))
    with pytest.raises(BufferError, match="from_dlpack"):
        api.object(foreign)
    assert deleted == [ctypes.addressof(foreign)]
    foreign.deleter = None
    with pytest.raises(BufferError, match="from_dlpack"):
        api.object(foreign)


def test_the_allocator(api: Api, device: gpu_interop.Device) -> None:
    managed = api.allocate(prototype([5, 6], 2, 64, device_of(device)))
    inner = managed.tensor
    assert inner.shape[:2] == [5, 6] and inner.strides[:2] == [6, 1] and (inner.code, inner.bits) == (2, 64)
    numbers = (ctypes.c_double * 30).from_address(inner.data)
    numbers[:] = [float(number) for number in range(30)]
    tensor = api.object(managed)
    assert (numpy.from_dlpack(tensor) == numpy.arange(30.0).reshape(5, 6)).all()
    empty = api.allocate(prototype([0, 6], 2, 64, device_of(device)))
    assert empty.tensor.shape[:2] == [0, 6]
    delete(empty)
    scalar = api.object(api.allocate(prototype([], 6, 8, device_of(device))))
    assert scalar.shape == () and scalar.dtype == "bool"


def device_of(device: gpu_interop.Device) -> tuple[int, int]:
    return device.allocate(1).tensor(1, "int8").__dlpack_device__()


def test_the_allocator_reports_errors(api: Api, device: gpu_interop.Device) -> None:
    cpu = device_of(device)
    negative = prototype([4], 2, 32, cpu)
    negative.ndim = -1
    without = prototype([4], 2, 32, cpu)
    without.shape = None
    many = prototype([1] * 65, 2, 32, cpu)
    wrong = [
        (prototype([-1], 2, 32, cpu), b"ValueError"),
        (prototype([1 << 62, 1 << 62], 2, 32, cpu), b"ValueError"),
        (prototype([4], 2, 31, cpu), b"ValueError"),
        (prototype([4], 2, 32, cpu, 4), b"ValueError"),
        (prototype([4], 17, 4, cpu), b"ValueError"),
        (prototype([4], 2, 32, (2, 77)), b"BufferError"),
        (prototype([4], 2, 32, (7, 0)), b"BufferError"),
        (negative, b"ValueError"),
        (without, b"ValueError"),
        (many, b"ValueError"),
    ]
    for given, kind in wrong:
        error = api.allocate(given)
        assert error[0] == kind and b"::" not in error[1], error
    kind, _ = api.allocate(prototype([1 << 58], 1, 8, cpu))
    assert kind in (b"MemoryError", b"ValueError", b"RuntimeError")
    # Also without a function for errors.
    out = ctypes.c_void_p()
    assert api._allocate(ctypes.byref(negative), ctypes.byref(out), None, ctypes.cast(None, type_of_set())) == -1


def type_of_set() -> Any:
    from exchange import Set

    return Set


def test_a_closed_device_allocates_nothing(api: Api) -> None:
    from test_module import run

    run("""
import sys
sys.path.insert(0, "tests")
import gpu_interop
from exchange import Api, delete, prototype
api = Api(gpu_interop.Tensor)
assert api.allocate(prototype([4], 2, 32, (1, 0)))[0] == b"BufferError"
device = gpu_interop.open(backend="host")
managed = api.allocate(prototype([4], 2, 32, (1, 0)))
device.close()
# The allocation keeps the device.
delete(api.allocate(prototype([4], 2, 32, (1, 0))))
delete(managed)
assert api.allocate(prototype([4], 2, 32, (1, 0)))[0] == b"BufferError"
""")


def test_torch_takes_and_gives(api: Api, memory: gpu_interop.Memory) -> None:
    torch = pytest.importorskip("torch", reason="the package torch is not installed")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this version of torch has no C exchange API")
    theirs = Api(torch.Tensor)
    tensor = memory.tensor((4, 4), "float32")
    view = theirs.object(api.managed(tensor))
    view.fill_(3)
    assert view.data_ptr() == tensor.ptr and (numpy.from_dlpack(tensor) == 3).all()
    with pytest.raises(BufferError, match="from_dlpack"):
        api.object(theirs.managed(torch.zeros(4)))
