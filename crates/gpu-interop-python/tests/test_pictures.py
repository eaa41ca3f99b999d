"""Pictures in dma-bufs: their descriptions, and that no descriptor is lost or closed.

The driver for the CPU has no DRM modifiers; `examples/picture.py` runs on a driver that has.
"""

from __future__ import annotations

import ctypes
import gc
import os
from types import SimpleNamespace
from typing import Any

import gpu_interop
import pytest
from gpu_interop import vulkan
from gpu_interop._pictures import describe


def described(frame: Any) -> tuple[Any, ...]:
    code, *rest = describe("f", frame)
    return code.to_bytes(4, "little"), *rest


NV12 = (b"NV12", 7, 64, 32, [5], [(0, 0, 64), (0, 2048, 64)])


def test_the_form_of_ffmpeg() -> None:
    planes = [{"object_index": 0, "offset": 0, "pitch": 64}, {"object_index": 0, "offset": 2048, "pitch": 64}]
    frame: dict[str, Any] = {
        "width": 64,
        "height": 32,
        "nb_objects": 1,
        "objects": [{"fd": 5, "size": 3072, "format_modifier": 7}, {"fd": -1}],
        "nb_layers": 1,
        "layers": [{"format": 0x3231564E, "nb_planes": 2, "planes": [*planes, {}]}, {}],
    }
    assert described(frame) == NV12
    # Separate layers, and objects in place of mappings.
    frame["layers"] = [
        SimpleNamespace(format=b"R8  ", nb_planes=1, planes=planes[:1]),
        SimpleNamespace(format="GR88", nb_planes=1, planes=[SimpleNamespace(**planes[1])]),
    ]
    frame["nb_layers"] = 2
    assert described(SimpleNamespace(**frame)) == NV12


class VaObject(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("size", ctypes.c_uint32), ("drm_format_modifier", ctypes.c_uint64)]


class VaLayer(ctypes.Structure):
    _fields_ = [
        ("drm_format", ctypes.c_uint32),
        ("num_planes", ctypes.c_uint32),
        ("object_index", ctypes.c_uint32 * 4),
        ("offset", ctypes.c_uint32 * 4),
        ("pitch", ctypes.c_uint32 * 4),
    ]


class VaSurface(ctypes.Structure):
    """VADRMPRIMESurfaceDescriptor."""

    _fields_ = [
        ("fourcc", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("num_objects", ctypes.c_uint32),
        ("objects", VaObject * 4),
        ("num_layers", ctypes.c_uint32),
        ("layers", VaLayer * 4),
    ]


def test_the_form_of_va_api() -> None:
    surface = VaSurface(0x3231564E, 64, 32, 1)
    surface.objects[0] = VaObject(5, 3072, 7)
    surface.num_layers = 2
    surface.layers[0] = VaLayer(0x20203852, 1, (0,), (0,), (64,))
    surface.layers[1] = VaLayer(0x38385247, 1, (0,), (2048,), (64,))
    assert described(surface) == NV12
    surface.num_layers = 1
    surface.layers[0] = VaLayer(0x3231564E, 2, (0, 0), (0, 2048), (64, 64))
    assert described(surface) == NV12


def plain(**changes: Any) -> dict[str, Any]:
    frame: dict[str, Any] = {
        "format": "R8",
        "modifier": 0,
        "width": 64,
        "height": 32,
        "objects": [{"fd": 5}],
        "planes": [{"object": 0, "offset": 0, "stride": 64}],
    }
    return {**frame, **changes}


def test_the_short_form() -> None:
    assert described(plain()) == (b"R8  ", 0, 64, 32, [5], [(0, 0, 64)])
    assert described(plain(modifier=(1 << 56) - 1))[1] == (1 << 56) - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"width": None},
        {"width": -1},
        {"width": 1 << 32},
        {"width": "64"},
        {"height": 1.5},
        {"format": None},
        {"format": "R8G8B8"},
        {"format": -1},
        {"format": 1.5},
        {"modifier": None},
        {"modifier": 1 << 64},
        {"objects": [{"fd": 5, "modifier": 3}]},
        {"objects": [{}]},
        {"objects": [{"fd": -1}]},
        {"objects": [{"fd": 1 << 31}]},
        {"planes": [{"object": -1, "offset": 0, "pitch": 64}]},
        {"planes": [{"object": 0, "offset": 0}]},
        {"planes": [{"object": 0, "offset": 1 << 64, "pitch": 64}]},
        {"layers": [{"format": "R8", "num_planes": 2, "object_index": [0], "offset": [0], "pitch": [64]}]},
        {"layers": [{"format": "R8", "object_index": [0], "offset": [0], "pitch": [64]}]},
    ],
)
def test_wrong_descriptions_are_typed(context: vulkan.Context, changes: dict[str, Any]) -> None:
    for use in (context.import_picture, context.import_planes):
        with pytest.raises(gpu_interop.InvalidArgument):
            use(plain(**changes))


def test_unknown_layers_are_unsupported(context: vulkan.Context) -> None:
    layer = {"format": "R8", "planes": [{"object": 0, "offset": 0, "pitch": 64}]}
    with pytest.raises(gpu_interop.Unsupported, match="R8"):
        context.import_picture(plain(layers=[layer, layer]))
    for frame in (None, 3, "NV12", [], {}):
        with pytest.raises(gpu_interop.InvalidArgument):
            context.import_picture(frame)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        # Each is rejected at a later place than the one before.
        ({"objects": [{"fd": 900}]}, gpu_interop.InvalidArgument),
        ({"planes": [{"object": 3, "offset": 0, "pitch": 64}]}, gpu_interop.InvalidArgument),
        ({"format": "YUYV"}, gpu_interop.Unsupported),
        ({"width": 0}, gpu_interop.InvalidArgument),
        ({}, gpu_interop.Unsupported),
    ],
)
def test_descriptors_stay_the_callers(context: vulkan.Context, changes: dict[str, Any], error: Any) -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.ftruncate(fd, 4096)
    before = descriptors()
    for use in (context.import_picture, context.import_planes):
        with pytest.raises(error) as caught:
            use({**plain(objects=[{"fd": fd}]), **changes})
        assert "::" not in str(caught.value), caught.value
    assert descriptors() == before
    os.close(fd)


def test_modifiers_are_those_of_the_driver(context: vulkan.Context) -> None:
    with pytest.raises(gpu_interop.Unsupported, match="modifiers"):
        context.picture_modifiers("AR24")
    for wrong in ("", "ABCDE"):
        with pytest.raises(gpu_interop.InvalidArgument):
            context.picture_modifiers(wrong)
    for given in (context.buffer(64), 3):
        with pytest.raises(gpu_interop.InvalidArgument, match="Picture"):
            context.record().copy_to_image(context.buffer(64), given)  # type: ignore[arg-type]
