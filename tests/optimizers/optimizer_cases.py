"""Variables, gradients and Adam written out in NumPy, for the tests of the optimizer."""

import numpy as np
import tensorflow as tf

from profs_tf.optimizers.head_adam import HeadAdam

BETA_1, BETA_2, EPSILON = 0.9, 0.99, 1e-7
# Powers of two: products of rates and multipliers are then exact, so that equal means equal in every bit.
RATE = 2.0**-7


def variables(seed=0):
    rng = np.random.default_rng(seed)
    return [
        tf.Variable(rng.normal(size=(3, 2)).astype("f"), name="a"),
        tf.Variable(rng.normal(size=(4,)).astype("f"), name="b"),
        tf.Variable(np.float32(1.2), name="c"),
    ]


def gradients(steps, seed=1):
    rng = np.random.default_rng(seed)
    return [[rng.normal(size=shape).astype("f") for shape in ((3, 2), (4,), ())] for _ in range(steps)]


def values(trained):
    return [variable.numpy() for variable in trained]


def step(optimizer, grads, trained):
    optimizer.apply_gradients(zip([tf.constant(grad) for grad in grads], trained))


def train(optimizer, steps=10, trained=None):
    trained = variables() if trained is None else trained
    for grads in gradients(steps):
        step(optimizer, grads, trained)
    return values(trained)


def with_multipliers(multipliers, **options):
    """A HeadAdam, variables, and the multiplier set for each that is given one."""
    optimizer = HeadAdam(RATE, beta_2=BETA_2, **options)
    trained = variables()
    for variable, multiplier in zip(trained, multipliers):
        if multiplier is not None:
            optimizer.set_multiplier([variable], multiplier)
    return optimizer, trained


def numpy_adam(start, grads, rates):
    """Adam of Kingma and Ba, in the form before their section 2.1, in float64, with a rate for each step."""
    value, m, v = np.float64(start), 0.0, 0.0
    for t, (grad, rate) in enumerate(zip(grads, rates), start=1):
        m = BETA_1 * m + (1 - BETA_1) * np.float64(grad)
        v = BETA_2 * v + (1 - BETA_2) * np.float64(grad) ** 2
        alpha = rate * np.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
        value = value - alpha * m / (np.sqrt(v) + EPSILON)
    return value


def assert_numpy(trained, rates, steps=10):
    """``rates[i][t]``: the learning rate of variable i at step t."""
    grads = gradients(steps)
    for i, (got, start) in enumerate(zip(trained, values(variables()))):
        want = numpy_adam(start, [grads[t][i] for t in range(steps)], rates[i])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def assert_equal(got, want):
    for left, right in zip(got, want):
        np.testing.assert_array_equal(left, right)


def embedder(head="head"):
    images = tf.keras.Input((5,))
    # All ones: no gradient of a sum of outputs is near zero, where a step could turn its sign.
    x = tf.keras.layers.Dense(4, kernel_initializer="ones", name="body")(images)
    return tf.keras.Model(images, tf.keras.layers.Dense(3, kernel_initializer="ones", name=head)(x))


def small_output_sum(labels, outputs):
    """Small enough for Keras's first loss scale, 32,768, to overflow nothing in half precision."""
    return tf.reduce_sum(outputs, -1) / 100
