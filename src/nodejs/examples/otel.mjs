// Locks as OpenTelemetry spans: acquisitions, waits with the holders in their way, and holds.
//
// Run it: npm install @opentelemetry/api @opentelemetry/sdk-trace-node
//         DLOCK_NODES=redis://localhost node otel.mjs

import { tracingChannel } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { ConsoleSpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { Client } from 'dlock';

const ATTRIBUTES = {
  acquire: ({ nodes }) => ({ 'db.operation.name': 'DLOCK.ACQUIRE', 'server.address': nodes.join(',') }),
  wait: ({ waitsFor }) => ({ 'dlock.waits_for': waitsFor }),
  hold: ({ fence }) => ({ 'dlock.fence': fence }),
};

/** Turns dlock's messages into spans. */
function instrument(tracer) {
  const spans = new WeakMap();
  for (const [name, attributes] of Object.entries(ATTRIBUTES)) {
    tracingChannel(`dlock:${name}`).subscribe({
      start(message) {
        const all = { 'db.system.name': 'redis', 'dlock.key': String(message.key), ...attributes(message) };
        // A wait is a part of its acquisition.
        const parent = name === 'wait' ? spans.get(message.acquire) : undefined;
        const where = parent === undefined ? context.active() : trace.setSpan(context.active(), parent);
        const options = { kind: SpanKind.CLIENT, attributes: all };
        spans.set(message, tracer.startSpan(`dlock ${name}`, options, where));
      },
      error(message) {
        spans.get(message)?.recordException(message.error);
        spans.get(message)?.setStatus({ code: SpanStatusCode.ERROR, message: message.error.message });
      },
      asyncEnd(message) {
        spans.get(message)?.end();
      },
    });
  }
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
