import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.seeding import seed_kernels


def network(names=("a", "b"), initializer="glorot_uniform"):
    images = tf.keras.Input((8, 8, 3))
    x = images
    for name in names:
        x = tf.keras.layers.Conv2D(3, 3, padding="same", kernel_initializer=initializer, name=name)(x)
    return tf.keras.Model(images, x)


def kernels(model):
    return {layer.name: layer.kernel.numpy() for layer in model.layers if hasattr(layer, "kernel")}


def seeded(seed, **options):
    model = network(**options)
    seed_kernels(model, seed)
    return kernels(model)


def test_one_seed_gives_equal_bits_and_another_other_ones():
    first, second, other = seeded(7), seeded(7), seeded(8)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
        assert np.all(first[name] != other[name])


def test_layers_of_one_shape_differ():
    drawn = seeded(0)
    assert abs(np.corrcoef(drawn["a"].ravel(), drawn["b"].ravel())[0, 1]) < 0.5


def test_a_layer_does_not_depend_on_the_others():
    np.testing.assert_array_equal(seeded(3)["b"], seeded(3, names=("x", "b", "y"))["b"])


def test_the_global_generator_does_not_matter():
    tf.random.set_seed(1)
    first = seeded(3)
    tf.random.set_seed(2)
    np.testing.assert_array_equal(first["a"], seeded(3)["a"])


@pytest.mark.parametrize("stddev", [0.01, 1.0])
def test_the_layers_own_distribution_is_kept(stddev):
    initializer = {"class_name": "RandomNormal", "config": {"stddev": stddev}}
    drawn = seeded(0, names=[str(i) for i in range(4)], initializer=initializer)
    assert np.std(list(drawn.values())) == pytest.approx(stddev, rel=0.15)


def test_nested_models_and_bare_layers_are_entered():
    inner = network()
    images = tf.keras.Input((8, 8, 3))
    seed_kernels(tf.keras.Model(images, inner(images)), 5)
    np.testing.assert_array_equal(kernels(inner)["a"], seeded(5)["a"])
    layer = tf.keras.layers.Conv2D(3, 3, name="a")
    layer.build((None, 8, 8, 3))
    seed_kernels(layer, 5)
    np.testing.assert_array_equal(layer.kernel, seeded(5)["a"])


@pytest.mark.parametrize("layer_type", [tf.keras.layers.SeparableConv2D, tf.keras.layers.DepthwiseConv2D])
def test_layers_that_convolve_by_depth(layer_type):
    def drawn(seed):
        options = {"filters": 9} if layer_type is tf.keras.layers.SeparableConv2D else {}
        layer = layer_type(kernel_size=1, depth_multiplier=3, name="a", **options)
        layer.build((None, 8, 8, 3))
        seed_kernels(layer, seed)
        return [value.ravel() for value in layer.get_weights()[:-1]]

    first, again, other = drawn(0), drawn(0), drawn(1)
    for left, same, different in zip(first, again, other):
        np.testing.assert_array_equal(left, same)
        assert np.all(left != different)
    if len(first) == 2:
        assert len(np.intersect1d(first[0], first[1])) == 0


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_bad_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"`seed` must be a whole number >= 0, got"):
        seed_kernels(network(), seed)
