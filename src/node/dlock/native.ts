// The part of dlock that is written in Rust, as far as TypeScript calls it. Times are in milliseconds.
// What a method begins ends with its ticket at the post.

import type { Holder, LogMessage, NodeReport } from './report';

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
  value?: boolean | number;
  notice?: string;
  line?: Line;
  waitsFor?: string;
  waited?: number;
  failure?: Failure;
}

/** @internal */
export interface Options {
  ttl: number;
  wait?: number;
  shared: boolean;
  limit?: number;
  ephemeral: boolean;
  meta: string;
  maxHold?: number;
}

/** @internal */
export interface Post {
  cancel(ticket: number): void;
  end(): void;
}

/** @internal */
export interface Client {
  nodes(): string[];
  acquire(ticket: number, key: string | Uint8Array, options: Options): void;
  lease(ticket: number, key: string | Uint8Array, options: Options): void;
  close(ticket: number): void;
  panic(ticket: number): void;
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
  extend(ticket: number, ttl: number): void;
  release(ticket: number): void;
  watch(ticket: number): void;
  drop(): void;
}

/** @internal */
export interface Lease {
  readonly fence: number;
  readonly token: string;
  readonly validFor: number;
  extend(ticket: number, ttl: number): void;
  release(ticket: number): void;
  drop(): void;
}

interface Native {
  collect(post: Post): Told[];
  listen(post: Post, waits: boolean, lines: boolean, prints: boolean): void;
  Post: new (bell: () => void) => Post;
  Client: {
    connect(post: Post, nodes: string[], nodeTimeout?: number, notify?: number): Client | Failure;
  };
}

/** @internal */
export const native: Native = require('./native.node');
