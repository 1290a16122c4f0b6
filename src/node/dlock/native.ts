// The Rust functions that TypeScript calls. Times are in milliseconds. The outcome of a method arrives at the post,
// under its ticket.

import type { Holder, Lease, LogMessage, NodeBreak, NodeInspection, NodeReport, Notice } from './report';

/** @internal */
export interface Failure {
  code: string;
  message: string;
  key?: string | Buffer;
  nodes: NodeReport[];
  retryAfter?: number;
  holder?: Holder;
  fence?: number;
  why?: string;
}

/** @internal */
export interface Line extends Omit<LogMessage, 'fields'> {
  fields: [string, string][];
  prints: boolean;
}

/** @internal */
export interface Told {
  ticket: number;
  guard?: Guard;
  lease?: Lease;
  inspections?: NodeInspection[];
  breaks?: NodeBreak[];
  was?: boolean;
  notice?: Notice;
  line?: Line;
  waitsFor?: string;
  waited?: number;
  failure?: Failure;
}

/** @internal */
export interface Options {
  ttl: number;
  shared: boolean;
  limit?: number;
  ephemeral: boolean;
  meta: string;
  maxHold?: number;
  renew: boolean;
}

/** @internal */
export interface Post {
  cancel(ticket: number): void;
  end(): void;
}

/** @internal */
export interface Client {
  nodes(): string[];
  lock(key: Key, options: Options): Lock | Failure;
  extend(ticket: number, key: Key, token: string, ttl: number, fence?: number): void;
  release(ticket: number, key: Key, token: string): void;
  inspect(ticket: number, key: Key): void;
  breakLock(ticket: number, key: Key, token?: string): void;
  close(ticket: number): void;
  panic(ticket: number): void;
}

/** @internal */
export interface Lock {
  acquire(ticket: number, wait?: number): void;
}

/** @internal */
export interface Guard {
  readonly key: string | Buffer;
  readonly fence: number;
  readonly token: string;
  ttl(): number;
  validFor(): number;
  isOpen(): boolean;
  loss(): Failure | null;
  exclusiveFence(): number | Failure;
  tokenOfOneNode(): string | Failure;
  extend(ticket: number, ttl: number): void;
  release(ticket: number): void;
  detach(ticket: number): void;
  watch(ticket: number): void;
  drop(): void;
  end(): boolean;
}

type Key = string | Uint8Array;

interface Native {
  collect(post: Post): Told[];
  listen(post: Post, waits: boolean, lines: boolean, prints: boolean): void;
  Post: new (bell: () => void) => Post;
  Client: {
    connect(
      post: Post,
      nodes?: string[],
      environment?: string,
      nodeTimeout?: number,
      notify?: number,
    ): Client | Failure;
  };
}

/** @internal */
export const native: Native = require('./native.node');
