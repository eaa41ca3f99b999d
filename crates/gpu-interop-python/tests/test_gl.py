"""OpenGL, in a context without a window of Mesa's driver for the CPU."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import gpu_interop
import numpy
import pytest
from gpu_interop import gl, vulkan

POINTER = ctypes.c_void_p
TEXTURE_2D, RGBA, UNSIGNED_BYTE, ARRAY_BUFFER, EXTENSIONS = 0x0DE1, 0x1908, 0x1401, 0x8892, 0x1F03


class Egl:
    """A display and a context, by ctypes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libEGL.so.1")
        self.library.eglGetProcAddress.restype = POINTER
        self.library.eglGetProcAddress.argtypes = [ctypes.c_char_p]
        for name, arguments in (("eglInitialize", 3), ("eglCreateContext", 4), ("eglMakeCurrent", 4)):
            getattr(self.library, name).argtypes = [POINTER] * arguments
        self.library.eglCreateContext.restype = self.library.eglGetCurrentContext.restype = POINTER
        surfaceless = 0x31DD
        display = self.function("eglGetPlatformDisplay", POINTER, ctypes.c_uint, POINTER, POINTER)
        self.display = display(surfaceless, None, None)
        assert self.library.eglInitialize(self.display, None, None) == 1
        assert self.library.eglBindAPI(0x30A2) == 1
        version = (ctypes.c_int * 5)(0x3098, 4, 0x30FB, 5, 0x3038)
        self.context = self.library.eglCreateContext(self.display, None, None, version)
        assert self.context
        self.make_current()

    def make_current(self, current: bool = True) -> None:
        context = self.context if current else None
        assert self.library.eglMakeCurrent(self.display, None, None, context) == 1

    def is_current(self) -> bool:
        return bool(self.library.eglGetCurrentContext() == self.context)

    def address(self, name: str) -> Any:
        return self.library.eglGetProcAddress(name.encode())

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))


@pytest.fixture(scope="module")
def egl() -> Egl:
    try:
        egl = Egl()
    except (OSError, AssertionError) as error:
        pytest.skip(f"these tests need EGL and an OpenGL driver (Debian: libegl1 and libgl1-mesa-dri): {error}")
    count = ctypes.c_int()
    egl.function("glGetIntegerv", None, ctypes.c_uint, POINTER)(0x821D, ctypes.addressof(count))
    name = egl.function("glGetStringi", ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint)
    if b"GL_EXT_memory_object_fd" not in {name(EXTENSIONS, index) for index in range(count.value)}:
        pytest.skip("the OpenGL driver imports no memory")
    return egl


@pytest.fixture
def ours(egl: Egl) -> Iterator[gl.Context]:
    egl.make_current()
    yield gl.Context(egl.address, is_current=egl.is_current)
    egl.make_current()


def read(egl: Egl, buffer: gl.Buffer) -> bytes:
    data = ctypes.create_string_buffer(buffer.size)
    egl.function("glBindBuffer", None, ctypes.c_uint, ctypes.c_uint)(ARRAY_BUFFER, buffer.name)
    get = egl.function("glGetBufferSubData", None, ctypes.c_uint, ctypes.c_ssize_t, ctypes.c_ssize_t, POINTER)
    get(ARRAY_BUFFER, 0, buffer.size, data)
    return data.raw


def test_a_buffer_is_the_memory_of_vulkan(context: vulkan.Context, ours: gl.Context, egl: Egl) -> None:
    assert "llvmpipe" in ours.driver and ours.identity.name and "llvmpipe" in repr(ours)
    # The driver needs memory after the buffer.
    buffer = context.buffer(8192)
    drawn = numpy.arange(2048, dtype="uint32").tobytes()
    context.upload(buffer, drawn)
    context.release(buffer)
    export = buffer.export()
    with ours.import_buffer(export, 4096) as imported:
        assert export.closed and imported.name > 0 and imported.size == 4096
        assert read(egl, imported) == drawn[:4096]
        put = egl.function("glBufferSubData", None, ctypes.c_uint, ctypes.c_ssize_t, ctypes.c_ssize_t, POINTER)
        put(ARRAY_BUFFER, 64, 4, ctypes.create_string_buffer(b"abcd", 4))
        egl.function("glFinish", None)()
    context.acquire(buffer)
    assert context.download(buffer) == drawn[:64] + b"abcd" + drawn[68:]
    is_buffer = egl.function("glIsBuffer", ctypes.c_ubyte, ctypes.c_uint)
    with pytest.raises(gpu_interop.InvalidArgument, match="the buffer is closed"):
        assert imported.name
    assert not any(is_buffer(name) for name in range(1, 8))


