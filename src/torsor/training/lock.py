"""One process at a time in a run folder."""

import fcntl
import os
from pathlib import Path
from typing import final

from torsor.training.durable import RunFolderError

LOCK_FILE = ".lock"


@final
class FolderLock:
    """The right to write in a folder, held until ``release`` or until the process ends, however it ends.

    The lock belongs to the open file and not to its existence, so that a killed process leaves none
    behind; the file itself stays and holds the number of the process that locked it last.

    Args:
        folder: a folder that exists.

    Raises:
        RunFolderError: when another process holds it, with that process's number.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 32).decode().strip() or "unknown"
            os.close(self._descriptor)
            raise RunFolderError(f"{folder} is in use by process {holder}: wait for it or stop it") from error
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Give the right back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
