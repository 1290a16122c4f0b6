// Jobs of node-cron on several hosts: each fire runs on one of them.
//
// Run it on each: DLOCK_NODES=redis://localhost node node_cron.mjs

import { Client, DoneError, HeldError } from 'dlock';
import cron from 'node-cron';

const HOUR = 3_600_000;
const client = new Client();

/**
 * A coordinator for node-cron. Its keys are a job and a fire time, so hosts use the same keys although their clocks differ.
 * The window must be longer than that difference. A host that comes while the job runs waits, and runs it if this host
 * crashes.
 */
function coordinator(window, options = {}) {
  const guards = new Map();
  return {
    async shouldRun(key) {
      try {
        guards.set(key, await client.lock(key, options).acquire());
        return true;
      } catch (error) {
        if (error instanceof DoneError || error instanceof HeldError) return false;
        throw error; // node-cron logs it, and does not run the job
      }
    },
    // node-cron calls this after a failure, too, without saying so.
    async onComplete(key) {
      const guard = guards.get(key);
      guards.delete(key);
      try {
        await guard.done(window);
      } finally {
        await guard.release();
      }
    },
  };
}

cron.setRunCoordinator(coordinator(HOUR));
const when = process.env.CRON ?? '0 3 * * *';
cron.schedule(when, ({ date }) => console.log('backs up', date.toISOString()), {
  name: 'backup',
  distributed: true,
});

/** Wraps a job that another host tries if it fails here. The key has the form of `dlock run --fire`. */
function once(name, window, work) {
  return async (context) => {
    const time = context.date.toISOString().replace('.000', '');
    try {
      await client.lock(`${name}@${time}`).runOnce(window, () => work(context));
    } catch (error) {
      if (!(error instanceof DoneError)) throw error;
    }
  };
}

const report = async ({ date }) => {
  if (process.env.DISK === 'full') throw new Error('no space left');
  console.log('reports', date.toISOString());
};
cron.schedule(when, once('report', HOUR, report));
