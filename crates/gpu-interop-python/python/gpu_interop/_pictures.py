"""Descriptions of pictures in dma-bufs, in the forms of decoders."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import InvalidArgument, Unsupported

#: Formats of a picture whose layers have one plane each, as VA-API's export with separate layers.
_OF_LAYERS = {("R8  ", "GR88"): "NV12", ("R16 ", "GR32"): "P010", ("R8  ", "R8  ", "R8  "): "YU12"}

#: More than any format has.
_MOST = 64


class _Part:
    """An item of the description, a mapping or an object, with the errors of the operation."""

    def __init__(self, operation: str, name: str, value: Any) -> None:
        self.operation, self.name, self.value = operation, name, value

    def error(self, message: str) -> InvalidArgument:
        return InvalidArgument(f"{self.operation}: {self.name}: {message}")

    def get(self, *names: str) -> Any:
        """The first of these that is present; `None` without one."""
        for name in names:
            if isinstance(self.value, Mapping):
                found = self.value.get(name)
            else:
                found = getattr(self.value, name, None)
            if found is not None:
                return found
        return None

    def number(self, bits: int, *names: str) -> int:
        found = self.get(*names)
        if found is None:
            raise self.error(f"{names[0]} is missing")
        return self.checked(bits, names[0], found)

    def checked(self, bits: int, name: str, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise self.error(f"{name} is not an integer: {value!r}") from None
        if not 0 <= number < 1 << bits:
            raise self.error(f"{name} is not from 0 to 2**{bits} - 1: {number}")
        return number

    def items(self, items: str, *counts: str) -> list[_Part]:
        found = self.get(items)
        if found is None:
            return []
        count = self.get(*counts)
        most = _MOST if count is None else self.checked(32, counts[0], count)
        # Arrays of C have no end but their count.
        values = [value for _, value in zip(range(min(most, _MOST)), found)]
        return [_Part(self.operation, f"{items}[{index}]", value) for index, value in enumerate(values)]


def _code(part: _Part, value: Any) -> str:
    """A format as its four characters."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        if not 1 <= len(value) <= 4:
            raise part.error(f"a format has up to four characters: {value!r}")
        return value.ljust(4)
    return part.checked(32, "format", value).to_bytes(4, "little").decode("latin-1")


def _planes(layer: _Part) -> list[tuple[int, int, int]]:
    indices = layer.get("object_index")
    if isinstance(indices, Sequence) or (indices is not None and hasattr(indices, "__getitem__")):
        # VADRMPRIMESurfaceDescriptor: an array for each number.
        count = layer.number(32, "num_planes", "nb_planes")
        offsets, pitches = layer.get("offset"), layer.get("pitch")
        try:
            rows = [(indices[at], offsets[at], pitches[at]) for at in range(min(count, _MOST))]
        except (IndexError, TypeError):
            raise layer.error(f"object_index, offset and pitch have not {count} numbers") from None
        names = ("object_index", "offset", "pitch")
        checked = [[layer.checked(32, *pair) for pair in zip(names, row)] for row in rows]
        return [(index, offset, pitch) for index, offset, pitch in checked]
    return [
        (
            plane.number(32, "object_index", "object"),
            plane.number(64, "offset"),
            plane.number(64, "pitch", "stride"),
        )
        for plane in layer.items("planes", "nb_planes", "num_planes")
    ]


def describe(operation: str, frame: Any) -> tuple[int, int, int, int, list[int], list[tuple[int, int, int]]]:
    """Format, modifier, width, height, descriptors, and planes as object, offset and pitch."""
    picture = _Part(operation, "the picture", frame)
    width, height = picture.number(32, "width"), picture.number(32, "height")
    objects = picture.items("objects", "nb_objects", "num_objects")
    fds = [one.checked(31, "fd", one.get("fd")) for one in objects]
    modifiers = [one.get("format_modifier", "drm_format_modifier", "modifier") for one in objects]
    given = picture.get("modifier", "format_modifier", "drm_format_modifier")
    known = {picture.checked(64, "modifier", value) for value in [given, *modifiers] if value is not None}
    if len(known) != 1:
        raise picture.error("the objects have no modifier" if not known else "the modifiers of the objects differ")
    layers = picture.items("layers", "nb_layers", "num_layers")
    formats = tuple(_code(layer, layer.get("drm_format", "format")) for layer in layers)
    outer = picture.get("format", "drm_format", "fourcc")
    if len(formats) > 1:
        code = _OF_LAYERS.get(formats)
        if code is None:
            raise Unsupported(
                f"{operation}: layers of {', '.join(formats)} are no known format; import each as a picture"
            )
    elif formats:
        code = formats[0]
    elif outer is not None:
        code = _code(picture, outer)
    else:
        raise picture.error("format is missing")
    planes = [plane for layer in layers or [picture] for plane in _planes(layer)]
    return int.from_bytes(code.encode("latin-1"), "little"), known.pop(), width, height, fds, planes
