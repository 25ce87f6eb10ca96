"""Quotes errors that another library raised."""


def first_line(error: Exception) -> str:
    """Returns the error's type and the first line of its message; TensorFlow appends its graph."""
    text = str(getattr(error, "message", None) or error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
