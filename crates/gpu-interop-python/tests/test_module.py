"""The module itself: it needs no driver, documents itself, and its objects say what they are."""

from __future__ import annotations

import copy
import ctypes.util
import os
import pickle
import re
import subprocess
import sys
import time
import typing
from pathlib import Path
from typing import Any

import gpu_interop
import pytest
from gpu_interop import gl, vulkan

ERRORS = [
    value for value in vars(gpu_interop).values() if isinstance(value, type) and issubclass(value, gpu_interop.Error)
]

CLASSES = [
    gpu_interop.Array,
    gpu_interop.ArrayRegion,
    gpu_interop.Device,
    gpu_interop.DeviceInfo,
    gpu_interop.Export,
    gpu_interop.Identity,
    gpu_interop.Memory,
    gpu_interop.Stream,
    gpu_interop.Tensor,
    gpu_interop.Timeline,
    gl.Buffer,
    gl.Context,
    gl.Texture,
    vulkan.Buffer,
    vulkan.Context,
    vulkan.Device,
    vulkan.Image,
    vulkan.Picture,
    vulkan.Recording,
    vulkan.Submission,
]


def run(code: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_it_imports_and_computes_without_any_driver() -> None:
    nowhere = {
        "GPU_INTEROP_CUDA_LIBRARY": "/nonexistent/libcuda.so",
        "GPU_INTEROP_HIP_LIBRARY": "/nonexistent/libamdhip64.so",
        "VK_ICD_FILENAMES": "/nonexistent/icd.json",
        "VK_DRIVER_FILES": "/nonexistent/icd.json",
    }
    code = """
import gpu_interop
from gpu_interop import gl, vulkan
loaded = open("/proc/self/maps").read()
assert "libcuda" not in loaded and "libvulkan" not in loaded and "libamdhip64" not in loaded
try:
    vulkan.Context()
except (gpu_interop.DriverNotFound, gpu_interop.NoDevice, gpu_interop.Driver) as error:
    assert "vk" in str(error).lower(), error
else:
    raise SystemExit("a driver was found")
table = gpu_interop.backends()
assert table["host"] == "available" and table["cuda"] != "available" and table["hip"] != "available", table
device = gpu_interop.open()
memory = device.allocate(64)
device.default_stream.fill(memory, 7)
print(gpu_interop.devices(), bytes(memory.tensor(4, "uint8").view()).hex())
"""
    assert run(code, **nowhere) == "[<gpu_interop.DeviceInfo host 0: host CPU>] 07070707"


def test_the_environment_chooses_the_backend() -> None:
    code = """
import gpu_interop
try:
    print(gpu_interop.open())
except gpu_interop.Error as error:
    print(type(error).__name__)
"""
    assert "host" in run(code, GPU_INTEROP_BACKEND="host")
    assert run(code, GPU_INTEROP_BACKEND="vax") == "InvalidArgument"
    assert run(code, GPU_INTEROP_BACKEND="cuda", GPU_INTEROP_CUDA_LIBRARY="/nonexistent") == "DriverNotFound"


def test_the_interpreter_may_end_with_everything_alive() -> None:
    run("""
import gpu_interop
from gpu_interop import gl, vulkan
context = vulkan.Context()
device = gpu_interop.open(matching=context)
timeline = context.timeline(device)
stream = device.stream()
timeline.wait(stream, 5)
memory = device.allocate(4096)
capsule = memory.tensor(1, "int8").__dlpack__(stream=-1)
timeline._watch(9, print)
timeline.abandon("the program ends")
""")


def test_threads_may_use_a_closed_object_at_once() -> None:
    for _ in range(8):
        run("""
import sys, threading, gpu_interop
memory = gpu_interop.open(backend="host").allocate(4096)
memory.close()
start = threading.Barrier(4)
def use():
    start.wait()
    try:
        memory.size
    except gpu_interop.InvalidArgument:
        pass
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_fails_and_ends() -> None:
    run("""
import os, sys
import gpu_interop
from gpu_interop import gl, vulkan
context = vulkan.Context()
device = gpu_interop.open(matching=context)
buffer, timeline, memory = context.buffer(4096), context.timeline(device), device.allocate(4096)
context.fill(buffer, 1)
pending = context.record().fill(buffer, 2).submit(wait=[(timeline, 1)])
child = os.fork()
if child == 0:
    for use in (lambda: context.fill(buffer, 3), lambda: device.stream().synchronize()):
        try:
            use()
        except gpu_interop.System:
            continue
        os._exit(1)
    sys.exit(0)  # An ordinary end, which destroys every object.
assert os.waitpid(child, 0)[1] == 0
timeline.host_signal(1)
pending.wait(10)
assert context.download(buffer, 1) == bytes([2])
""")


def test_the_interpreter_may_end_while_values_are_noticed() -> None:
    for pause in range(12):
        run(f"""
import gpu_interop, time
timeline = gpu_interop.open(backend="host").timeline()
for value in range(3000):
    timeline._watch(value // 10 + 1, lambda error: None)
time.sleep(0.03)
timeline.host_signal(400)
time.sleep({pause} / 2000)
""")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_errors_are_public(error: type[gpu_interop.Error]) -> None:
    assert error.__doc__ and error.__module__ == "gpu_interop"
    made = error("message")
    made.operation, made.code = "f", 3
    for again in [pickle.loads(pickle.dumps(made)), copy.copy(made)]:
        assert type(again) is error and str(again) == "message" and (again.operation, again.code) == ("f", 3)


def test_errors_are_those_of_python_too() -> None:
    assert issubclass(gpu_interop.Timeout, TimeoutError)
    assert issubclass(gpu_interop.InvalidArgument, ValueError)
    assert issubclass(gpu_interop.OutOfMemory, MemoryError)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_everything_has_a_docstring(cls: type) -> None:
    assert cls.__doc__
    own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    missing = [name for name in own if not own[name].__doc__ and name not in {"close"}]
    assert not missing


def test_the_package_is_typed() -> None:
    folder = Path(gpu_interop.__file__).parent
    assert (folder / "py.typed").is_file() and (folder / "_native.pyi").is_file()


def test_reprs_tell(context: vulkan.Context, device: gpu_interop.Device, memory: gpu_interop.Memory) -> None:
    buffer = context.buffer(4096)
    expected: list[tuple[Any, list[str]]] = [
        (context, ["Context", context.identity.name]),
        (context.identity, ["Identity", str(context.identity.uuid)]),
        (device, ["Device", "host"]),
        (gpu_interop.devices()[-1], ["DeviceInfo", "host 0"]),
        (memory, ["65536 bytes", "allocated"]),
        (memory.tensor((2, 3), "int16", readonly=True), ["int16", "[2, 3]", "read-only", "0x"]),
        (memory.tensor((2, 3), "int16", (1, 2)), ["strides [1, 2]"]),
        (device.stream(), ["Stream", "host"]),
        (context.timeline(device, 4), ["at 4", "Vulkan"]),
        (device.timeline(), ["at 0", "host"]),
        (buffer, ["4096 bytes", "exportable"]),
        (buffer.export(), ["opaque_fd", "4096 bytes", "fd "]),
        (context.image(16, 8, "rgba8_unorm"), ["16 x 8 x 1", "rgba8_unorm"]),
        (context.record().fill(buffer, 1), ["1 commands"]),
    ]
    for value, words in expected:
        for word in words:
            assert word in repr(value)
    export = buffer.export()
    export.close()
    assert "closed" in repr(export)


def test_identities_compare(context: vulkan.Context, device: gpu_interop.Device) -> None:
    assert context.identity == vulkan.devices()[0] and hash(context.identity) == hash(vulkan.devices()[0])
    assert context.identity.compare(device.identity) == "same"
    assert context.identity != device.identity and context.identity != 3
    assert (context.identity.kind, device.identity.kind) == ("cpu", "cpu")


def test_capabilities(device: gpu_interop.Device) -> None:
    table = device.capabilities()
    assert table["opaque_fd"] == "native" and table["d3d12_heap"].startswith("unsupported:")
    assert table["exportable memory"] == "native"


@pytest.mark.parametrize(
    "arguments",
    [
        {"ordinal": 9},
        {"uuid": "6d657361-3232-2e33-2e36-0000000000ff", "backend": "host"},
        {"uuid": "GPU-6d657361-3232-2e33-2e36-0000000000ff"},
        {"uuid": "MIG-6d657361-3232-2e33-2e36-0000000000ff"},
        {"pci": "0000:99:00.0"},
    ],
)
def test_absent_devices(arguments: dict[str, Any]) -> None:
    with pytest.raises(gpu_interop.NoDevice):
        gpu_interop.open(**{"backend": "host", **arguments})


@pytest.mark.parametrize(
    "arguments", [{"uuid": "x"}, {"pci": "1"}, {"backend": "vax"}, {"ordinal": 0, "pci": "0000:00:00.0"}]
)
def test_wrong_choices(arguments: dict[str, Any]) -> None:
    with pytest.raises(gpu_interop.InvalidArgument):
        gpu_interop.open(**arguments)


def test_uuids_are_those_of_nvidia_smi() -> None:
    with pytest.raises(gpu_interop.InvalidArgument, match="nvidia-smi -L"):
        gpu_interop.open(uuid="GPU-7")


def test_kinds_of_handles_are_public(device: gpu_interop.Device) -> None:
    kinds = {name for kind in typing.get_args(gpu_interop.HandleKind) for name in typing.get_args(kind)}
    assert "opaque_fd" in kinds and kinds < set(device.capabilities())


def test_formats_of_images_are_public(context: vulkan.Context) -> None:
    formats = [name for kind in typing.get_args(vulkan.ImageFormat) for name in typing.get_args(kind)]
    with pytest.raises(gpu_interop.InvalidArgument) as caught:
        context.image(16, 16, "rgba8")  # type: ignore[arg-type]
    assert f"use one of {', '.join(formats)} [" in str(caught.value)
    listed = re.findall(
        '``"([a-z0-9]+_[a-z]+)"``', vulkan.Context.image.__doc__.split("``format`` is")[1].split(". ")[0]
    )
    assert listed == list(formats)


def test_backends_that_were_tried_first_are_listed() -> None:
    code = """
import gpu_interop
print(gpu_interop.open().passed_over, gpu_interop.open(backend="host").passed_over)
"""
    nowhere = {"GPU_INTEROP_CUDA_LIBRARY": "/nonexistent", "GPU_INTEROP_HIP_LIBRARY": "/nonexistent"}
    # Not installed: no warning, which would be an exception here.
    text = run("import warnings\nwarnings.simplefilter('error')\n" + code, **nowhere)
    assert text.startswith("[('cuda', '") and "('hip', '" in text and text.endswith(" []")


def test_a_driver_that_failed_is_a_warning() -> None:
    code = """
import gpu_interop, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert gpu_interop.open().backend == "host"
    assert [device.backend for device in gpu_interop.devices()] == ["host"]
for warning in caught:
    assert warning.category is gpu_interop.BackendFailedWarning and warning.filename == "<string>", warning
    print(warning.message)
with warnings.catch_warnings():
    warnings.simplefilter("error", gpu_interop.BackendFailedWarning)
    try:
        gpu_interop.open()
    except gpu_interop.BackendFailedWarning:
        print("raised")
"""
    # A library that is there, and is no driver.
    libm = ctypes.util.find_library("m")
    text = run(code, GPU_INTEROP_CUDA_LIBRARY=str(libm), GPU_INTEROP_HIP_LIBRARY="/nonexistent")
    first, second, raised = text.splitlines()
    assert first == second and "the cuda backend is not used" in first and "cuInit" in first and raised == "raised"


def interpreters() -> str:
    """The module of CPython that creates sub-interpreters."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    return str(pytest.importorskip(name).__name__)


@pytest.mark.parametrize("first", ["main", "sub"])
def test_a_sub_interpreter_is_refused(first: str) -> None:
    # Refused again after it was refused, with the main interpreter and its threads intact, and a process that ends.
    code = """
import asyncio, {module} as interpreters
def refused():
    text = "try:\\n import gpu_interop\\nexcept ImportError as error:\\n assert 'interpreter' in str(error)\\n"
    text += "else:\\n raise SystemError('imported')"
    new = interpreters.create()
    # Raises, or from Python 3.13 on returns the exception.
    assert interpreters.run_string(new, text) is None
    interpreters.destroy(new)
def reached():
    timeline = gpu_interop.open(backend="host").timeline()
    async def main():
        waiting = asyncio.ensure_future(timeline.reached(1))
        await asyncio.sleep(0.05)
        timeline.host_signal(1)
        await asyncio.wait_for(waiting, 10)
    asyncio.run(main())
if "{first}" == "sub":
    refused()
import gpu_interop
reached()
refused()
reached()
print("end")
"""
    assert run(code.format(module=interpreters(), first=first)) == "end"


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()", "panic('again')"])
def test_a_notice_that_raises_ends_no_thread(error: str) -> None:
    # A panic of Rust is an exception in Python, and panics again where Rust sees it. Its class exists after an error.
    run(f"""
import gpu_interop, sys, threading
device = gpu_interop.open(backend="host")
try:
    device.allocate("x")
except TypeError:
    pass
[panic] = [found for found in BaseException.__subclasses__() if found.__name__ == "PanicException"]
def fails(error):
    calls.append(1)
    raise {error}
sys.unraisablehook = lambda hook: None
timeline = device.timeline()
calls, done = [], threading.Event()
timeline._watch(1, fails)
timeline._watch(1, lambda error: calls.append(2))
timeline.host_signal(1)
timeline._watch(2, lambda error: done.set())
timeline.host_signal(2)
assert done.wait(10) and 1 in calls and 2 in calls, calls
""")


def test_memory_is_freed_without_the_gil() -> None:
    # The last reference is numpy's. It closes the device, which waits for a wait that nothing satisfies.
    run("""
import gpu_interop, numpy, threading, time
device = gpu_interop.open(backend="host")
timeline, stream, memory = device.timeline(), device.stream(), device.allocate(4096)
array = numpy.from_dlpack(memory.tensor(16, "uint8"))
timeline.wait(stream, 1)
gaps, ended = [], threading.Event()
def tick():
    last = time.monotonic()
    while not ended.wait(0.001):
        now = time.monotonic()
        gaps.append(now - last)
        last = now
thread = threading.Thread(target=tick)
thread.start()
memory.close(), stream.close(), device.close()
del timeline, stream, memory, device
start = time.monotonic()
del array
freeing = time.monotonic() - start
ended.set()
thread.join()
assert freeing > 0.5, f"nothing was waited for: {freeing}"
assert max(gaps) < freeing / 2, f"the others stood still for {max(gaps)} of {freeing} s"
""")


def test_the_exit_waits_for_two_seconds_at_most() -> None:
    text = run("""
import gpu_interop, time
device = gpu_interop.open(backend="host")
timeline, stream, memory = device.timeline(), device.stream(), device.allocate(4096)
timeline.wait(stream, 1)
stream.fill(memory, 1)
print(time.monotonic())
""")
    assert time.monotonic() - float(text) < 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_values_are_not_awaited_in_a_forked_process() -> None:
    run("""
import asyncio, os
import gpu_interop
timeline = gpu_interop.open(backend="host").timeline()
async def main(timeline):
    waiting = asyncio.ensure_future(timeline.reached(timeline.value + 1))
    await asyncio.sleep(0.05)
    timeline.host_signal(timeline.value + 1)
    await asyncio.wait_for(waiting, 10)
asyncio.run(main(timeline))
child = os.fork()
if child == 0:
    try:
        asyncio.run(main(timeline))
    except gpu_interop.System as error:
        assert "fork" in str(error) and "spawn" in str(error) and "open the device" not in str(error), error
    else:
        os._exit(1)
    # New ones work: this backend has no driver.
    asyncio.run(main(gpu_interop.open(backend="host").timeline()))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(main(timeline))
""")


def test_messages_have_the_names_of_python() -> None:
    root = Path(__file__).parents[3]
    known = re.findall(r'\("(.*?)", "', (root / "crates/gpu-interop-python/src/error.rs").read_text())
    # Python has no videos, no textures, and exports no dma-bufs.
    absent = ("ExportableImage::with_", "FeedFences::", "PictureFeed", "PlaneStorage::", "VideoOptions::")
    seen = 0
    crates = [root / f"crates/gpu-interop{name}/src" for name in ["", "-core", "-driver", "-vulkan"]]
    for folder in [*crates, *(root / f"backends/{name}/src" for name in ["cuda", "hip", "host"])]:
        for file in folder.rglob("*.rs"):
            if "cudarc" in file.parts or "tests" in file.parts:
                continue
            text = file.read_text().split("#[cfg(test)]")[0]
            text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
            # Messages, unlike names of functions, have spaces.
            literals = re.findall(r'"((?:[^"\\]|\\.)*)"', text.replace("'\"'", ""), flags=re.DOTALL)
            for literal in (literal for literal in literals if " " in literal):
                seen += 1
                for name in re.findall(r"[A-Z]\w*::\w+", literal):
                    is_known = any(re.search(rf"\b{name}\b", text) for text in known)
                    assert name.startswith(absent) or is_known, (name, literal)
    assert seen > 500
    with pytest.raises(gpu_interop.InvalidArgument) as caught:
        gpu_interop.open(backend="vax")
    assert caught.value.operation == "gpu_interop.open" and "::" not in str(caught.value)


def test_with_blocks_close() -> None:
    with gpu_interop.open(backend="host") as device, device.allocate(64) as memory, device.stream() as stream:
        stream.fill(memory, 1)
        with memory.export() as export:
            fd = export.fd
            os.fstat(fd)
        assert export.closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    for closed in [lambda: device.allocate(1), lambda: memory.ptr, lambda: stream.synchronize(), lambda: export.fd]:
        with pytest.raises(gpu_interop.InvalidArgument, match="closed"):
            closed()


@pytest.mark.skipif(sys.platform == "win32", reason="ROCm's wheels are searched on Linux")
def test_wheels_of_rocm_are_found_without_an_activated_environment(tmp_path: Path) -> None:
    environment, system = tmp_path / "venv", tmp_path / "system"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([str(python), "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    wheel = Path(packages) / "_rocm_sdk_core" / "lib"
    # Neither is a library: each is tried, and its name is in the message. Those of the system hide an installed one.
    for folder, names in (
        (wheel, ["libamdhip64.so.7"]),
        (system, [f"libamdhip64.so{end}" for end in ("", ".5", ".6", ".7", ".8")]),
    ):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"no library")
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    variables.pop("GPU_INTEROP_HIP_LIBRARY", None)
    variables["PYTHONPATH"] = str(Path(gpu_interop.__file__).parent.parent)
    variables["LD_LIBRARY_PATH"] = str(system)
    code = "import gpu_interop; print(gpu_interop.backends()['hip'])"
    result = subprocess.run([str(python), "-c", code], env=variables, capture_output=True, text=True, timeout=60)
    assert f"tried: {wheel / 'libamdhip64.so.7'}: " in result.stdout, result.stdout + result.stderr
