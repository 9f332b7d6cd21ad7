// BullMQ, on a Redis server of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Queue, Worker } from 'bullmq';

/** `appendfsync`: always, or everysec. `folder`: where the files of Redis are. */
export async function makeBullmq({ appendfsync, folder, concurrency }) {
  const home = await mkdtemp(join(folder, 'redis-'));
  const socket = join(await mkdtemp('/tmp/tickwheel_redis_'), 'redis.sock');
  const server = spawn('redis-server', ['--port', '0', '--unixsocket', socket, '--dir', home, '--save', '', '--appendonly',
    'yes', '--appendfsync', appendfsync, '--maxmemory-policy', 'noeviction'], { stdio: 'ignore' });
  process.on('exit', () => server.kill('SIGKILL'));
  const connection = { path: socket, maxRetriesPerRequest: null, retryStrategy: () => 50 };
  const queue = new Queue('bench', { connection });
  queue.on('error', () => {}); // until the server listens
  await queue.waitUntilReady();
  let worker = null;
  return {
    settings: `bullmq, redis: appendonly yes, appendfsync ${appendfsync}, maxmemory-policy noeviction, a Unix socket; ` +
      `worker: concurrency ${concurrency}, removeOnComplete, addBulk of up to 1,000`,
    async schedule(tasks) {
      const timestamp = Date.now();
      await queue.addBulk(tasks.map(({ due, payload, id }) => ({
        name: 'task', data: { due, payload },
        opts: {
          timestamp, delay: Math.max(0, due - timestamp), removeOnComplete: true, removeOnFail: true, ...(id && { jobId: id }),
        },
      })));
    },
    async open(start, finished) {
      worker = new Worker('bench', async job => start(job.data.due), { connection, concurrency });
      worker.on('completed', finished);
      worker.on('error', error => console.error(`bullmq: ${error.message}`));
      await worker.waitUntilReady();
    },
    close: () => worker.close(),
    async settle() {},
    async clear() { await (await queue.client).flushall(); },
    async end() {
      await queue.close();
      const ended = once(server, 'exit');
      server.kill('SIGTERM');
      await ended;
      await rm(home, { recursive: true });
      await rm(join(socket, '..'), { recursive: true });
    },
  };
}
