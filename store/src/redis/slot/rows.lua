-- ARGV: what is asked; the time, or '' for the server's own; the epoch believed in, or ''; the pool; how many holds to keep;
-- then what the question has beside.
--
-- As for leases, times are microseconds since 1970, and tokens and attempts texts of digits. -1 stands for no time.
local ask, believed, keep = ARGV[1], ARGV[3], tonumber(ARGV[5])
local GREATEST, YEAR, REMEMBER = '9223372036854775807', 31536e9, '10800000'
-- The fields of a slot's row. IDENTITY is whose it is, or was last; AFTER is where the window of its lease begins.
local LAST, OWNER, TOKEN, SINCE, UNTIL, EPOCH, TOLD, RENEWED, RENEWALS, LABEL, IDENTITY, ASKER, ATTEMPT, GONE, GONE_OWNER,
  GONE_HOW, FREED, MARK, AFTER, FIELDS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19

local function less(a, b) return #a < #b or (#a == #b and a < b) end

local function greater_of(a, b) return less(a, b) and b or a end

local function plus_one(token)
  local head, tail = tonumber(string.sub(token, 1, -10)) or 0, tonumber(string.sub(token, -9)) + 1
  if tail == 1e9 then head, tail = head + 1, 0 end
  return head == 0 and digits(tail) or digits(head) .. string.format('%09.0f', tail)
end

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local found = redis.call('HMGET', bucket, 'e', 'f', 'n', 't', 'm', 'i', 'p' .. name)
local epoch, floor, count, top, known = found[1], found[2], tonumber(found[3]), found[4], found[7]
if not epoch then return {'none'} end

local function damaged(what) return {'damaged', epoch, 0, 0, 0, what} end

if not (floor and count and top and found[5]) then return damaged('its bucket has lost fields') end
-- When the epoch was opened, before when it grants nothing, and from when leases of former ones are over.
local opened, grants_from, dead = 0, 0, 0
if found[5] ~= '' then
  opened, grants_from, dead = string.match(found[5], '^(%d+) (%d+) (%d+)$')
  opened, grants_from, dead = tonumber(opened), tonumber(grants_from), tonumber(dead)
end
-- Stamps up to here may have been given out by a history that was lost.
local stamps_above = math.max(tonumber(found[6] or '0'), grants_from)

-- How many slots there are, the last observation, and up to when leases of former epochs have been ended.
local kept = redis.call('HMGET', pool, 'size', 'seen', 'ended')
local size, swept = tonumber(kept[1]), tonumber(kept[3] or '0')
-- Its rows may go only together with the epoch: what is left says that they are missing.
if not size and known == epoch then return damaged('the rows of a pool are gone: open a new epoch') end
local at = math.max(now, tonumber(kept[2] or '0'))
local rewound = 0
-- The bucket's count of decisions as it was found: see decide/row.lua.
local before = count

local function fresh() return {'', '', '', 0, 0, '', 0, 0, 0, '', '', '', '0', '', '', '', -1, 0, -1} end

local function unpacked(value)
  local sound, row = pcall(cmsgpack.unpack, value)
  if not sound or type(row) ~= 'table' or #row < FIELDS then return end
  if row[OWNER] ~= '' and less(row[LAST], row[TOKEN]) then return end
  return row
end

-- A slot's row, as it is by what has become of former epochs; nothing where it cannot be read.
local function read(slot)
  local value = redis.call('HGET', pool, 's' .. slot)
  if not value then return fresh() end
  local row = unpacked(value)
  if row and row[OWNER] ~= '' and row[EPOCH] ~= epoch and row[SINCE] <= dead and row[UNTIL] > dead then row[UNTIL] = dead end
  return row
end

local function held(row) return row[OWNER] ~= '' end

local function live(row) return held(row) and at < row[UNTIL] end

local function free_from(row) return held(row) and row[UNTIL] or row[FREED] end

local function say(what, ...)
  local said = {what, epoch, digits(count), digits(before), rewound}
  for index = 1, select('#', ...) do said[5 + index] = (select(index, ...)) end
  return said
end

local function occupant(row)
  if not live(row) then return false end
  return {row[OWNER], row[TOKEN], at - row[SINCE], row[UNTIL] - at, 0, row[LABEL], row[IDENTITY]}
end

local function rejected(row, reason)
  local gone = not held(row) and row[GONE] ~= '' and {row[GONE], row[GONE_OWNER], row[GONE_HOW]}
  return say('rejected', reason, occupant(row), gone)
end

local function remember(slot, entry)
  if keep > 0 then
    redis.call('LPUSH', past .. slot, cmsgpack.pack(entry))
    redis.call('LTRIM', past .. slot, 0, keep - 1)
  end
end

