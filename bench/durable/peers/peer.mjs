// Runs the workloads with one peer, and prints a line of JSON for each row.
//
//   node peer.mjs '{"peer": "bullmq", "appendfsync": "always", "folder": "/var/tmp", "pending": 1000000, "operations": 100000,
//                   "rates": [1000, 10000], "seconds": 10}'
import { makeBullmq } from './bullmq.mjs';
import { makeGraphileWorker } from './graphile_worker.mjs';
import { fill, lateness, scheduleRate, startRate } from './workloads.mjs';

const concurrency = 1024;
const options = { concurrency, ...JSON.parse(process.argv[2]) };
const name = options.peer === 'bullmq' ? `bullmq ${options.appendfsync}` : `graphile-worker ${options.pollInterval} ms`;
const print = row => process.stdout.write(JSON.stringify(row) + '\n');

const peer = await (options.peer === 'bullmq' ? makeBullmq : makeGraphileWorker)(options);
print({ note: name, text: peer.settings });
await fill(peer, options.pending);
print({ name: `${name}: schedule`, per_second: await scheduleRate(peer, options.operations, false) });
print({ name: `${name}: schedule with ids`, per_second: await scheduleRate(peer, options.operations, true) });
print({ name: `${name}: start`, per_second: await startRate(peer, options.operations) });
for (const rate of options.rates) {
  const late = await lateness(peer, rate, options.seconds);
  print({ name: `${name}: lateness ${rate}`, ...late });
  if (late.missing === 0) continue;
  await peer.clear(); // otherwise these would delay the tasks of the next rate
  await fill(peer, options.pending);
}
await peer.end();
process.exit(0);
