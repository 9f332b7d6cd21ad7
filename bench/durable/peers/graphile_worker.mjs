// graphile-worker, on the PostgreSQL server that PGHOST, PGUSER and PGDATABASE name.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';

const silent = new Logger(() => (level, message) => { if (level === 'error') console.error(`graphile-worker: ${message}`); });

export async function makeGraphileWorker({ pollInterval, concurrency }) {
  // its documentation names these for high throughput with low latency
  const worker = {
    concurrentJobs: concurrency, pollInterval, localQueue: { size: concurrency + 1 }, completeJobBatchDelay: 0,
    failJobBatchDelay: 0, maxPoolSize: 25, logger: silent,
  };
  const utils = await makeWorkerUtils({ preset: { worker } });
  await utils.migrate();
  let runner = null;
  return {
    settings: `graphile-worker: concurrentJobs ${concurrency}, pollInterval ${pollInterval} ms, maxPoolSize 25, ` +
      `localQueue.size ${concurrency + 1}, completeJobBatchDelay 0, failJobBatchDelay 0, addJobs of up to 1,000`,
    async schedule(tasks) {
      await utils.addJobs(tasks.map(({ due, payload, id }) => ({
        identifier: 'task', payload: { due, payload }, runAt: new Date(due), ...(id && { jobKey: id }),
      })));
    },
    async open(start, finished) {
      runner = await run({
        preset: { worker }, noHandleSignals: true,
        taskList: { task: async ({ due }) => start(due) },
      });
      runner.events.on('job:success', finished);
    },
    close: () => runner.stop(),
    settle: () => utils.withPgClient(client => client.query('checkpoint')),
    clear: () => utils.withPgClient(client => client.query('truncate graphile_worker._private_jobs')),
    async end() {
      await utils.withPgClient(client => client.query('drop schema graphile_worker cascade'));
      await utils.release();
    },
  };
}
