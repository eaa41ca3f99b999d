"""The library's messages in Python's ``logging``.

Off by default, and then without cost::

    import logging
    from gpu_interop import log

    logging.basicConfig()
    log.enable(logging.DEBUG)  # log.TRACE has every driver call, with arguments, result and duration

The loggers are ``gpu_interop`` and those below it, such as ``gpu_interop.core.object.stream`` and
``gpu_interop.driver_call``. A thread of its own calls their handlers, a moment later: :func:`flush` waits for it. A
handler may call this module, whose messages are then left out.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Sequence

from ._native import _flush_log, _set_log

#: Level of driver calls, below ``logging.DEBUG``.
TRACE = 5

_registered = False


def enable(level: int | str = logging.WARNING) -> None:
    """Pass messages of this level and above on, such as ``logging.INFO``, ``"INFO"`` or :data:`TRACE`.

    Errors and warnings are failures that no call raises, and objects of drivers that are leaked. The levels of the
    loggers apply, too. The program must have no other subscriber of Rust's ``tracing`` in this module.
    """
    global _registered
    if isinstance(level, str):
        level = TRACE if level == "TRACE" else logging.getLevelName(level)
    if not isinstance(level, int) or isinstance(level, bool):
        raise ValueError(f"not a level of logging: {level!r}")
    _set_log(max(1, min(level, 255)))
    if not _registered:
        _registered = True
        # Before the end of `logging`, which was imported earlier.
        atexit.register(flush)


def disable() -> None:
    """Pass nothing on. Messages so far are still delivered."""
    _set_log(0)


def flush(timeout: float = 1.0) -> bool:
    """Wait until the messages so far are delivered. False if that takes longer than ``timeout`` seconds."""
    return _flush_log(timeout)


def _logger(target: str) -> logging.Logger:
    # Modules of Rust: gpu_interop_core::object::stream.
    name = target.replace("::", ".")
    if name.startswith("gpu_interop_"):
        name = name.replace("gpu_interop_", "gpu_interop.", 1)
    return logging.getLogger(name if name.split(".")[0] == "gpu_interop" else f"gpu_interop.{name}")


def _deliver(messages: Sequence[tuple[int, str, str, float, str]], lost: int) -> None:
    for level, target, text, created, thread in messages:
        logger = _logger(target)
        if logger.isEnabledFor(level):
            _handle(logger, level, text, created, thread)
    if lost:
        logger = logging.getLogger("gpu_interop")
        if logger.isEnabledFor(logging.WARNING):
            text = f"{lost} messages were lost: the handlers are slower than the library"
            _handle(logger, logging.WARNING, text, time.time(), "")


def _handle(logger: logging.Logger, level: int, text: str, created: float, thread: str) -> None:
    # Not formatted again: the text may have percent signs.
    record = logger.makeRecord(logger.name, level, "", 0, text, (), None)
    record.created, record.msecs = created, int(created % 1 * 1000) + 0.0
    record.threadName = thread
    logger.handle(record)


logging.addLevelName(TRACE, "TRACE")

__all__ = ["TRACE", "disable", "enable", "flush"]
