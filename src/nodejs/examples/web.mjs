// A web server of several processes: each request waits for the lock of its account.
//
// Run it: DLOCK_NODES=redis://localhost PORT=8080 node web.mjs

import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { Client, DlockError } from 'dlock';

if (cluster.isPrimary) {
  for (let worker = 0; worker < 4; worker += 1) cluster.fork();
} else {
  const client = new Client();
  const server = createServer(async (request, response) => {
    // A client that has gone needs no lock.
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const account = `account:${request.url}`;
      const body = await client.lock(account, { wait: 60_000, signal: gone.signal }).run((guard) => {
        return `${process.pid} ${guard.fence}`;
      });
      response.end(body);
    } catch (error) {
      if (response.closed) return;
      const after = error instanceof DlockError ? error.retryAfter : undefined;
      response.writeHead(503, { 'Retry-After': Math.ceil((after ?? 1_000) / 1e3) });
      response.end(error.message);
    }
  });
  server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1');
}
