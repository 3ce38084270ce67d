-- Setting a store up, and opening a new epoch in it: in all of its buckets at once.
--
-- KEYS: all buckets. ARGV: 'migrate' or 'open'; the time, or '' for the server's own; the new epoch; the version of what is
-- stored, as it is there already or is to be; the earliest believable time; the longest ttl; the server's run, its place, its
-- former history, and whether it keeps all that it answered; who may use that version; the name of the server's run; for 'open'
-- the epoch that is to end, a token that was seen, whether the old holders are dead, and how many epochs that took its place may
-- be lost.
local ask, new, version, earliest, longest = ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local GREATEST, LEAP = '9223372036854775807', 4294967296

local function digits(number) return string.format('%.0f', number) end

local function less(a, b) return #a < #b or (#a == #b and a < b) end

local function greater_of(a, b) return less(a, b) and b or a end

-- Above tokens of a lost history there may be others, which are lost with it.
local function beyond(token)
  local head, tail = tonumber(string.sub(token, 1, -10)) or 0, tonumber(string.sub(token, -9)) + LEAP
  head, tail = head + math.floor(tail / 1e9), tail % 1e9
  local sum = head == 0 and digits(tail) or digits(head) .. string.format('%09.0f', tail)
  return less(sum, GREATEST) and sum or GREATEST
end

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local there, current, agreed, greatest, dead, stamps = 0, false, true, '0', '0', '0'
local counts = {}
for index, bucket in ipairs(KEYS) do
  local found = redis.call('HMGET', bucket, 'e', 'f', 'n', 't', 'v', 'm', 'i')
  counts[index] = tonumber(found[3]) or 0
  if found[1] then
    if index == 1 and found[5] ~= version then return {'version', found[5] or ''} end
    there = there + 1
    agreed = agreed and (not current or current == found[1])
    current = current or found[1]
    dead = greater_of(dead, string.match(found[6] or '', '(%d+)$') or '0')
    stamps = greater_of(stamps, found[7] or '0')
    greatest = greater_of(greater_of(greatest, found[2] or '0'), found[4] or '0')
  end
end

-- include runs

-- The number of the run that goes on; none where nobody has written it down.
local function here()
  local number, name = last_run()
  return name == ARGV[12] and number or 0
end

if ask == 'migrate' and there == #KEYS and agreed then
  -- A store from before there was this number.
  redis.call('HSETNX', KEYS[1], 'u', ARGV[11])
  return {'there', current, here()}
end
if ask == 'open' and there == 0 then return {'none'} end
if ask == 'open' and there == #KEYS and agreed and current ~= ARGV[13] then return {'there', current, here()} end
if now < earliest then return {'clock', digits(now)} end

local floor, more = '0', ''
if there > 0 then
  -- Whatever ID time was given out ends at most that long after now.
  stamps = greater_of(stamps, digits(now + longest))
  -- Each epoch that was lost may have begun that far above the one before, and have issued tokens above that.
  for _ = 1, ask == 'open' and 1 + 2 * tonumber(ARGV[16]) or 1 do greatest = beyond(greatest) end
  floor = greater_of(greatest, digits(now))
  if ask == 'open' then floor = greater_of(floor, ARGV[14]) end
  local at_once = ask == 'open' and ARGV[15] == '1'
  more = digits(now) .. ' ' .. (at_once and '0' or digits(now + longest)) .. ' ' .. (at_once and digits(now) or dead)
end
for index, bucket in ipairs(KEYS) do
  redis.call('HSET', bucket, 'e', new, 'f', floor, 'n', digits(counts[index] + 1), 't', '0', 'm', more, 'i', stamps)
end
redis.call('HSET', KEYS[1], 'v', version, 'u', ARGV[11], 's.run', ARGV[7], 's.place', ARGV[8], 's.former', ARGV[9],
  's.durable', ARGV[10], 's.left', current or '')
return {'opened', new, enter(ARGV[12], {})}
