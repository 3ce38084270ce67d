-- What is done to one bucket as a whole.
--
-- KEYS: the bucket. ARGV: what is asked; the time, or '' for the server's own; then what the question has beside.
local bucket, ask = KEYS[1], ARGV[1]
local LAST, SEEN, OWNER, TOKEN, SINCE, UNTIL, EPOCH, KEPT, LABEL, IDENTITY, GONE, GONE_OWNER, GONE_HOW =
  1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 18

local function digits(number) return string.format('%.0f', number) end

local function less(a, b) return #a < #b or (#a == #b and a < b) end

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end
local found = redis.call('HMGET', bucket, 'e', 'f', 'n', 't', 'm')
local epoch, floor, count = found[1], found[2], tonumber(found[3])
if not epoch then return {'none'} end
if not (floor and count and found[4] and found[5]) then
  return {'damaged', epoch, 0, 0, 0, 'a bucket has lost fields'}
end
-- As it was found: see decide/row.lua.
local before = count
local dead = tonumber(string.match(found[5], '(%d+)$') or '0')

-- Every row, as {name, row}; one that cannot be read costs itself alone.
local function each(fields, visit)
  for index = 1, #fields, 2 do
    local field = fields[index]
    if string.sub(field, 1, 1) == 'r' then
      local sound, row = pcall(cmsgpack.unpack, fields[index + 1])
      if sound and type(row) == 'table' and #row >= GONE_HOW then
        if row[OWNER] ~= '' and row[EPOCH] ~= epoch and row[SINCE] <= dead and row[UNTIL] > dead then row[UNTIL] = dead end
        visit(string.sub(field, 2), row)
      end
    end
  end
end

local asked = {}

-- The resources whose names begin with a text.
function asked.list()
  local prefix, seen = ARGV[3], {}
  each(redis.call('HGETALL', bucket), function(name, row)
    if string.sub(name, 1, #prefix) ~= prefix then return end
    local at, held = math.max(now, row[SEEN]), row[OWNER] ~= ''
    local occupant, gone = false, false
    if held and at < row[UNTIL] then
      occupant = {row[OWNER], row[TOKEN], at - row[SINCE], row[UNTIL] - at, row[KEPT], row[LABEL], row[IDENTITY]}
    end
    if not held and row[GONE] ~= '' then gone = {row[GONE], row[GONE_OWNER], row[GONE_HOW]} end
    local good = redis.call('HGET', bucket, 'g' .. name)
    seen[#seen + 1] = {name, row[LAST], occupant, gone, good and cmsgpack.unpack(good)}
  end)
  return {'list', epoch, digits(count), digits(before), 0, seen}
end

-- The names of the bucket's pools.
local function pools(fields, visit)
  for index = 1, #fields, 2 do
    if string.sub(fields[index], 1, 1) == 'p' then visit(string.sub(fields[index], 2)) end
  end
end

-- The same names, without what stands under them and under all others.
function asked.pools()
  local names = {}
  for _, field in ipairs(redis.call('HKEYS', bucket)) do
    if string.sub(field, 1, 1) == 'p' then names[#names + 1] = string.sub(field, 2) end
  end
  return {'pools', epoch, digits(count), digits(before), 0, names}
end

-- Whether the bucket has granted this lease, under whatever name, as far as it remembers.
function asked.granted()
  local owner, token, yes = ARGV[3], ARGV[4], 0
  local fields = redis.call('HGETALL', bucket)
  each(fields, function(_, row)
    if (row[OWNER] == owner and row[TOKEN] == token) or (row[GONE_OWNER] == owner and row[GONE] == token) then yes = 1 end
  end)
  pools(fields, function(name)
    local pool = bucket .. ':pool:' .. name
    local slot = redis.call('HGET', pool, 'o' .. owner)
    local value = slot and redis.call('HGET', pool, 's' .. slot)
    local sound, row = pcall(cmsgpack.unpack, value or '')
    -- Owner and token of a slot's lease, and of the last one that was given back: see the script about slots.
    if sound and row and ((row[2] == owner and row[3] == token) or (row[15] == owner and row[14] == token)) then yes = 1 end
  end)
  return {'granted', epoch, digits(count), digits(before), 0, yes}
end

-- Forgets what nobody has held since a time, raising the floor to the greatest token among it. Of slots, the holds alone.
function asked.prune()
  local since, past = now - tonumber(ARGV[3]), ARGV[4]
  local fields, gone, resources, holds = redis.call('HGETALL', bucket), {}, 0, 0
  local function shorten(list)
    while true do
      local oldest = redis.call('LINDEX', list, -1)
      if not oldest or cmsgpack.unpack(oldest)[8] > since then return end
      redis.call('RPOP', list)
      holds = holds + 1
    end
  end
  local good = {}
  for index = 1, #fields, 2 do
    local field = fields[index]
    if string.sub(field, 1, 1) == 'g' then good[string.sub(field, 2)] = cmsgpack.unpack(fields[index + 1])[4] end
  end
  each(fields, function(name, row)
    local list = past .. name
    if row[SEEN] <= since and (row[OWNER] == '' or row[UNTIL] <= since) then
      if less(floor, row[LAST]) then floor = row[LAST] end
      resources, holds = resources + 1, holds + redis.call('LLEN', list)
      redis.call('DEL', list)
      gone[#gone + 1] = 'r' .. name
    else
      shorten(list)
    end
  end)
  pools(fields, function(name)
    for _, field in ipairs(redis.call('HKEYS', bucket .. ':pool:' .. name)) do
      local slot = string.match(field, '^s(%d+)$')
      if slot then shorten(past .. name .. '#' .. slot) end
    end
  end)
  for index = 1, #fields, 2 do
    local field, value = fields[index], fields[index + 1]
    local kind = string.sub(field, 1, 1)
    if kind == 'd' then
      local name, once = string.match(field, '^d([^%z]+)%z(.*)$')
      if cmsgpack.unpack(value)[5] <= since and good[name] ~= '=' .. once then gone[#gone + 1] = field end
    end
  end
  for index = 1, #gone, 1000 do
    redis.call('HDEL', bucket, unpack(gone, index, math.min(index + 999, #gone)))
  end
  if #gone > 0 then
    count = count + 1
    redis.call('HSET', bucket, 'f', floor, 'n', digits(count))
  end
  return {'pruned', epoch, digits(count), digits(before), 0, resources, holds, floor}
end

-- No token at or below this is issued from now on.
function asked.raise()
  if less(floor, ARGV[3]) then
    floor, count = ARGV[3], count + 1
    redis.call('HSET', bucket, 'f', floor, 'n', digits(count))
  end
  return {'raised', epoch, digits(count), digits(before), 0, floor}
end

return asked[ask]()
