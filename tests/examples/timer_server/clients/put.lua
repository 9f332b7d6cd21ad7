-- wrk: each request schedules another timer.
local count, thread = 0, 0
function setup(t)
  t:set('number', thread)
  thread = thread + 1
end
function request()
  count = count + 1
  return wrk.format('PUT', string.format('/v1/timers/wrk-%d-%d', number, count), { ['Content-Type'] = 'application/json' },
    '{"in":"1h","callback":"http://127.0.0.1:9/"}')
end
