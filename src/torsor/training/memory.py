"""Keep freed memory in the process: a training step asks for the same large blocks again and again."""

import ctypes
import sys


def keep_freed_memory() -> bool:
    """Tell the C library to keep large freed blocks instead of handing them back to the system.

    By default glibc maps every large block anew and the kernel fills it with zeros page by page at
    first touch; a training step on a CPU then spends a tenth of its time or more in page faults. The
    process keeps the largest memory that it has used.

    Returns:
        Whether the setting was made; False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    mmap_threshold, trim_threshold, one_gigabyte = -3, -1, 1 << 30
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(mmap_threshold, one_gigabyte) and mallopt(trim_threshold, 2 * one_gigabyte - 1))
