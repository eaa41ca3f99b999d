"""Driver calls in `logging`."""

from __future__ import annotations

from test_array import cuda as cuda  # noqa: PLC0414
from test_log import COLLECT
from test_module import run


def test_driver_calls_are_records() -> None:
    run(f"""{COLLECT}
device = gpu_interop.open(backend="cuda")
memory, stream = device.allocate(4096), device.stream()
log.enable(log.TRACE)
stream.fill(memory, 7)
stream.synchronize()
found = [record for record in messages() if record.name == "gpu_interop.driver_call"]
texts = [record.getMessage() for record in found]
assert all(record.levelno == 5 for record in found)
assert any("calls" in text and "cuMemsetD8" in text for text in texts), texts
assert any("returned" in text and "nanoseconds=" in text for text in texts), texts
log.disable()
stream.fill(memory, 7)
assert messages() == []
""")


def test_a_full_queue_counts_what_it_loses() -> None:
    run(f"""{COLLECT}
device = gpu_interop.open(backend="cuda")
memory, stream = device.allocate(4096), device.stream()
stop = threading.Event()
class Blocks(logging.Handler):
    def emit(self, record):
        stop.wait(30)
blocks = Blocks()
logging.getLogger("gpu_interop").addHandler(blocks)
log.enable(log.TRACE)
calls = 12000
for _ in range(calls):
    stream.fill(memory, 7)
assert not log.flush(0)
stop.set()
[*found, last] = messages()
lost = int(last.getMessage().split()[0])
assert "messages were lost" in last.getMessage() and last.levelno == logging.WARNING
assert lost > 0 and len(found) + lost >= 2 * calls, (lost, len(found))
""")
