"""Train on a Ray cluster: the model is the same, byte for byte. Needs ``pip install 'longtail[ray]'``."""

from __future__ import annotations

import time

import numpy as np
from figures import open_figure, save_figure

import longtail as lt

data = lt.datasets.make_synthetic(n_rows=4000, n_features=2000, n_labels=300, labels_per_row=4)
seconds = {}
models = {}
for name, executor in (("threads", None), ("Ray", lt.RayExecutor())):
    begin = time.perf_counter()
    models[name] = lt.FastXML(n_trees=10, n_jobs=2).fit(data.X, data.Y, executor=executor)
    seconds[name] = time.perf_counter() - begin
    print(f"{name}: {seconds[name]:.1f} s")
np.testing.assert_array_equal(models["threads"].leaf_values_, models["Ray"].leaf_values_)
print("the two models are equal, byte for byte")

figure, axes = open_figure("Training time, the start of the cluster included")
axes.bar(list(seconds), list(seconds.values()), color=["tab:blue", "tab:orange"])
axes.set_ylabel("seconds")
save_figure(figure, "cluster")
