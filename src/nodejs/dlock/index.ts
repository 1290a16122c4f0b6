/**
 * Distributed locks, native to Redis and Valkey servers with the dlock module.
 *
 * @packageDocumentation
 */

export { Client, type ClientOptions } from './client';
export {
  DlockError,
  DoneError,
  HeldError,
  InternalError,
  LostError,
  NoQuorumError,
  RefusedError,
  UsageError,
} from './errors';
export type { Guard } from './guard';
export type { Lock } from './lock';
export type { Key, LockOptions, WaitOptions } from './options';
export type {
  Done,
  Failure,
  Holder,
  Inspection,
  Lease,
  LogMessage,
  NodeInspection,
  NodeReport,
  Notice,
  Waiter,
} from './report';