@pytest.mark.parametrize("form", ["rgba8_unorm", "bgra8_unorm"])
def test_a_texture_is_the_image_of_vulkan(context: vulkan.Context, ours: gl.Context, egl: Egl, form: str) -> None:
    image = context.image(32, 16, form)
    context.initialize(image)
    drawn = numpy.random.default_rng(1).integers(0, 255, (16, 32, 4), "uint8")
    context.upload(image, drawn)
    context.release(image)
    texture = ours.import_texture(image)
    assert texture.target == TEXTURE_2D and texture.name > 0
    egl.function("glBindTexture", None, ctypes.c_uint, ctypes.c_uint)(TEXTURE_2D, texture.name)
    seen = ctypes.create_string_buffer(drawn.nbytes)
    get = egl.function("glGetTexImage", None, *[ctypes.c_uint] * 4, POINTER)
    get(TEXTURE_2D, 0, RGBA, UNSIGNED_BYTE, seen)
    # Not swizzled by this call.
    assert seen.raw == drawn.tobytes()
    changed = 255 - drawn
    put = egl.function("glTexSubImage2D", None, *[ctypes.c_int] * 6, ctypes.c_uint, ctypes.c_uint, POINTER)
    put(TEXTURE_2D, 0, 0, 0, 32, 16, RGBA, UNSIGNED_BYTE, changed.ctypes.data)
    egl.function("glFinish", None)()
    texture.close()
    context.acquire(image)
    assert context.download(image) == changed.tobytes()


def test_the_context_must_be_current(context: vulkan.Context, ours: gl.Context, egl: Egl) -> None:
    image, fds = context.image(8, 8, "r8_unorm"), len(os.listdir("/proc/self/fd"))
    egl.make_current(False)
    export = context.buffer(64).export()
    with pytest.raises(gpu_interop.InvalidArgument, match="current"):
        ours.import_buffer(export)
    # The handle came back.
    assert not export.closed
    export.close()
    with pytest.raises(gpu_interop.InvalidArgument, match="current"):
        ours.import_texture(image)
    for arguments in ({}, {"is_current": egl.is_current}):
        with pytest.raises(gpu_interop.Error):
            gl.Context(egl.address, **arguments)  # type: ignore[arg-type]
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= fds


def test_other_threads_are_refused(context: vulkan.Context, ours: gl.Context) -> None:
    imported = ours.import_buffer(context.buffer(4096).export(), 64)
    held, refused = [imported], []

    def use() -> None:
        for call in (lambda: ours.driver, lambda: held[0].name, held[0].close, ours.close):
            try:
                call()
            except gpu_interop.InvalidArgument as error:
                refused.append(str(error))
        repr(ours), repr(held)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(refused) == 4 and all("thread" in text for text in refused)
    assert imported.name
    # Dropped there: left to the context.
    del imported
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert ours.driver


def test_objects_outlive_the_python_context(context: vulkan.Context, ours: gl.Context, egl: Egl) -> None:
    other = gl.Context(egl.address)
    buffer = context.buffer(4096)
    context.fill(buffer, 7)
    context.release(buffer)
    imported = other.import_buffer(buffer.export(), 64)
    other.close()
    other.close()
    with pytest.raises(gpu_interop.InvalidArgument, match="the context is closed"):
        assert other.driver
    assert read(egl, imported)[:4] == b"\x07\0\0\0"
    imported.close()


@pytest.mark.parametrize("loader", [lambda name: None, lambda name: 0, lambda name: -1, lambda name: 1 // 0, 3])
def test_loaders_that_find_nothing(egl: Egl, loader: Any) -> None:
    egl.make_current()
    with pytest.raises((gpu_interop.SymbolMissing, ZeroDivisionError, TypeError)):
        gl.Context(loader)


def test_pointers_of_ctypes_are_addresses(egl: Egl) -> None:
    egl.make_current()
    assert gl.Context(lambda name: ctypes.c_void_p(egl.address(name))).driver


def test_a_function_that_fails_is_not_current(
    context: vulkan.Context, egl: Egl, monkeypatch: pytest.MonkeyPatch
) -> None:
    egl.make_current()
    reports, failures = [True], []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: failures.append(hook.exc_type))
    other = gl.Context(egl.address, is_current=lambda: reports[0] or 1 // 0)
    reports[0] = False
    with pytest.raises(gpu_interop.InvalidArgument, match="current"):
        other.import_buffer(context.buffer(64).export())
    assert set(failures) == {ZeroDivisionError}


def test_what_opengl_does_not_import(context: vulkan.Context, device: gpu_interop.Device, ours: gl.Context) -> None:
    for wrong in (context.buffer(64), None, 3):
        with pytest.raises(TypeError):
            ours.import_buffer(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            ours.import_texture(wrong)  # type: ignore[arg-type]
    export = context.buffer(4096).export()
    for size, offset in ((0, 0), (8192, 0), (4096, 4), (None, 4096), (1, 1 << 63), (-1, 0), (1 << 64, 0)):
        with pytest.raises(gpu_interop.InvalidArgument):
            ours.import_buffer(export, size, offset=offset)
    assert not export.closed
    export.close()
    with pytest.raises(gpu_interop.Unsupported, match=r"Context\.import_buffer: .*offset"):
        ours.import_buffer(context.buffer(8192).export(), 64, offset=1024)
    closed = context.buffer(64).export()
    closed.close()
    with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
        ours.import_buffer(closed)
