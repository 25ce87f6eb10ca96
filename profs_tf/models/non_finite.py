"""What a training step watches for values that are infinite or not a number."""

# In the order in which a step computes them.
TERMS = ("embeddings", "loss", "proximal_penalty")


class NonFiniteLossError(ArithmeticError):
    """Embeddings, loss or proximal penalty are infinite or not a number."""

    def __init__(self, term: str, step: int):
        """Names one of `TERMS` and the first step, counted from 0, that had or would have it."""
        super().__init__(
            f"`{term}` is not finite since step {step}. Training stopped; earlier checkpoints are untouched. "
            "Lower the learning rate, or look at the batches of that step and the one before."
        )
