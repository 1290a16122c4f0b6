// Acquisitions of locks as OpenTelemetry spans.
//
// Run it: npm install @opentelemetry/api @opentelemetry/sdk-trace-node
//         DLOCK_NODES=redis://localhost node otel.mjs

import { tracingChannel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { ConsoleSpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { Client } from 'dlock';

/** Turns dlock's messages into spans. */
function instrument(tracer) {
  const spans = new WeakMap();
  tracingChannel('dlock:acquire').subscribe({
    start(message) {
      const attributes = {
        'db.system.name': 'redis',
        'db.operation.name': 'DLOCK.ACQUIRE',
        'server.address': message.nodes.join(','),
        'dlock.key': String(message.key),
      };
      spans.set(message, tracer.startSpan('dlock acquire', { kind: SpanKind.CLIENT, attributes }));
    },
    error(message) {
      spans.get(message)?.recordException(message.error);
      spans.get(message)?.setStatus({ code: SpanStatusCode.ERROR, message: message.error.message });
    },
    asyncEnd(message) {
      spans.get(message)?.setAttribute('dlock.fence', message.result ?? 0);
      spans.get(message)?.end();
    },
  });
}

const provider = new NodeTracerProvider({
  spanProcessors: [new SimpleSpanProcessor(new ConsoleSpanExporter())],
});
provider.register();
const tracer = trace.getTracer('example');
instrument(tracer);

// Two jobs want the same lock: one has to wait for the other.
const client = new Client();
const job = () =>
  tracer.startActiveSpan('job', async (span) => {
    await client.lock('example:otel').run(() => sleep(100));
    span.end();
  });
await Promise.all([job(), job()]);
await provider.shutdown();
