// A client in JavaScript: schedules, reads, cancels, and is called.  node fetch.mjs ADDRESS
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';

const timers = `http://${process.argv[2]}/v1/timers`;
const callee = createServer().listen(0, '127.0.0.1');
await once(callee, 'listening');
const callback = `http://127.0.0.1:${callee.address().port}/due`;
const put = (id, document) => fetch(`${timers}/${encodeURIComponent(id)}`,
  { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(document) });

// ids are percent-encoded, whatever is in them
const id = 'Auftrag 7/ü?';
const scheduled = await put(id, { in: 'PT0.2S', callback, headers: { 'X-Shop': '7' }, body: 'ä "7"' });
assert.equal(scheduled.status, 201);
assert.equal((await scheduled.json()).id, id);
const [request, response] = await once(callee, 'request');
let body = '';
for await (const chunk of request) body += chunk;
response.writeHead(204).end();
assert.equal(body, 'ä "7"');
assert.equal(request.headers['x-shop'], '7');
assert.equal(decodeURIComponent(request.headers['timer-id']), id);
assert.ok(new Date(request.headers['timer-due']) <= new Date());

// many at once, over the connections that fetch keeps
const due = new Date(Date.now() + 3_600_000).toISOString();
const ids = Array.from({ length: 200 }, (_, i) => `n-${i}`);
const answers = await Promise.all(ids.map((each) => put(each, { due, callback })));
assert.ok(answers.every((a) => a.status === 201));
for (const answer of answers) assert.equal(new Date((await answer.json()).due).toISOString(), due);
assert.equal((await put(ids[0], { due, callback })).status, 200);
const page = await (await fetch(`${timers}?state=pending&limit=100`)).json();
assert.equal(page.timers.length, 100);
const rest = await (await fetch(`${timers}?state=pending&limit=1000&after=${encodeURIComponent(page.next_after)}`)).json();
assert.equal(rest.timers.length, 100);
const gone = await Promise.all(ids.map((each) => fetch(`${timers}/${each}`, { method: 'DELETE' })));
assert.ok(gone.every((a) => a.status === 204));

// a mistake is a problem document
const mistake = await put('x', { in: '1h', callback, colour: 'red' });
assert.equal(mistake.status, 422);
assert.equal(mistake.headers.get('content-type'), 'application/problem+json');
assert.match((await mistake.json()).detail, /colour/);

callee.close();
callee.closeAllConnections();
console.log('fetch: all right');
