"""Standard output whose reader may go away, such as head, or tee after Ctrl-C."""

import os
import select
import stat
import sys


def is_closed() -> bool:
    """Returns whether the reader of standard output has closed it."""
    try:
        poll = select.poll()
        poll.register(sys.stdout, select.POLLOUT)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, TypeError, ValueError):
        # There is none, or it is no file.
        return False


def is_pipe() -> bool:
    """Returns whether a process reads standard output."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def drop() -> None:
    """Drops all further output, and what is in the buffer, which would raise again when Python ends."""
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), sys.stdout.fileno())
