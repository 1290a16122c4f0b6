// Errors of dlock. Each keeps its details as attributes.

import type { Done, Failure, Holder, NodeReport } from './report';

/** The base of all errors of dlock. */
export class DlockError extends Error {
  /** Code for programs, as in `dlock --json`: `held`, `done`, `no_quorum`, `refused`, `lost`, `usage`, `internal`. */
  declare readonly code: string;
  /** The lock; text where its name is UTF-8. */
  declare readonly key: string | Buffer | undefined;
  /** The state of each node, in the order of their addresses. */
  declare readonly nodes: readonly NodeReport[];
  /** Milliseconds until enough quarantines have ended for a majority, if nothing else is missing. */
  declare readonly retryAfter: number | undefined;

  /** Makes an error of these parts, for tests of a program. */
  constructor({ message, ...parts }: Failure) {
    super(message);
    Object.assign(this, parts);
  }
}

/** Another client holds the lock, and the time to wait for it is over. */
export class HeldError extends DlockError {
  /** The holder, if a node named it in time. */
  declare readonly holder: Holder | undefined;
}

/** The last holder has done its work, and left the lock done for a while. */
export class DoneError extends DlockError {
  /** Milliseconds until the lock is free. */
  declare readonly left: number;
  /** Fence of the holder that has done the work. */
  declare readonly fence: number;
  /** That holder, if a node named it in time, with the time since then and its text about the outcome. */
  declare readonly by: Done | undefined;
}

/** No majority of the nodes can be reached, or can grant anything now. */
export class NoQuorumError extends DlockError {}

/** A majority is out of reach: too many nodes refuse, and would refuse again. */
export class RefusedError extends DlockError {}

/** The lock is not held any more. */
export class LostError extends DlockError {
  /** Fence of the lost lock. */
  declare readonly fence: number;
  /**
   * The reason, for programs: `not_renewed`, `ended`, `expired`, `max_hold`, `paused`, `released`, `done`, `detached`;
   * `not_done`: it was to be left done, and too many nodes refused.
   */
  declare readonly why: string;
}

/** The request is not valid. Nothing was sent. */
export class UsageError extends DlockError {}

/** A defect of dlock. */
export class InternalError extends DlockError {}

/** @internal */
export function made(failure: Failure): DlockError {
  const Class = CLASSES[failure.code] ?? DlockError;
  return new Class(failure);
}

/** @internal */
export function usage(message: string): UsageError {
  return new UsageError({ code: 'usage', message, nodes: [] });
}

const CLASSES: Record<string, new (failure: Failure) => DlockError> = {
  held: HeldError,
  done: DoneError,
  no_quorum: NoQuorumError,
  refused: RefusedError,
  lost: LostError,
  usage: UsageError,
  internal: InternalError,
};

// A bundler may rename the classes, but no keys.
const NAMED = {
  DlockError,
  HeldError,
  DoneError,
  NoQuorumError,
  RefusedError,
  LostError,
  UsageError,
  InternalError,
};
for (const [name, Class] of Object.entries(NAMED)) Class.prototype.name = name;
