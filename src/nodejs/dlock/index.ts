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
export { Fenced, type Redis } from './fenced';
export { Guard } from './guard';
export { Lock } from './lock';
export type { Key, LockOptions, WaitOptions } from './options';
export type {
  Done,
  Holder,
  Inspection,
  Lease,
  LogMessage,
  NodeBreak,
  NodeInspection,
  NodeReport,
  Notice,
  Waiter,
} from './report';
export type { AcquireMessage } from './trace';
