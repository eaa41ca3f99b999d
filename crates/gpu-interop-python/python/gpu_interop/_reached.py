"""Values of timelines for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ._native import Timeline


def reached(timeline: Timeline, value: int) -> Awaitable[None]:
    """Return an awaitable that completes once the timeline has reached the value. Cancel it to stop waiting."""
    return _wait(timeline, value)


async def _wait(timeline: Timeline, value: int) -> None:
    if timeline.value >= value:
        return
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def notice(error: BaseException | None) -> None:
        # The loop may have been closed meanwhile.
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, error)

    ticket = timeline._watch(value, notice)
    try:
        await future
    finally:
        timeline._forget(ticket)
