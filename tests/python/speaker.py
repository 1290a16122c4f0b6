"""A program that carries out commands for locks, one a line: tests/languages sends them."""

from __future__ import annotations

import sys

import dlock


def main() -> None:
    client = dlock.Client(sys.argv[1], node_timeout=float(sys.argv[2]) / 1e3)
    held: dict[str, dlock.Guard] = {}

    def answer(verb: str, key: str) -> object:
        if verb == "lock":
            held[key] = client.lock(key, ttl=60).acquire()
        elif verb == "try":
            held[key] = client.lock(key, ttl=60, wait=0).acquire()
        elif verb == "check":
            held[key].check()
        elif verb == "release":
            held.pop(key).release()
            return "released"
        return held[key].fence

    for line in sys.stdin:
        try:
            print(answer(*line.split()), flush=True)
        except dlock.Error as error:
            print(type(error).__name__, " ".join(str(error).split()), flush=True)


main()
