"""A Ray cluster for all tests of this folder: several raylets on this machine that listen to 127.0.0.1 only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Without this, and before ray is imported, Ray replaces 127.0.0.1 by an outer address and listens on all of them.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
_SETTINGS: dict[str, Any] = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 << 20}


class LocalCluster:
    """Nodes of one CPU each, added when a test wants more of them."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._nodes: list[Any] = []
        self._has_wide_node = False
        self.grow(1)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def grow(self, n_nodes: int) -> None:
        """Have at least so many nodes."""
        while len(self._nodes) < n_nodes:
            head = {} if self._nodes else {"include_dashboard": False}
            self._nodes.append(self._cluster.add_node(num_cpus=1, **_SETTINGS, **head))
        self._wait_for(n_nodes)

    def add_wide_node(self, n_cpus: int) -> None:
        """Have one node with more CPUs, and the most memory to offer."""
        if not self._has_wide_node:
            self._cluster.add_node(num_cpus=n_cpus, memory=1 << 40, **_SETTINGS)
            self._has_wide_node = True

    def kill_a_node(self) -> None:
        """Kill the processes of the youngest node, as a power cut would."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def shut_down(self) -> None:
        import ray

        ray.shutdown()
        self._cluster.shutdown()

    def _wait_for(self, n_nodes: int) -> None:
        until = time.monotonic() + 60
        while len(list(self._cluster.list_all_nodes())) < n_nodes and time.monotonic() < until:
            time.sleep(0.1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    pytest.importorskip("ray", reason="pip install 'longtail[ray]'")
    started = LocalCluster()
    import ray

    ray.init(address=started.address, log_to_driver=False, logging_level="WARNING")
    yield started
    started.shut_down()
