import numpy as np
import pytest

from profs_tf.metrics.exact import matmul as products


def test_small_work_is_numpys_and_large_work_tensorflows():
    with products.open_product("auto", 1e6) as product:
        assert isinstance(product, products.NumpyProduct)
    with products.open_product("auto", 1e13) as product:
        assert isinstance(product, products.TensorFlowProduct)


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
def test_multiplies_rows(backend):
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((n, 70)).astype(np.float32) for n in (33, 65))
    with products.open_product(backend, 0) as product:
        result = product(product.prepare(left), product.prepare(right))
        # Results outlive what they were made of.
        others = [product(product.prepare(left + i), product.prepare(right)) for i in range(20)]
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, left.astype(np.float64) @ right.T, atol=1e-4)
    np.testing.assert_allclose(others[7], (left.astype(np.float64) + 7) @ right.T, atol=1e-3)


@pytest.mark.parametrize("reduced", [True, False])
def test_keeps_off_reduced_precision_and_puts_it_back(reduced):
    import tensorflow as tf

    config = tf.config.experimental
    before = config.tensor_float_32_execution_enabled()
    config.enable_tensor_float_32_execution(reduced)
    try:
        with products.open_product("tensorflow", 0):
            assert not config.tensor_float_32_execution_enabled()
        assert config.tensor_float_32_execution_enabled() == reduced
    finally:
        config.enable_tensor_float_32_execution(before)
