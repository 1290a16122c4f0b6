"""Clients of a lock library, measured from outside, a thread for each: it asks, waits, holds, gives
back, and asks again at once. It does what closed_loop.rs does, and prints the same. All threads are
in one process, and one of them runs at a time, as Python does it.

A library is a class: its instance is one client with connections of its own to nodes, each given as
`host:port`; `acquire(key)` waits until it has the lock and gives something for `release` to give back.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
import traceback


def run(library, client_class):
    given = arguments()
    measure = {"contended": contended, "uncontended": uncontended}[given.part]
    figures = measure(client_class, given)
    figures["library"] = library
    print(json.dumps(figures), flush=True)
    # Threads that still wait end with the process: their waits are counted.
    os._exit(0)


def contended(client_class, given):
    records = []
    for number in range(given.clients):
        client = connected(client_class, given, f"{given.key}:{number}")
        records.append(Record(client))
    begin = time.monotonic() + 0.1 + given.clients * 0.001
    for record in records:
        threading.Thread(target=record.go_on, args=(given, begin), daemon=True).start()
    time.sleep(begin + given.seconds - time.monotonic())
    return summary(records, begin)


class Record:
    """One client, and what it has seen so far."""

    def __init__(self, client):
        self.client = client
        self.waits = []
        self.holds = []
        self.asked = None  # since when it has waited, while it does
        self.failures = 0
        self.mutex = threading.Lock()

    def go_on(self, given, begin):
        time.sleep(max(0, begin - time.monotonic()))
        while True:
            self.round(given.key, given.hold_us / 1e6)

    def round(self, key, hold):
        asked = time.monotonic()
        with self.mutex:
            self.asked = asked
        held = self.until_it_has(key)
        won = time.monotonic()
        with self.mutex:
            self.asked = None
            self.waits.append((won - asked) * 1e3)
        time.sleep(hold)
        with self.mutex:
            self.holds.append((time.monotonic() - won) * 1e3)
        try:
            self.client.release(held)
        except Exception:
            self.failed()

    def until_it_has(self, key):
        while True:
            try:
                return self.client.acquire(key)
            except Exception:
                self.failed()

    def failed(self):
        traceback.print_exc(limit=1)
        with self.mutex:
            self.failures += 1
        # Otherwise a server that is down would keep the processor busy.
        time.sleep(0.01)


def summary(records, begin):
    waits, cut_off, holds, failures = [], [], [], 0
    for record in records:
        with record.mutex:
            waits.append(list(record.waits))
            if record.asked is not None:
                cut_off.append((time.monotonic() - record.asked) * 1e3)
            holds.extend(record.holds)
            failures += record.failures
    # The clients go on meanwhile: their counts fit into this time.
    seconds = time.monotonic() - begin
    return {
        "waits_ms": waits,
        "cut_off_ms": cut_off,
        "hold_ms_mean": statistics.fmean(holds or [0]),
        "seconds": seconds,
        "failures": failures,
    }


def uncontended(client_class, given):
    client = connected(client_class, given, given.key)
    acquires, pairs = [], []
    warm = time.perf_counter() + given.warm_up_ms / 1e3
    number = 0
    while len(acquires) < given.rounds:
        # A key of its own each time, which is free for certain.
        number += 1
        begun = time.perf_counter()
        held = client.acquire(f"{given.key}:{number}")
        took = time.perf_counter() - begun
        client.release(held)
        if begun >= warm:
            acquires.append(took * 1e6)
            pairs.append((time.perf_counter() - begun) * 1e6)
    return {"acquire_us": acquires, "pair_us": pairs}


def connected(client_class, given, own_key):
    """A client that has taken a lock before: its connection is open, and its scripts are loaded."""
    client = client_class(given.nodes.split(","), given.ttl_ms)
    client.release(client.acquire(own_key))
    return client


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["contended", "uncontended"])
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--ttl-ms", type=int, required=True)
    for number in ["--clients", "--hold-us", "--seconds", "--rounds", "--warm-up-ms"]:
        parser.add_argument(number, type=int)
    return parser.parse_args(sys.argv[1:])
