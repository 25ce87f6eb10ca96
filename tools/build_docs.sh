#!/usr/bin/env bash
# Builds the API reference of the public names, build/api/index.html, with warnings as errors. It needs the extra "docs";
# an argument names another folder.
set -eu
cd "$(dirname "$0")/.."
# pdoc cannot resolve the annotations of a NamedTuple's constructor.
python -W error::UserWarning \
  -W "ignore:Error parsing type annotation ForwardRef('np.ndarray') for profs_tf.metrics.KMeansResult.__init__" \
  -m pdoc --docformat google --output-directory "${1:-build/api}" \
  profs_tf '!profs_tf\.(?!(losses|metrics|datasets)$)'
