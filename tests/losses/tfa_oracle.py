"""tensorflow_addons, imported without the notice of its end of development that it prints as a warning."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_addons as tfa

__all__ = ["tfa"]
