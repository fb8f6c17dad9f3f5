"""Keep freed memory in the process: a training step asks for the same large blocks again and again."""

import ctypes
import sys


def keep_freed_memory() -> bool:
    """Tell the C library to keep large freed blocks instead of handing them back to the system.

    By default glibc maps every large block anew and the kernel fills it with zeros page by page at
    first touch; a training step on a CPU then spends a tenth of its time or more in page faults. Here no
    block is mapped by itself, however large, and no free one is trimmed: the linear scan of four sequences of
    262,144 tokens, whose blocks are of a gigabyte, lost half of its time to them. The process keeps the largest
    memory that it has used.

    Guarantee, a test in ``tests/fast/test_memory.py``: a large block is not mapped by itself, and stays when it is
    freed.

    Returns:
        Whether the setting was made; False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    trim_threshold, most_mapped_blocks, never = -1, -4, -1
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(most_mapped_blocks, 0) and mallopt(trim_threshold, never))
