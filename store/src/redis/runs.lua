-- The runs of the server that have gone on with this history, which lie in the first bucket: 's.last' is the number and the
-- name of the last one, 's.runs' has the last few, each as {number, name, the counts of all buckets as it began}, the last
-- one first. Of a run that was not heard of from its beginning there are no counts. Programs that know nothing of runs
-- leave both fields as they are, so that a run may be missing.
local RUNS = 8

local function last_run()
  local number, name = string.match(redis.call('HGET', KEYS[1], 's.last') or '', '^(%d+) (.*)$')
  return tonumber(number or 0), name
end

local function last_runs()
  local all = redis.call('HGET', KEYS[1], 's.runs')
  return all and cmsgpack.unpack(all) or {}
end

-- The number of the run that goes on now, which is written down where it is not yet.
local function enter(name, counts)
  local number, last = last_run()
  if last == name then return number end
  -- Where all was wiped the numbers go on above those that were known before.
  if not last then number = tonumber(redis.call('TIME')[1]) end
  local all = last_runs()
  table.insert(all, 1, {number + 1, name, counts})
  while #all > RUNS do all[#all] = nil end
  redis.call('HSET', KEYS[1], 's.last', string.format('%.0f %s', number + 1, name), 's.runs', cmsgpack.pack(all))
  return number + 1
end
