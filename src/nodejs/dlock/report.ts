// Reports of nodes and clients, as objects.

/** The parts of an error. Of the details, each class of errors has its own. */
export interface Failure {
  /** Code for programs, as in `dlock --json`. */
  code: string;
  /** Text for people. */
  message: string;
  key?: string | Buffer;
  nodes: readonly NodeReport[];
  retryAfter?: number;
  holder?: Holder;
  left?: number;
  by?: Done;
  fence?: number;
  why?: string;
}

/** The state of one node. */
export interface NodeReport {
  /** The node's address, without user and password. */
  node: string;
  /**
   * The state, for programs: `granted`, `held`, `done`, `gone`, `unreachable`, `timed_out`, `quarantine`,
   * `refused`, `unfit`, `answers` or `not_asked`.
   */
  state: string;
  /** The text for people. */
  message: string;
}

/** The holder of a lock. Times are in milliseconds. */
export interface Holder {
  fence: number;
  /** Time since the lock was granted. */
  held: number;
  /** Time until its lease ends, if it is not renewed. */
  ttl: number;
  /** Address of its connection; only in HeldError. */
  address?: string;
  /** Number of its connection in CLIENT LIST. */
  client?: number;
  /** The client's text about itself; a Buffer unless it is UTF-8. */
  meta: string | Buffer;
  /** Public name of its token, which does not reveal it: the same on every node, and in `dlock inspect`. */
  id: string;
  /** True if the lock ends with the connection. */
  ephemeral: boolean;
  /** True if the lock was granted to its reserved place, and it has not asked since. */
  away: boolean;
}

/** The holder that has left a lock done. */
export interface Done {
  /** Public name of its token, as in Holder. */
  id: string;
  fence: number;
  /** Milliseconds since it left the lock done. */
  since: number;
  /** Its text about the outcome of its work; a Buffer unless it is UTF-8. */
  outcome: string | Buffer;
}

/** A waiter for a lock. Times are in milliseconds. */
export interface Waiter {
  /** Public name of its token, which does not reveal it: the same on every node, and in `dlock inspect`. */
  id: string;
  /** Requested mode. */
  mode: string;
  /** Time since it began to wait. */
  waited: number;
  /** Time until it gives up; missing: without limit. */
  left?: number;
  /** Number of its connection in CLIENT LIST. */
  client?: number;
  /** The client's text about itself; a Buffer unless it is UTF-8. */
  meta: string | Buffer;
  /** True if its request has ended, and its place is reserved. */
  away: boolean;
}

/** One node's report about a lock that is not free. */
export interface Inspection {
  /** `exclusive`, `shared`, `limit`, `done`, `foreign`: a plain string, as older kinds of locks are, or `evicted`. */
  mode: string;
  /** Permits of a semaphore; 0 in the other modes. */
  limit: number;
  /** Number of holders. A foreign lock names none. */
  holding: number;
  /** First holders, in the order of their tokens. */
  holders: Holder[];
  /** Milliseconds until a foreign lock expires, if it does, or a done or evicted one is free. */
  expires?: number;
  /** The holder that has left the lock done. */
  done?: Done;
  /** Number of waiters. */
  waiting: number;
  /** First waiters. */
  waiters: Waiter[];
}

/** One node's answer about a lock. */
export interface NodeInspection {
  /** The node's address, without user and password. */
  node: string;
  /** Its report; missing if the lock is free there, or if there is an `error`. */
  lock?: Inspection;
  /** Its error, if it did not answer. */
  error?: NodeReport;
}

/** A lock without renewal here: the owner of the token extends and releases it. */
export interface Lease {
  /** The lock; text where its name is UTF-8. */
  key: string | Buffer;
  /** A secret: any client that has it can release the lock. */
  token: string;
  fence: number;
  /** Milliseconds until the validity ends, counted from the return of this lease. */
  validFor: number;
}

/** An event for an operator, while locks go on working. `message` is the text for people. */
export type Notice =
  | {
      /** A caller waits, and no majority of the nodes can grant the lock. The wait goes on. */
      event: 'outage';
      message: string;
      key: string | Buffer;
      /** Number of nodes that are a majority. */
      needed: number;
      /** Last known state of each node. */
      nodes: NodeReport[];
    }
  | {
      /** A majority of the nodes answers again. */
      event: 'back';
      message: string;
      key: string | Buffer;
    }
  | {
      /** Another server of a node is the primary now. */
      event: 'promoted';
      message: string;
      node: string;
      /** Address of the new primary. */
      server: string;
      /** Milliseconds until the new primary grants locks. */
      quarantine: number;
    }
  | {
      /** An address leads to another server than before, which does not have the locks that the former one granted. */
      event: 'stranger';
      message: string;
      node: string;
      /** Node-id of the former server. */
      before: string;
      /** Node-id of the present server. */
      now: string;
    }
  | {
      /** A lock was released, and no majority of the nodes has confirmed that yet. */
      event: 'not_released';
      message: string;
      key: string | Buffer;
      /** Number of nodes that are a majority. */
      needed: number;
      /** Number of nodes. */
      of: number;
      /** The nodes that have not released the lock, and their states. */
      left: NodeReport[];
      /** Milliseconds until the leases there have ended, at most. */
      within: number;
    };

/** A message of the channel `dlock:log`: an event in this process. */
export interface LogMessage {
  level: 'error' | 'warn' | 'info' | 'debug';
  message: string;
  /** Names and values: `key`, `fence`, `node`, for example. */
  fields: Record<string, string>;
  /** Time, in milliseconds since 1970. */
  time: number;
}
