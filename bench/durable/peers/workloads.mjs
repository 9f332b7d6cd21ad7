// The workloads of durable_bench for a peer: the same load, and the same lateness.
//
// A peer has
//   schedule(tasks)         promises that they are durable; a task is {due, payload, id}, and due is in milliseconds since 1970.
//                           With an id it is kept if the id is known. Without one the peer gives it an id of its own.
//   open(start, finished)   makes a worker, which calls start(due) for each task, and finished() when its end is confirmed
//   close()                 ends the worker
//   settle()                lets the server be as it is after some hours
//   clear()                 removes all tasks
// The worker is this process, as in durable_bench.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const batch = 1000;
const batchesInFlight = 8;
const ahead = 2000;
const tick = 10;
const payload = 'p'.repeat(100);

const steady = () => performance.now();
const wall = () => performance.timeOrigin + performance.now();
const percentile = (sorted, p) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))];

// 32 bytes in no order, like the ids of durable_bench.
let ids = 0;
const newId = () => {
  const half = () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, '0');
  return half() + half() + (ids++).toString(16).padStart(16, '0');
};

async function scheduleAll(peer, count, due, withIds = false) {
  let next = 0;
  const one = async () => {
    while (next < count) {
      const size = Math.min(batch, count - next);
      next += size;
      await peer.schedule(Array.from({ length: size }, () => withIds ? { due, payload, id: newId() } : { due, payload }));
    }
  };
  await Promise.all(Array.from({ length: batchesInFlight }, one));
}

async function until(done, patience) {
  const end = steady() + patience;
  while (!done() && steady() < end) await sleep(1);
}

/** Schedules the tasks that wait during all workloads. They are due in a day. */
export async function fill(peer, count) {
  await scheduleAll(peer, count, Date.now() + 86_400_000);
}

/** Tasks per second that are scheduled a day ahead. */
export async function scheduleRate(peer, count, withIds) {
  await fill(peer, batch);
  const before = steady();
  await scheduleAll(peer, count, Date.now() + 86_400_000, withIds);
  return count / (steady() - before) * 1000;
}

/** Tasks per second that are due at once, and are started and completed. */
export async function startRate(peer, count) {
  await scheduleAll(peer, count, Date.now());
  let finished = 0;
  const before = steady();
  await peer.open(() => {}, () => { ++finished; });
  await until(() => finished >= count, 120_000);
  const rate = finished / (steady() - before) * 1000;
  await peer.close();
  return rate;
}

/** Times from due to the handler, in microseconds, at a steady rate of tasks that are scheduled two seconds ahead. */
export async function lateness(peer, perSecond, seconds) {
  const count = perSecond * seconds;
  const late = [];
  let warm = 0;
  await peer.settle();
  await peer.open(due => { due === 0 ? ++warm : late.push(wall() - due); }, () => {});
  // the code is compiled, and the connections are made
  await scheduleAll(peer, 2 * batch, 0);
  await until(() => warm === 2 * batch, 60_000);

  const first = Date.now() + ahead + tick;
  const dueOf = i => first + Math.floor(i * 1000 / perSecond);
  let next = 0;
  let inFlight = 0;
  let failure = null;
  const end = steady() + 1000 * seconds + ahead + 30_000;
  while (failure === null && late.length < count && steady() < end) {
    while (next < count && inFlight < batchesInFlight && dueOf(next) - Date.now() <= ahead) {
      const tasks = [];
      while (tasks.length < batch && next < count && dueOf(next) - Date.now() <= ahead)
        tasks.push({ due: dueOf(next++), payload });
      ++inFlight;
      peer.schedule(tasks).then(() => { --inFlight; }, error => { failure = error; });
    }
    await sleep(tick);
  }
  if (failure !== null) throw failure;
  // a task that never started is at least as late as it was when the run ended
  const missing = count - late.length;
  const now = wall();
  for (let i = 0; i < missing; ++i) late.push(now - dueOf(count - 1 - i));
  await peer.close();
  late.sort((a, b) => a - b);
  return { p50_us: 1000 * percentile(late, 0.5), p99_us: 1000 * percentile(late, 0.99), max_us: 1000 * late.at(-1), missing };
}
