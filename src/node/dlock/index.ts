/**
 * Distributed locks, native to Redis and Valkey servers with the dlock module.
 *
 * @packageDocumentation
 */

export { Client, type ClientOptions } from './client';
export {
  DlockError,
  HeldError,
  InternalError,
  LostError,
  NoQuorumError,
  RefusedError,
  UsageError,
} from './errors';
export { Fenced, type Redis } from './fenced';
export { Guard } from './guard';
export type { Key, LockOptions, TryOptions } from './options';
export type { Holder, LogMessage, NodeReport } from './report';
export type { AcquireMessage, HoldMessage, WaitMessage } from './trace';
