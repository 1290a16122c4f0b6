// A repeated job of BullMQ that is done once, even if BullMQ counts its worker as stalled and starts the job again.
//
// Run it on each host: DLOCK_NODES=redis://localhost REDIS=redis://localhost node bullmq.mjs

import { Queue, Worker } from 'bullmq';
import { Client, DoneError } from 'dlock';

const client = new Client();
const connection = { url: process.env.REDIS };
const HOUR = 3_600_000;

// Any number of hosts may run this. The id of each job has its fire time in it: `repeat:nightly:1764064800000`.
const queue = new Queue('reports', { connection });
await queue.upsertJobScheduler('nightly', { pattern: process.env.CRON ?? '0 3 * * *' });

/** Runs the work of a job once; later workers get its outcome. */
async function once(job) {
  try {
    return await client.lock(`${job.queueName}:${job.id}`).runOnce(HOUR, () => report(job));
  } catch (error) {
    if (!(error instanceof DoneError)) throw error;
    return `done ${error.by?.since} ms ago`;
  }
}

async function report(job) {
  console.log('reports', job.id);
}

new Worker('reports', once, { connection });
