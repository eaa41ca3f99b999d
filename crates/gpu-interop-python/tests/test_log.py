"""The bridge to `logging`: off by default, complete, and never a deadlock."""

from __future__ import annotations

import pytest
from test_module import run

COLLECT = """
import gc, logging, threading, time
import gpu_interop
from gpu_interop import log
class Collect(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []
    def emit(self, record):
        self.records.append(record)
collected = Collect()
logging.getLogger("gpu_interop").addHandler(collected)
logging.getLogger("gpu_interop").setLevel(1)
logging.raiseExceptions = True
def messages():
    assert log.flush(10)
    found, collected.records = collected.records, []
    return found
"""

#: Opens a device, whose selection is logged with DEBUG.
OPEN = "gpu_interop.open()\n"


def test_nothing_is_passed_on_before() -> None:
    run(COLLECT + OPEN + "assert messages() == [] and log.flush(0)")


@pytest.mark.parametrize(
    ("level", "some"), [("logging.DEBUG", True), ("'DEBUG'", True), ("log.TRACE", True), ("21", False)]
)
def test_events_are_records_of_a_logger(level: str, some: bool) -> None:
    run(f"""{COLLECT}
log.enable({level})
{OPEN}
found = messages()
assert bool(found) is {some}, found
for record in found:
    assert record.name.startswith("gpu_interop") and "::" not in record.name, record.name
    assert record.levelno in (5, 10) and record.getMessage() and abs(record.created - time.time()) < 60
    assert record.levelname in ("TRACE", "DEBUG")
log.disable()
{OPEN}
assert messages() == []
log.enable("DEBUG")
{OPEN}
assert bool(messages())
logging.getLogger("gpu_interop").setLevel(logging.WARNING)
{OPEN}
assert messages() == []
""")


@pytest.mark.parametrize("level", ["'LOUD'", "1.5", "None", "True"])
def test_wrong_levels(level: str) -> None:
    run(f"""{COLLECT}
try:
    log.enable({level})
except ValueError as error:
    assert "level" in str(error)
else:
    raise SystemExit("accepted")
{OPEN}
assert messages() == []
""")


def test_handlers_may_block_fail_and_call_the_library() -> None:
    # The handler needs a lock that the main thread holds while it calls the library, which logs.
    run(f"""{COLLECT}
import sys
lock, seen = threading.Lock(), []
class Locks(logging.Handler):
    def handle(self, record):
        with lock:
            gpu_interop.open(backend="host").allocate(64)
            seen.append(record)
            assert not log.flush(5), "a handler would wait for itself"
        raise ZeroDivisionError
unraisable = []
sys.unraisablehook = lambda hook: unraisable.append(hook.exc_type)
logging.getLogger("gpu_interop").addHandler(Locks())
log.enable(log.TRACE)
with lock:
    for _ in range(50):
        {OPEN}
assert log.flush(10) and seen and set(unraisable) == {{ZeroDivisionError}}, (seen, unraisable)
""")


def test_many_threads_do_not_wait_for_a_slow_handler() -> None:
    run(f"""{COLLECT}
stop = threading.Event()
class Slow(logging.Handler):
    def emit(self, record):
        stop.wait(30)
slow = Slow()
logging.getLogger("gpu_interop").addHandler(slow)
log.enable(log.TRACE)
{OPEN}
deadline = time.monotonic() + 20
def work():
    for _ in range(50):
        gpu_interop.open()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert time.monotonic() < deadline and not log.flush(0.05)
stop.set()
found = messages()
assert len(found) >= 200, len(found)
""")


def test_the_exit_delivers_and_does_not_wait_for_ever() -> None:
    text = run(f"""{COLLECT}
class Print(logging.Handler):
    def emit(self, record):
        print("late", flush=True)
logging.getLogger("gpu_interop").addHandler(Print())
log.enable("DEBUG")
{OPEN}
""")
    assert "late" in text
    run(f"""{COLLECT}
class Never(logging.Handler):
    def emit(self, record):
        threading.Event().wait(30)
logging.getLogger("gpu_interop").addHandler(Never())
log.enable("DEBUG")
{OPEN}
""")


def test_a_forked_process_logs_nothing() -> None:
    run(f"""{COLLECT}
import os
log.enable("DEBUG")
{OPEN}
messages()
child = os.fork()
if child == 0:
    {OPEN}
    assert not log.flush(0.1) and collected.records == []
    try:
        log.enable("DEBUG")
    except gpu_interop.System as error:
        assert "fork" in str(error)
    else:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
{OPEN}
assert messages()
""")
