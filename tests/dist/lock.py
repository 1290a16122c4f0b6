"""Takes a lock with the wheel. scripts/test-dist.sh puts this file beside its package."""

import dlock

with dlock.Client("redis://127.0.0.1").lock("python", wait=10) as guard:
    assert guard.fence > 0
