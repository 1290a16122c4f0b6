// A worker thread that takes a lock, and keeps it until a message arrives.

const { workerData, parentPort } = require('node:worker_threads');
const { Client } = require('dlock');

const [url, key, nodeTimeout] = workerData;

new Client(url, { nodeTimeout })
  .lock(key, { ttl: 600_000 })
  .acquire()
  .then((guard) => {
    parentPort.postMessage(guard.fence);
    parentPort.once('message', async (word) => {
      if (word === 'release') await guard.release();
      parentPort.postMessage('done');
      parentPort.close();
    });
  });
