"""Check threads that decode the same structs for the first time at the same time."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST_DECODING = """
import sys, threading
import msgspec
from kschedctl.api.decoding import convert_builtins, decode_json, decode_msgpack

WAYS = {
    "convert_builtins": lambda into: convert_builtins({"a": {"a": {"a": {"a": 1}}}}, into),
    "decode_json": lambda into: decode_json(b'{"a":{"a":{"a":{"a":1}}}}', into),
    "decode_msgpack": lambda into: decode_msgpack(msgspec.msgpack.encode({"a": {"a": {"a": {"a": 1}}}}), into),
}

def nested():
    inner = int
    for level in range(4):
        inner = msgspec.defstruct(f"Level{level}", [("a", inner | None, None)])
    return inner

def decode(into, together):
    together.wait()
    found.append(WAYS[sys.argv[1]](into).a.a.a.a)

sys.setswitchinterval(1e-6)
found = []
for _ in range(60):
    into, together = nested(), threading.Barrier(8)
    threads = [threading.Thread(target=decode, args=(into, together)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(sum(found))
"""


@pytest.mark.parametrize("way", ["convert_builtins", "decode_json", "decode_msgpack"])
def test_eight_threads_decode_a_struct_for_the_first_time(way: str) -> None:
    command = [sys.executable, "-c", FIRST_DECODING, way]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{60 * 8}\n", "")
