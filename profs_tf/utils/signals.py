"""Signal handlers that are in force for a while."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Optional


@contextlib.contextmanager
def handling(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, Optional[FrameType]], None]
) -> Iterator[None]:
    """Within it the handler answers the signals.

    Python lets only the main thread of a process set handlers: in another thread nothing changes, and signals
    do what the process had arranged.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
