"""Work for processes of `multiprocessing`, which import it."""

import dlock


def work(url: str, key: str) -> int:
    with dlock.Client(url, node_timeout=60).lock(key, wait=30) as guard:
        return guard.fence
