"""Takes a lock with the wheel, beside whose package scripts/test-dist.sh puts this."""

import dlock

with dlock.Client("redis://127.0.0.1").lock("python", wait=10) as guard:
    assert guard.fence > 0
