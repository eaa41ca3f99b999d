"""Checks of the module on a GPU with torch, CuPy and JAX. Prints a table and writes python.json.

    pip install --no-deps gpu_interop-*.whl && GPU_INTEROP_REPORT_FOLDER=folder python check.py [--release] [part ...]

With ``--release``, a wheel without optimisation is refused: its times are no measurements.

Each part runs in a process of its own: one that fails, crashes or hangs is reported, and the others go on. A library
that is not installed fails its parts. The exit status is the number of failed parts.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

# JAX would take most of the GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

# The consumer of DLPack's C exchange API.
sys.path.append(str(Path(__file__).resolve().parents[1]))

import arrays  # noqa: E402
import gpu_interop  # noqa: E402
import hand_overs  # noqa: E402
import numpy  # noqa: E402
from common import Failed, Machine, Result, require  # noqa: E402
from gpu_interop._native import _optimised  # noqa: E402
from page import UNOPTIMISED  # noqa: E402

#: Longest time of a part, seconds.
TIMEOUT = 120
MARK = "result of the part: "
EXAMPLES = Path(os.environ.get("EXAMPLES", Path(__file__).resolve().parents[2] / "examples"))


# Sharing ------------------------------------------------------------------------------------------------------------

#: Shape, strides in elements, offset in elements.
VIEWS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, int]] = {
    "whole": ((64, 64), None, 0),
    "offset": ((32, 64), None, 256),
    "sliced": ((32, 32), (128, 2), 64),
}


def share(machine: Machine, views: list[str], use: Callable[[gpu_interop.Tensor], tuple[int, Any]]) -> Result:
    """Vulkan writes, `use` returns the address and the content and adds 1 in place, Vulkan reads."""
    cases = []
    for dtype in ("float16", "float32", "uint8"):
        for name in views:
            shape, strides, offset = VIEWS[name]
            values = (numpy.arange(64 * 64) % 100).astype(dtype)
            buffer, memory = machine.shared(values.nbytes)
            machine.context.acquire(buffer)
            machine.context.upload(buffer, values)
            machine.context.release(buffer)
            size = values.itemsize
            tensor = memory.tensor(shape, dtype, strides, offset * size)
            expected = values.copy()
            steps = None if strides is None else [stride * size for stride in strides]
            window = numpy.lib.stride_tricks.as_strided(expected[offset:], shape, steps or (shape[1] * size, size))
            address, seen = use(tensor)
            case = f"{dtype} {name}"
            if address != tensor.ptr or tensor.ptr != memory.ptr + offset * size:
                raise Failed({"case": case, "address": address, "ours": tensor.ptr})
            if not numpy.array_equal(seen, window):
                raise Failed({"case": case, "wrong elements": int((seen != window).sum())})
            window += 1
            machine.context.acquire(buffer)
            back = numpy.frombuffer(machine.context.download(buffer, values.nbytes), dtype)
            if not numpy.array_equal(back, expected):
                raise Failed({"case": f"{case}, back", "wrong elements": int((back != expected).sum())})
            cases.append(case)
    return {"cases": len(cases), "addresses": "equal"}


def share_torch(machine: Machine) -> Result:
    import torch

    def use(tensor: gpu_interop.Tensor) -> tuple[int, Any]:
        view = torch.from_dlpack(tensor)
        seen = view.cpu().numpy()
        view.add_(1)
        torch.cuda.synchronize()
        return view.data_ptr(), seen

    result = share(machine, list(VIEWS), use)
    # The CUDA array interface is the other way in.
    memory = machine.device.allocate(4096)
    tensor = memory.tensor((1024,), "float32")
    view = torch.as_tensor(tensor, device=torch.device("cuda", machine.ordinal))
    view.fill_(3)
    torch.cuda.synchronize()
    seen = numpy.frombuffer(machine.device.stream().read(tensor), "float32")
    return require(view.data_ptr() == tensor.ptr and bool((seen == 3).all()), {**result, "array interface": "equal"})


def share_cupy(machine: Machine) -> Result:
    import cupy

    def use(tensor: gpu_interop.Tensor) -> tuple[int, Any]:
        view = cupy.from_dlpack(tensor)
        seen = cupy.asnumpy(view)
        view += 1
        cupy.cuda.Device().synchronize()
        return int(view.data.ptr), seen

    with cupy.cuda.Device(machine.ordinal):
        return share(machine, list(VIEWS), use)


def share_jax(machine: Machine) -> Result:
    import jax

    def write_back(tensor: gpu_interop.Tensor, added: Any) -> None:
        """A copy on the GPU by CuPy or torch: arrays of JAX are immutable."""
        try:
            import cupy

            cupy.from_dlpack(tensor)[...] = cupy.from_dlpack(added)
            cupy.cuda.Device().synchronize()
        except ImportError:
            import torch

            torch.from_dlpack(tensor).copy_(torch.from_dlpack(added))
            torch.cuda.synchronize()

    def use(tensor: gpu_interop.Tensor) -> tuple[int, Any]:
        view = jax.dlpack.from_dlpack(tensor)
        seen = numpy.asarray(view)
        added = jax.block_until_ready(view + 1)
        address = int(view.unsafe_buffer_pointer())
        write_back(tensor, added)
        return address, seen

    # JAX has no strided arrays.
    return share(machine, ["whole", "offset"], use)


def export_to_vulkan(machine: Machine) -> Result:
    """Memory of this library that torch writes, used by Vulkan as a buffer."""
    import torch

    memory = machine.device.allocate(1 << 21)
    buffer = machine.context.import_buffer(memory.export())
    view = torch.from_dlpack(memory.tensor((1 << 19,), "int32"))
    view.copy_(torch.arange(1 << 19, dtype=torch.int32))
    torch.cuda.synchronize()
    machine.context.acquire(buffer)
    seen = numpy.frombuffer(machine.context.download(buffer, 1 << 21), "int32")
    return require(bool((seen == numpy.arange(1 << 19)).all()), {"bytes": 1 << 21})


# Cost ---------------------------------------------------------------------------------------------------------------


def median_us(call: Callable[[], object], count: int = 5000) -> float:
    times = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def cost(machine: Machine) -> Result:
    import torch

    timeline, stream = machine.context.timeline(machine.device), torch.cuda.Stream(machine.ordinal)
    timeline.host_signal(1)
    # Few enough for the stream's queue, so that the calls do not wait for the GPU.
    count, value = 200, 1
    python, rust = [], []
    for _ in range(30):
        rust.append(timeline._cost(stream, value, count) / count)
        value += count
        timeline.host_wait(value, 60)
        stream.synchronize()
        start = time.perf_counter()
        for turn in range(value, value + count):
            timeline.wait(stream, turn)
            timeline.signal(stream, turn + 1)
        python.append((time.perf_counter() - start) / count)
        value += count
        timeline.host_wait(value, 60)
        stream.synchronize()
    memory = machine.device.allocate(4096)
    plain, ordered = (
        memory.tensor((1024,), "float32"),
        memory.tensor((1024,), "float32", stream=machine.device.stream()),
    )
    with torch.cuda.stream(stream):
        result: Result = {
            "wait and signal, Python us": round(statistics.median(python) * 1e6, 2),
            "wait and signal, Rust us": round(statistics.median(rust) * 1e6, 2),
            "from_dlpack us": round(median_us(lambda: torch.from_dlpack(plain)), 2),
            "from_dlpack with a wait us": round(median_us(lambda: torch.from_dlpack(ordered)), 2),
            "tensor us": round(median_us(lambda: memory.tensor((1024,), "float32")), 2),
            "strategy": timeline.strategy,
        }
    above = result["wait and signal, Python us"] - result["wait and signal, Rust us"]
    result["Python above Rust us"] = round(above, 2)
    return require(
        above <= 10 and result["from_dlpack us"] <= 20 and result["from_dlpack with a wait us"] <= 20, result
    )


# Examples -----------------------------------------------------------------------------------------------------------


def example(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise Failed({"example": name, "output": (done.stdout + done.stderr)[-1500:]})
    return done.stdout.strip()


def render_to_torch(machine: Machine) -> Result:
    out = os.environ.get("GPU_INTEROP_REPORT_FOLDER", ".")
    texts = {
        "shared": example("render_to_torch.py", "--plot", os.path.join(out, "loss.png")),
        "through the CPU": example("render_to_torch.py", "--through-cpu", "--plot", os.path.join(out, "loss_cpu.png")),
    }
    rates = {name: float(text.split(" steps/s")[0].split()[-1]) for name, text in texts.items()}
    losses = {
        name: [float(x) for x in re.findall(r"loss ([\d.e+-]+) to ([\d.e+-]+)", text)[0]]
        for name, text in texts.items()
    }
    ratio = rates["shared"] / rates["through the CPU"]
    result: Result = {"ratio": round(ratio, 1), "steps/s": rates, "losses": losses}
    return require(ratio >= 10 and losses["shared"][1] < losses["shared"][0] / 4, result)


PARTS: dict[str, Callable[[Machine], Result]] = {
    "torch": share_torch,
    "cupy": share_cupy,
    "jax": share_jax,
    "export to Vulkan": export_to_vulkan,
    **arrays.PARTS,
    "hand-overs": hand_overs.hand_overs,
    "captures": lambda machine: hand_overs.hand_overs_beside_captures(machine, "global"),
    "captures, thread": lambda machine: hand_overs.hand_overs_beside_captures(machine, "thread_local"),
    "captures, early": lambda machine: hand_overs.hand_overs_beside_captures(machine, "global", late=False),
    "dropped": hand_overs.dropped_while_pending,
    "cost": cost,
    "render_to_torch": render_to_torch,
    "cupy_filter": lambda machine: {"output": example("cupy_filter.py")},
    "jax_reads": lambda machine: {"output": example("jax_reads.py")},
}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "gpu_interop": gpu_interop.__version__}
    for name in ("numpy", "torch", "cupy", "jax", "warp"):
        try:
            found[name] = __import__(name).__version__
        except Exception as error:
            found[name] = f"not usable: {error}"
    return found


def run_part(name: str) -> Result:
    """One part, in this process."""
    try:
        return {"passed": True, **PARTS[name](Machine())}
    except Failed as failure:
        return {"passed": False, **failure.args[0]}
    except Exception as error:
        trace = traceback.format_exc()[-2000:]
        return {"passed": False, "error": f"{type(error).__name__}: {error}", "trace": trace}


def part_in_a_process(name: str) -> Result:
    """One part in a process of its own: a crash or a hang ends that part only."""
    command = [sys.executable, os.path.abspath(__file__), "--part", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"passed": False, "error": f"not finished after {TIMEOUT} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        return {"passed": False, "error": f"ended with status {done.returncode}", "trace": done.stderr[-2000:]}
    result: Result = json.loads(lines[-1][len(MARK) :])
    return result


def main() -> int:
    if sys.argv[1:2] == ["--part"]:
        result = run_part(sys.argv[2])
        print(MARK + json.dumps(result), flush=True)
        # Libraries that hang at exit do not matter here.
        os._exit(0)
    arguments = sys.argv[1:]
    if "--release" in arguments:
        arguments.remove("--release")
        if not _optimised:
            print(UNOPTIMISED, file=sys.stderr)
            return 2
    machine = Machine()
    report: dict[str, Any] = {
        "optimised": _optimised,
        "versions": versions(),
        "device": str(machine.device),
        "vulkan": machine.context.driver,
    }
    report["parts"] = {}
    print(report["device"], report["vulkan"], report["versions"], sep="\n", flush=True)
    chosen = arguments or list(PARTS)
    for name in chosen:
        start = time.perf_counter()
        part = part_in_a_process(name)
        part["seconds"] = round(time.perf_counter() - start, 1)
        report["parts"][name] = part
        shown = {key: value for key, value in part.items() if key not in {"passed", "trace"}}
        print(f"{'passed' if part['passed'] else 'FAILED':<8}{name:<18}{json.dumps(shown)}", flush=True)
        if "trace" in part:
            print(part["trace"], flush=True)
        # Written after each part, so that a crash leaves the parts before it.
        with open(os.path.join(os.environ.get("GPU_INTEROP_REPORT_FOLDER", "."), "python.json"), "w") as file:
            json.dump(report, file, indent=2)
    failed = [name for name in chosen if not report["parts"][name]["passed"]]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} parts passed", f"failed: {failed}" if failed else "", sep="; ")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
