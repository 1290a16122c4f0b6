// The options of locks, which Rust reads and checks.

/** The name of a lock: text or bytes. */
export type Key = string | Uint8Array;

/** The limits of a wait for a lock. */
export interface WaitOptions {
  /** Limit of the wait in milliseconds; by default there is none, and 0 is no wait. */
  wait?: number | undefined;
  /** Ends the wait when it is aborted, and leaves nothing behind on any node. */
  signal?: AbortSignal | undefined;
}

/** The options of a lock. Times are in milliseconds. */
export interface LockOptions extends WaitOptions {
  /**
   * The lease: 30,000 by default. If this process crashes, the lock is free again after this time. While
   * the process runs, the client renews the lease each time a third of it has passed.
   */
  ttl?: number | undefined;
  /** For readers: any number of them hold the lock together, and no writer beside them. */
  shared?: boolean | undefined;
  /** For a semaphore: this many clients hold it together, on a single node only. */
  limit?: number | undefined;
  /** A text about the holder, for clients that inspect the lock. */
  meta?: string | undefined;
  /** Limit of the hold: after this time the lock is lost, even if every renewal succeeds. */
  maxHold?: number | undefined;
  /** Takes the lock even if its last holder left it done. */
  again?: boolean | undefined;
  /** False asks for one lease without renewal: the lock ends with it, unless the guard extends or releases it before. */
  renew?: boolean | undefined;
}
