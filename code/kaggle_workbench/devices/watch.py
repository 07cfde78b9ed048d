"""A GPU watched while it trains: memory and utilisation for the record, and whether it is still there."""

from __future__ import annotations

import threading
import time
from typing import Any

from kaggle_workbench.devices import nvml
from kaggle_workbench.devices.decision import Decision
from kaggle_workbench.devices.nvml import GpuLostError
from kaggle_workbench.errors import MissingError

PERIOD_S = 1.0
AGAIN_S = 1.0
_running: GpuWatch | None = None


class GpuWatch:
    """Samples the GPUs of a decision in the background; does nothing on the CPU.

    Args:
        decision: What computes.
        period_s: Seconds between two samples.
    """

    def __init__(self, decision: Decision, *, period_s: float = PERIOD_S) -> None:
        self.uuids = tuple(gpu.uuid for gpu in decision.gpus) if decision.kind == "gpu" else ()
        self.names = {gpu.uuid: f"GPU {gpu.index} ({gpu.name})" for gpu in decision.gpus}
        self.period_s = period_s
        self._peak: int | None = None
        self._busy: list[int] = []
        self._lost: str | None = None
        self._given_up = False
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        # NVML is opened and closed for each sample; two at once would close it for each other.
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to sample; a watch of an earlier training, which may have ended without a word, ends."""
        global _running
        if self.uuids and self._thread is None:
            if _running is not None:
                _running.stop()
            _running = self
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Ask each GPU now whether it is there.

        Raises:
            GpuLostError: One is not; the message names it.
        """
        if self.uuids and not self._given_up:
            self._sample()
            if self._lost is not None:
                # A single answer that failed may be a hiccup of the driver; a lost GPU stays lost.
                time.sleep(AGAIN_S)
                self._sample()
        if self._lost is not None:
            # One that comes back later has lost what was on it.
            self._given_up = True
            raise GpuLostError(
                self._lost,
                hint="Restart the machine (in a container: ./kwb down, then ./kwb up), then go on from the checkpoint.",
            )

    def seen(self) -> dict[str, Any]:
        """What was seen until now.

        Returns:
            peak_gpu_memory_bytes (this process's, over all its GPUs; of the whole GPU where the driver does not tell
            them apart) and mean_gpu_utilisation (percent); None when nothing was seen.
        """
        busy = list(self._busy)
        mean = round(sum(busy) / len(busy), 1) if busy else None
        return {"peak_gpu_memory_bytes": self._peak, "mean_gpu_utilisation": mean}

    def stop(self) -> dict[str, Any]:
        """End, and tell what was seen (see `seen`)."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None
        return self.seen()

    def _run(self) -> None:
        while not self._ended.wait(self.period_s):
            self._sample()

    def _sample(self) -> None:
        with self._lock:
            try:
                found = nvml.sample(self.uuids)
            except GpuLostError as error:
                which = next((name for uuid, name in self.names.items() if uuid in error.message), "A GPU")
                self._lost = f"{which} was lost while it was training (NVML: {error.__cause__})."
                return
            except MissingError as error:
                self._lost = f"The GPU was lost while it was training: {error.message}"
                return
            self._lost = self._lost if self._given_up else None
            memory = [one.memory for one in found.values() if one.memory is not None]
            busy = [one.utilisation for one in found.values() if one.utilisation is not None]
            if memory:
                self._peak = max(self._peak or 0, sum(memory))
            if busy:
                self._busy.append(round(sum(busy) / len(busy)))
