// Runs the workloads with one peer, and prints a line of JSON for each row.
//
//   node peer.mjs '{"peer": "bullmq", "appendfsync": "always", "folder": "/var/tmp", "operations": 100000, "rates": [1000, 10000],
//                   "seconds": 10}'
import { makeBullmq } from './bullmq.mjs';
import { makeGraphileWorker } from './graphile_worker.mjs';
import { lateness, scheduleRate, startRate } from './workloads.mjs';

const concurrency = 1024;
const options = { concurrency, ...JSON.parse(process.argv[2]) };
const name = options.peer === 'bullmq' ? `bullmq ${options.appendfsync}` : `graphile-worker ${options.pollInterval} ms`;
const print = row => process.stdout.write(JSON.stringify(row) + '\n');

const peer = await (options.peer === 'bullmq' ? makeBullmq : makeGraphileWorker)(options);
print({ note: name, text: peer.settings });
print({ name: `${name}: schedule`, per_second: await scheduleRate(peer, options.operations) });
print({ name: `${name}: start`, per_second: await startRate(peer, options.operations) });
for (const rate of options.rates)
  print({ name: `${name}: lateness ${rate}`, ...await lateness(peer, rate, options.seconds) });
await peer.end();
process.exit(0);
