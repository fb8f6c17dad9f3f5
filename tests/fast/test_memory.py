"""What the C library does with large blocks, seen by its own counts."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

import torsor

SCRIPT = """
import ctypes, json, runpy, sys

class Counts(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo2.restype = Counts
if sys.argv[1] == "keep":
    runpy.run_path(sys.argv[2])["keep_freed_memory"]()  # the file alone: importing the package takes seconds
before = libc.mallinfo2()
block = libc.malloc(3 << 30)  # nothing is written to it, so that no memory is taken
during = libc.mallinfo2()
libc.free(block)
print(json.dumps([during.hblks - before.hblks, libc.mallinfo2().arena - before.arena]))
"""

MEMORY = Path(torsor.__file__).parent / "training" / "memory.py"


def glibc_counts():
    try:
        return sys.platform.startswith("linux") and bool(ctypes.CDLL(None).mallinfo2)
    except AttributeError:
        return False


def counts(how):
    done = subprocess.run([sys.executable, "-c", SCRIPT, how, MEMORY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not glibc_counts(), reason="needs the counts of glibc 2.33 or later")
def test_a_large_block_is_not_mapped_by_itself_and_stays_when_it_is_freed():
    assert counts("as it comes") == [1, 0]
    mapped, kept = counts("keep")
    assert mapped == 0
    assert kept > 2.9 * 2**30  # what was free at the end before counts too
