"""The data set of this node: brought here before the ranks start, kept while they may run."""

import threading

from components.agent.messages import Trouble
from components.agent.run_context import RunContext
from components.dataset.cache import LocalData, open_data
from components.errors import ArgosyError


class NodeData:
    """Once for all ranks and attempts of this node."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._local: LocalData | None = None
        self._closing = threading.Event()

    @property
    def path(self) -> str:
        """Of the shard manifest; empty when the gang has no data set."""
        return str(self._local.manifest_path) if self._local is not None else ""

    def fetch(self) -> Trouble | None:
        """Bring it here; for a worker thread. None when that worked."""
        context = self._context
        if not context.spec.data_version:
            return None
        try:
            self._local = open_data(
                context.store, context.spec.data_version, run=context.spec.run, log=context.log, cancelled=self._closing
            )
        except (ArgosyError, OSError) as error:
            return Trouble.of(error)
        if self._closing.is_set():
            self._local.close()
        return None

    def close(self) -> None:
        """No rank is left. A download under way is given up."""
        self._closing.set()
        if self._local is not None:
            self._local.close()
