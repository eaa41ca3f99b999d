#!/usr/bin/env python3
"""Runs an example in a window of a virtual display (Xvfb), and checks its picture.

window.py PROGRAM PNG [ARGUMENT...]: the program must show a picture (see is_a_picture). The screen is written to PNG.
"""

import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

# The size of the window of the examples that CI runs.
WIDTH, HEIGHT = 256, 256
# Seconds until the window must show the picture.
PATIENCE = 60


def screen(file):
    """Rows of the screen, each pixel as red, green and blue, from Xvfb's file in the format of xwd."""
    data = file.read_bytes()
    header_size, _, _, _, width, height = struct.unpack(">6I", data[:24])
    row_size, colors = struct.unpack(">I", data[48:52])[0], struct.unpack(">I", data[76:80])[0]
    start = header_size + 12 * colors
    rows = [data[start + row * row_size :][: 4 * width] for row in range(height)]
    # Blue comes first, and the fourth byte is unused.
    return [bytes(byte for at in range(0, 4 * width, 4) for byte in (row[at + 2], row[at + 1], row[at])) for row in rows]


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def is_a_picture(rows):
    """More than 200 colours, and between 1 % and 90 % bright pixels."""
    pixels = [row[at : at + 3] for row in rows for at in range(0, len(row), 3)]
    bright = sum(max(pixel) > 128 for pixel in pixels)
    return len(set(pixels)) > 200 and len(pixels) // 100 < bright < len(pixels) * 9 // 10


def main(program, picture, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        reader, writer = os.pipe()
        command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-fbdir", folder]
        display = subprocess.Popen([*command, "-nolisten", "tcp"], pass_fds=[writer], stderr=subprocess.DEVNULL)
        os.close(writer)
        shown = None
        try:
            number = os.read(reader, 16).decode().strip()
            if not number:
                sys.exit("Xvfb did not start; is the package xvfb complete?")
            environment = {**os.environ, "DISPLAY": f":{number}"}
            with subprocess.Popen([program, "--frames", "100000", *arguments], env=environment) as example:
                try:
                    start = time.monotonic()
                    while shown is None and example.poll() is None and time.monotonic() - start < PATIENCE:
                        time.sleep(0.5)
                        rows = screen(Path(folder) / "Xvfb_screen0")
                        Path(picture).write_bytes(png(rows))
                        shown = rows if is_a_picture(rows) else None
                    ended = example.poll()
                finally:
                    example.terminate()
        finally:
            display.terminate()
            display.wait()
    if shown is None:
        reason = f"it ended with status {ended}" if ended is not None else f"not within {PATIENCE} s"
        sys.exit(f"{program}: no picture on the screen: {reason}; {picture} has the last screen, if there was one")
    print(f"{Path(program).name}: a picture in a window, {picture}")


main(*sys.argv[1:])