-- How the current hold ended, as far as nobody was told before.
local function ended(row, how, reason)
  local ends = how == 'expired' and row[UNTIL] or at
  if row[EPOCH] ~= epoch and row[UNTIL] >= opened then how, ends = 'lost', math.min(ends, opened) end
  return {row[TOKEN], row[OWNER], row[LABEL], row[IDENTITY], row[SINCE], row[RENEWED], row[RENEWALS], ends, how, '',
    reason or ''}
end

local function tell(slot, row, how, reason)
  if row[TOLD] == 0 then
    row[TOLD] = 1
    remember(slot, ended(row, how, reason))
  end
end

-- Sets up what finds a slot, and says that there are these rows.
local function make(slots)
  redis.call('HSET', pool, 'size', slots, 'ended', digits(dead))
  if not size then
    redis.call('DEL', pool .. '\0used', pool .. '\0free')
    redis.call('SETBIT', pool .. '\0used', 65536, 0)
  end
  size = slots
end

local function counted(...)
  count = count + 1
  redis.call('HSET', bucket, 'n', digits(count), ...)
  redis.call('HSET', pool, 'seen', digits(at))
  if known ~= epoch then redis.call('HSET', bucket, 'p' .. name, epoch) end
end

-- Writes a row, and what finds it. `identity` is whose it was before.
local function write(slot, row, identity)
  redis.call('HSET', pool, 's' .. slot, cmsgpack.pack(row))
  local free, spent = free_from(row), not less(row[LAST], GREATEST)
  if identity ~= row[IDENTITY] and identity ~= '' then place_in_order('own' .. identity, slot) end
  if free >= 0 or spent then redis.call('SETBIT', pool .. '\0used', slot, 1) end
  if free >= 0 then
    -- One without a greater token is closed for good, and is found only where a pool is to become smaller.
    place_in_order('free', slot, not spent and free)
    if spent then place('spent', slot, free) end
    if row[IDENTITY] ~= '' then place_in_order('own' .. row[IDENTITY], slot, not spent and -free) end
    if row[MARK] > 0 then place('mark', slot, not spent and row[MARK]) end
    if row[GONE_HOW] == 'revoked' then place('shut', slot, not held(row) and free > at and free) end
  end
  counted('t', greater_of(top, row[LAST]))
end

-- The token after the last one; nothing where there is none.
local function next_token(row)
  local last = greater_of(row[LAST] ~= '' and row[LAST] or digits(now), floor)
  return less(last, GREATEST) and plus_one(last)
end

-- An owner is known as long as it is the last to have asked for a slot, or to have given it back.
local function forget(owner, slot)
  if owner ~= '' and redis.call('HGET', pool, 'o' .. owner) == tostring(slot) then redis.call('HDEL', pool, 'o' .. owner) end
end

local function vacate(row, slot, how, from)
  if row[GONE_OWNER] ~= row[ASKER] and row[GONE_OWNER] ~= row[OWNER] then forget(row[GONE_OWNER], slot) end
  row[GONE], row[GONE_OWNER], row[GONE_HOW] = row[TOKEN], row[OWNER], how
  row[OWNER], row[TOKEN], row[FREED], row[AFTER] = '', '', from, -1
end

local function withdrawal(owner) return pool .. '\0withdrawn\0' .. owner end

-- Reserves ID time up to there, and says which is the holder's.
local function reserve(row, time_until)
  if row[AFTER] < 0 then row[AFTER] = row[MARK] end
  row[MARK] = math.max(row[MARK], time_until)
end

local function told(what, slot, row, with_window)
  local after = with_window and row[AFTER] >= 0 and digits(row[AFTER]) or ''
  return say(what, row[TOKEN], row[UNTIL] - at, slot, after, digits(row[MARK]), digits(now))
end

-- The slot whose last asker is this owner, and its row.
local function own_of(owner)
  local slot = tonumber(redis.call('HGET', pool, 'o' .. owner) or '')
  local row = slot and read(slot)
  if slot and not row then return slot end
  if row and row[ASKER] == owner then return slot, row end
end

-- Where an operator has said that the holders of former epochs are dead, what finds a slot hears of it once. Rows need not:
-- they are read by what is said.
local function sweep()
  if not size or swept >= dead then return end
  for block = 0, 255 do
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', set_of('free', block * WIDTH), '(' .. digits(dead), '+inf')) do
      local slot = tonumber(number)
      local row = read(slot)
      if row and held(row) then
        place_in_order('free', slot, row[UNTIL])
        if row[IDENTITY] ~= '' then place_in_order('own' .. row[IDENTITY], slot, -row[UNTIL]) end
      end
    end
  end
  redis.call('HSET', pool, 'ended', digits(dead))
end
