"""How tests start several workers on one machine."""

import json
import socket


def tf_configs(count):
    """Returns the TF_CONFIG of each of so many workers, on ports that are free."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    workers = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
        for index in range(count)
    ]
