"""Drivers that fail to start, by the simulator of CUDA: `GPU_INTEROP_SIM_FAIL`."""

from __future__ import annotations

import os

import pytest
from test_module import run

pytestmark = pytest.mark.skipif(
    "sim_cuda" not in os.environ.get("GPU_INTEROP_CUDA_LIBRARY", ""), reason="the simulator of CUDA is not set"
)


@pytest.mark.parametrize("code", [999, 802, 46])
def test_the_cpu_does_not_replace_a_failed_gpu_silently(code: int) -> None:
    text = run(
        """
import gpu_interop, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    device = gpu_interop.open()
[warning] = caught
assert warning.category is gpu_interop.BackendFailedWarning
assert device.backend == "host" and dict(device.passed_over)["cuda"] in str(warning.message)
print(dict(device.passed_over)["cuda"])
try:
    gpu_interop.open(backend="cuda")
except gpu_interop.Error as error:
    assert "cuInit" in error.operation, error
""",
        GPU_INTEROP_SIM_FAIL=f"cuInit:1+:{code}",
    )
    assert "cuInit" in text and str(code) in text


def test_a_gpu_that_is_absent_is_no_warning() -> None:
    run(
        """
import gpu_interop, warnings
warnings.simplefilter("error")
assert gpu_interop.open().backend == "host"
""",
        GPU_INTEROP_SIM_FAIL="cuInit:1+:100",
    )


#: A driver of NVIDIA's answers 3 in a process forked from one that used it.
FORKED = "cuInit:2+:3"

CHILD = """
import os, sys
import gpu_interop
from gpu_interop import vulkan
def child(uses):
    number = os.fork()
    if number == 0:
        for name, use in uses.items():
            try:
                print(name, use(), flush=True)
            except gpu_interop.System as error:
                text = str(error)
                assert "fork" in text and ("spawn" in text or name not in entries), (name, text)
                continue
            except BaseException as error:
                print(name, type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(number, 0)[1] == 0
entries = {
    "devices": gpu_interop.devices,
    "open": gpu_interop.open,
    "backend": lambda: gpu_interop.open(backend="cuda"),
    "uuid": lambda: gpu_interop.open(uuid="GPU-01234567-0123-0123-0123-0123456789ab"),
}
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_child_of_a_process_that_listed_devices_gets_an_error() -> None:
    run(CHILD + "assert gpu_interop.devices()[0].backend == 'cuda'\nchild(entries)", GPU_INTEROP_SIM_FAIL=FORKED)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_child_of_a_process_that_opened_a_device_gets_an_error() -> None:
    run(
        CHILD
        + """
context = vulkan.Context()
device = gpu_interop.open(matching=context)
stream, memory, buffer = device.stream(), device.allocate(4096), context.buffer(4096)
export = buffer.export()
child({
    **entries,
    "synchronize": stream.synchronize,
    "fill": lambda: stream.fill(memory, 1),
    "allocate": lambda: device.allocate(4096),
    "stream": device.stream,
    "import": lambda: device.import_memory(export),
    "tensor": lambda: device.import_memory(export).tensor(4, "uint8").ptr,
})
# The parent's objects still work.
stream.fill(memory, 7)
assert set(stream.read(memory)) == {7}
""",
        GPU_INTEROP_SIM_FAIL=FORKED,
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_auto_is_not_the_cpu_in_the_child() -> None:
    run(
        CHILD + "gpu_interop.backends()\nchild({'open': gpu_interop.open, 'devices': gpu_interop.devices})",
        GPU_INTEROP_SIM_FAIL=FORKED,
    )


def test_the_driver_never_sees_a_stream_of_another_gpu() -> None:
    run("""
import ctypes, os
import gpu_interop
driver = ctypes.CDLL(os.environ["GPU_INTEROP_CUDA_LIBRARY"])
driver.sim_calls.restype = ctypes.c_uint64
device = gpu_interop.open(backend="cuda")
own, timeline = device.stream(), device.timeline(1)
class Stream:
    def __init__(self, number):
        self.cuda_stream, self.device_index = own.ptr, number
def calls_in(use):
    driver.sim_fail(None)
    use()
    return [driver.sim_calls(name) for name in (b"cuStreamGetCaptureInfo_v2", b"*")]
def refused():
    try:
        timeline.wait(Stream(device.ordinal + 1), 1)
    except gpu_interop.DeviceMismatch:
        return
    raise AssertionError("the stream was taken")
[checks, _] = calls_in(lambda: timeline.wait(Stream(device.ordinal), 1))
assert checks == 1, checks
assert calls_in(refused) == [0, 0]
own.synchronize(10)
""")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_working_backend_is_listed_beside_one_that_fails_in_this_process() -> None:
    # The simulator of HIP lies beside that of CUDA.
    hip = os.environ["GPU_INTEROP_CUDA_LIBRARY"].replace("sim_cuda", "sim_hip")
    if not os.path.exists(hip):
        pytest.skip("the simulator of HIP is not built")
    listing = """
import gpu_interop, warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    print([device.backend for device in gpu_interop.devices()], [str(warning.message) for warning in caught])
"""
    text = run(listing, GPU_INTEROP_SIM_FAIL="cuInit:1+:3", GPU_INTEROP_HIP_LIBRARY=hip)
    assert text.startswith("['hip', 'host'] ['the cuda backend is not used, because its driver failed"), text
    # The CPU does not stand for a GPU.
    with pytest.raises(AssertionError, match="gpu_interop.*System"):
        run(listing, GPU_INTEROP_SIM_FAIL="cuInit:1+:3", GPU_INTEROP_HIP_LIBRARY="/absent")
