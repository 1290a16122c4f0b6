// What the library tells in objects.

/** What one node said. */
export interface NodeReport {
  /** Its address, without user and password. */
  node: string;
  /**
   * A word for programs: `granted`, `held`, `gone`, `unreachable`, `timed_out`, `quarantine`, `refused`,
   * `unfit`, `answers` or `not_asked`.
   */
  state: string;
  /** The same for people. */
  message: string;
}

/** Who holds a lock. Times are in milliseconds. */
export interface Holder {
  fence: number;
  /** For how long it has held the lock. */
  held: number;
  /** For how long its lease still runs, if it is not renewed. */
  ttl: number;
  /** Where its connection comes from; only in HeldError. */
  address?: string;
  /** The number of its connection in CLIENT LIST. */
  client?: number;
  /** What it says about itself; text where it is UTF-8. */
  meta: string | Buffer;
  /** A name for its token that tells nothing of it: the same on every node, and in `dlock inspect`. */
  id: string;
  /** Whether the lock ends with the connection. */
  ephemeral: boolean;
  /** Whether its turn came while it was away, and it has not asked since. */
  away: boolean;
}

/** Who waits for a lock. Times are in milliseconds. */
export interface Waiter {
  /** A name for its token that tells nothing of it: the same on every node, and in `dlock inspect`. */
  id: string;
  /** How it wants to hold the lock. */
  mode: string;
  /** For how long it has waited. */
  waited: number;
  /** For how much longer it will; missing: without limit. */
  left?: number;
  /** The number of its connection in CLIENT LIST. */
  client?: number;
  /** What it says about itself; text where it is UTF-8. */
  meta: string | Buffer;
  /** Whether its request has ended, and only its place is kept. */
  away: boolean;
}

/** What one node knows about a lock that is not free. */
export interface Inspection {
  /** `exclusive`, `shared`, `limit`, or `foreign`: a plain string, as older kinds of locks are. */
  mode: string;
  /** The permits of a semaphore; 0 in the other modes. */
  limit: number;
  /** How many hold it. Nobody is known for a foreign lock. */
  holding: number;
  /** The first of them, oldest first. */
  holders: Holder[];
  /** In how many milliseconds a foreign lock expires, if it does. */
  expires?: number;
  /** How many wait. */
  waiting: number;
  /** The first of them. */
  waiters: Waiter[];
}

/** What one node says about a lock. */
export interface NodeInspection {
  /** Its address, without user and password. */
  node: string;
  /** What it knows; missing if the lock is free there, or `error` says why it is not known. */
  lock?: Inspection;
  /** Why it did not answer. */
  error?: NodeReport;
}

/** How many leases of a lock one node has ended. */
export interface NodeBreak {
  /** Its address, without user and password. */
  node: string;
  /** How many; missing if `error` says why it is not known. */
  ended?: number;
  /** Why it did not answer. */
  error?: NodeReport;
}

/** A lock that nobody here renews: whoever has the token extends and releases it. */
export interface Lease {
  /** The lock; text where its name is UTF-8. */
  key: string | Buffer;
  /** It is a secret: whoever knows it can release the lock. */
  token: string;
  fence: number;
  /** For how many milliseconds the lock is certainly held, from the moment at which this was told. */
  validFor: number;
}

/** Something that an operator should know, though the work goes on. `message` is the same for people. */
export type Notice =
  | {
      /** No majority of the nodes can grant a lock for which somebody waits. The wait goes on. */
      event: 'outage';
      message: string;
      key: string | Buffer;
      /** How many nodes are a majority. */
      needed: number;
      /** What each node said last. */
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
      /** Where the new primary is. */
      server: string;
      /** For how many milliseconds it grants nothing. */
      quarantine: number;
    }
  | {
      /** An address leads to another server than before, which does not know the locks that the former one granted. */
      event: 'stranger';
      message: string;
      node: string;
      /** The node-id of the server that was there before. */
      before: string;
      /** That of the one that is there now. */
      now: string;
    }
  | {
      /** A lock was released, and no majority of the nodes has heard of that yet. */
      event: 'not_released';
      message: string;
      key: string | Buffer;
      /** How many nodes are a majority. */
      needed: number;
      /** How many nodes there are. */
      of: number;
      /** The nodes that have not released the lock, and what they said. */
      left: NodeReport[];
      /** In how many milliseconds the leases end there, at the latest. */
      within: number;
    };

/** A message of the channel `dlock:log`: something that has happened in this process. */
export interface LogMessage {
  level: 'error' | 'warn' | 'info' | 'debug';
  message: string;
  /** To what, and how: `key`, `fence`, `node`, for example. */
  fields: Record<string, string>;
  /** When, in milliseconds since 1970. */
  time: number;
}
