"""A consumer of DLPack's C exchange API, by ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

from capsules import DlTensor, Versioned, capsule_name, pointer_of

Set = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("object_from_managed", ctypes.c_void_p),
        ("plain_from_object", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    ]


class Api:
    """The functions of a type. A Python exception that a function sets is raised."""

    def __init__(self, of: type) -> None:
        capsule = of.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
        assert capsule_name(capsule) == b"dlpack_exchange_api"
        self.address = pointer_of(capsule, b"dlpack_exchange_api")
        self.table = Table.from_address(self.address)
        managed = ctypes.POINTER(ctypes.c_void_p)
        # With the GIL.
        self._managed = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, managed)(self.table.managed_from_object)
        self._object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))(
            self.table.object_from_managed
        )
        self._plain = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))(
            self.table.plain_from_object
        )
        # Without.
        self._stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, managed)(
            self.table.current_work_stream
        )
        self._allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(DlTensor), managed, ctypes.c_void_p, Set)(
            self.table.allocator
        )

    def managed(self, tensor: object) -> Any:
        """An owning structure."""
        out = ctypes.c_void_p()
        assert self._managed(tensor, ctypes.byref(out)) == 0 and out.value
        return Versioned.from_address(out.value)

    def plain(self, tensor: object) -> DlTensor:
        out = DlTensor()
        assert self._plain(tensor, ctypes.byref(out)) == 0
        return out

    def object(self, managed: Any) -> Any:
        """Give the structure away for an object."""
        out = ctypes.py_object()
        assert self._object(ctypes.addressof(managed), ctypes.byref(out)) == 0
        # The function returned a reference, as the field has.
        value = out.value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))
        return value

    def stream(self, kind: int, number: int) -> int | None:
        out = ctypes.c_void_p(-1)
        assert self._stream(kind, number, ctypes.byref(out)) == 0
        return out.value

    def allocate(self, prototype: DlTensor) -> Any:
        """A new structure, or the class and message of the error."""
        errors: list[tuple[bytes, bytes]] = []
        out = ctypes.c_void_p()
        set_error = Set(lambda context, kind, message: errors.append((kind, message)))
        status = self._allocate(ctypes.byref(prototype), ctypes.byref(out), None, set_error)
        if status != 0:
            assert status == -1 and len(errors) == 1 and not out.value
            return errors[0]
        assert not errors and out.value
        return Versioned.from_address(out.value)


def delete(managed: Any) -> None:
    """Call the deleter, without the GIL."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))


def prototype(shape: list[int], code: int, bits: int, device: tuple[int, int], lanes: int = 1) -> DlTensor:
    numbers = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    made = DlTensor(None, *device, len(shape), code, bits, lanes, numbers, None, 0)
    made.numbers = numbers  # kept
    return made
