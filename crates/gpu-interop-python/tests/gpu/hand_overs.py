"""Hand-overs from a late producer to torch, their negative control, and drops while work is pending."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any

import gpu_interop
from common import Machine, Result, require, resident
from gpu_interop import vulkan

HAND_OVERS = int(os.environ.get("HAND_OVERS", "10000"))
WORDS = 16_384


class Unordered:
    """The tensor, without the wait of the hand-over: the negative control."""

    def __init__(self, tensor: gpu_interop.Tensor) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, **arguments: Any) -> Any:
        return self.tensor.__dlpack__(stream=-1, **arguments)


class HandOvers:
    """Vulkan writes a number late, and a stream of torch that is not the default one counts the words that differ."""

    def __init__(self, machine: Machine, waits: bool) -> None:
        import torch

        try:
            self.context = vulkan.Context(machine.context.identity, queue="transfer")
        except gpu_interop.Error:
            self.context = machine.context
        self.torch = torch
        self.buffer, self.memory = machine.shared(WORDS * 4, self.context)
        self.drawn = self.context.timeline(machine.device)
        self.learnt = self.context.timeline(machine.device)
        self.ours = machine.device.stream()
        tensor = self.memory.tensor((WORDS,), "int32", stream=self.ours)
        self.source: Any = tensor if waits else Unordered(tensor)
        self.stream = torch.cuda.Stream(machine.ordinal)
        self.stale = torch.zeros((), dtype=torch.int64, device=torch.device("cuda", machine.ordinal))
        self.turn = 0
        torch.cuda.synchronize()
        # The driver loads kernels at their first call, which would wait for the pending waits of streams.
        with torch.cuda.stream(self.stream):
            for turn in range(3):
                other = torch.from_dlpack(machine.device.allocate(WORDS * 4).tensor((WORDS,), "int32"))
                self.stale.add_(torch.count_nonzero(other != turn))
                # The memory must not be freed before.
                self.stream.synchronize()
            self.stale.zero_()
        self.stream.synchronize()

    def draw(self, turn: int) -> None:
        drawing = self.context.record().acquire(self.buffer).fill(self.buffer, turn).release(self.buffer)
        drawing.submit(wait=[(self.learnt, turn - 1)], signal=[(self.drawn, turn)])

    def run(self, count: int, late: bool = True) -> None:
        torch = self.torch
        for _ in range(count):
            self.turn += 1
            turn = self.turn
            if not late:
                self.draw(turn)
            self.drawn.wait(self.ours, turn)
            with torch.cuda.stream(self.stream):
                view = torch.from_dlpack(self.source)
                self.stale.add_(torch.count_nonzero(view != turn))
            self.learnt.signal(self.stream, turn)
            if late:
                # Only now does Vulkan draw: everything above is enqueued already.
                self.draw(turn)
            if turn % 50 == 0:
                # By Vulkan: CUDA rejects waits for streams while another thread captures in the mode "global".
                self.learnt.host_wait(turn, 60)
        self.learnt.host_wait(self.turn, 60)

    def stale_words(self) -> int:
        return int(self.stale.item())


def hand_overs(machine: Machine) -> Result:
    ordered = HandOvers(machine, waits=True)
    ordered.run(500)
    gc.collect()
    before, start = resident(), time.perf_counter()
    ordered.run(HAND_OVERS)
    seconds = time.perf_counter() - start
    gc.collect()
    growth = resident() - before
    control = HandOvers(machine, waits=False)
    control.run(200)
    result: Result = {
        "hand-overs": ordered.turn,
        "words": ordered.turn * WORDS,
        "stale words": ordered.stale_words(),
        "stale words without the wait": control.stale_words(),
        "us each": round(seconds / HAND_OVERS * 1e6, 1),
        "strategy": ordered.drawn.strategy,
        "resident growth KiB": growth >> 10,
    }
    sound = result["stale words"] == 0 and result["stale words without the wait"] > 0
    return require(sound and growth < 4 << 20, result)


class Captures:
    """Captures and replays graphs of torch, on a thread."""

    def __init__(self, machine: Machine, mode: str) -> None:
        import torch

        self.torch, self.mode, self.ordinal = torch, mode, machine.ordinal
        self.graphs, self.wrong, self.error = 0, 0, ""
        self.last: object = None
        self.stop = threading.Event()
        with torch.cuda.device(self.ordinal):
            self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
            self.source = torch.ones(1024, device="cuda")
            # Loads the kernels, which a capture must not do.
            with torch.cuda.stream(self.stream):
                int((self.source * 2 + 1 != 3.0).any().item())
            torch.cuda.synchronize()
            # Fills the pool.
            for _ in range(3):
                self.once()
        self.thread = threading.Thread(target=self.loop)

    def once(self) -> None:
        torch = self.torch
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            graph.capture_begin(pool=self.pool, capture_error_mode=self.mode)
            value = self.source
            for _ in range(20):
                value = value * 2 + 1
                time.sleep(0.0002)
            graph.capture_end()
            graph.replay()
            wrong = (value != 2.0**21 - 1).any()
            self.wrong += int(wrong.item())
        # Torch frees the pool with its last graph, so the one before lives until here.
        self.last = graph
        self.graphs += 1

    def loop(self) -> None:
        try:
            with self.torch.cuda.device(self.ordinal):
                while not self.stop.is_set():
                    self.once()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"


def hand_overs_beside_captures(machine: Machine, mode: str, late: bool = True) -> Result:
    """The same, while another thread captures and replays graphs of torch."""
    captures = Captures(machine, mode)
    ordered = HandOvers(machine, waits=True)
    ordered.run(200)
    captures.thread.start()
    error = ""
    try:
        ordered.run(HAND_OVERS, late)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    finally:
        captures.stop.set()
        captures.thread.join(60)
    result: Result = {
        "hand-overs": ordered.turn,
        "stale words": ordered.stale_words() if not error else None,
        "graphs": captures.graphs,
        "wrong graphs": captures.wrong,
        "errors": [error, captures.error],
    }
    sound = result["stale words"] == 0 and not error and not captures.error
    return require(sound and captures.graphs > 3 and captures.wrong == 0, result)


def dropped_while_pending(machine: Machine) -> Result:
    """The tensor, its memory and torch's view are deleted while a kernel that reads it is pending."""
    import torch

    stream = torch.cuda.Stream(machine.ordinal)
    sums = []
    for turn in range(20):
        buffer, memory = machine.shared(WORDS * 4)
        machine.context.acquire(buffer)
        machine.context.fill(buffer, turn)
        machine.context.release(buffer)
        tensor = memory.tensor((WORDS,), "int32")
        with torch.cuda.stream(stream):
            view = torch.from_dlpack(tensor)
            torch.cuda._sleep(20_000_000)
            sums.append(view.sum())
        del view, tensor, memory
        gc.collect()
    stream.synchronize()
    wrong = sum(int(value.item()) != turn * WORDS for turn, value in enumerate(sums))
    return require(wrong == 0, {"rounds": len(sums), "wrong": wrong})
