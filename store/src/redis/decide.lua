-- One decision about one resource. Its row, and what holds for all rows of its bucket, lie in one hash, so that whatever
-- takes a row away takes the epoch with it.
--
-- KEYS: the bucket; the list of the resource's holds that have ended.
-- ARGV: what is asked; the time, or '' for the server's own; the epoch believed in, or ''; the resource; how many holds to
-- keep; then what the question has beside.
--
-- Times are microseconds since 1970 by the server's clock, exact as doubles until 2255. Tokens and attempts reach 2^63 and
-- are therefore texts of digits: never add to them, or print a number, but by the functions below.
local bucket, past = KEYS[1], KEYS[2]
local ask, believed, name, keep = ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[5])
local GREATEST, YEAR = '9223372036854775807', 31536e9
-- Withdrawn owners are remembered for longer than any request of theirs is on its way, also where the clock is set an hour
-- ahead meanwhile: three hours, in ms.
local REMEMBER = '10800000'
-- The fields of a row.
local LAST, SEEN, OWNER, TOKEN, SINCE, UNTIL, EPOCH, KEPT, TOLD, RENEWED, RENEWALS, LABEL, IDENTITY, ASKER, ATTEMPT,
  GONE, GONE_OWNER, GONE_HOW, FIELDS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18

-- Lua's own conversion keeps 14 digits.
local function digits(number) return string.format('%.0f', number) end

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

local read = {'e', 'f', 'n', 't', 'm', 'r' .. name}
if ask == 'acquire' or ask == 'reacquire' then
  if ARGV[11] ~= '' then read[7] = 'd' .. name .. '\0' .. string.sub(ARGV[11], 2) end
elseif ask == 'inspect' then
  read[7] = 'g' .. name
end
local found = redis.call('HMGET', bucket, unpack(read))
local epoch, floor, count, top = found[1], found[2], tonumber(found[3]), found[4]
if not epoch then return {'none'} end
if not (floor and count and top and found[5]) then return {'damaged', epoch, '0', 0, 'its bucket has lost fields'} end

-- When the epoch was opened, before when it grants nothing, and from when leases of former ones are over.
local opened, grants_from, dead = 0, 0, 0
if found[5] ~= '' then
  opened, grants_from, dead = string.match(found[5], '^(%d+) (%d+) (%d+)$')
  opened, grants_from, dead = tonumber(opened), tonumber(grants_from), tonumber(dead)
end

local row = {'', 0, '', '', 0, 0, '', 0, 0, 0, 0, '', '', '', '0', '', '', ''}
if found[6] then
  local sound, value = pcall(cmsgpack.unpack, found[6])
  if not sound or type(value) ~= 'table' or #value < FIELDS then
    return {'damaged', epoch, digits(count), 0, 'its row cannot be read'}
  end
  row = value
end
local held = row[OWNER] ~= ''
if held and less(row[LAST], row[TOKEN]) then
  return {'damaged', epoch, digits(count), 0, 'its lease has a token greater than the last one issued'}
end
if held and row[EPOCH] ~= epoch and row[SINCE] <= dead and row[UNTIL] > dead then row[UNTIL] = dead end
local at = math.max(now, row[SEEN])
local rewound = 0

local function live() return held and at < row[UNTIL] end

local function say(what, ...)
  local said = {what, epoch, digits(count), rewound}
  for index = 1, select('#', ...) do said[4 + index] = (select(index, ...)) end
  return said
end

local function occupant()
  if not live() then return false end
  return {row[OWNER], row[TOKEN], at - row[SINCE], row[UNTIL] - at, row[KEPT], row[LABEL], row[IDENTITY]}
end

local function gone()
  if row[GONE] == '' then return false end
  return {row[GONE], row[GONE_OWNER], row[GONE_HOW]}
end

local function rejected(reason) return say('rejected', reason, occupant(), not held and gone()) end

local function remember(entry)
  if keep > 0 then
    redis.call('LPUSH', past, cmsgpack.pack(entry))
    redis.call('LTRIM', past, 0, keep - 1)
  end
end

-- How the current hold ended, as far as nobody was told before.
local function ended(how, result, reason)
  local ends = how == 'expired' and row[UNTIL] or at
  if row[EPOCH] ~= epoch and row[UNTIL] >= opened then how, ends = 'lost', math.min(ends, opened) end
  return {row[TOKEN], row[OWNER], row[LABEL], row[IDENTITY], row[SINCE], row[RENEWED], row[RENEWALS], ends, how,
    result or '', reason or ''}
end

local function tell(how, result, reason)
  if row[TOLD] == 0 then
    row[TOLD] = 1
    remember(ended(how, result, reason))
  end
end

local function write(...)
  row[SEEN] = at
  count = count + 1
  redis.call('HSET', bucket, 'n', digits(count), 'r' .. name, cmsgpack.pack(row), ...)
end

local function vacate(how)
  row[GONE], row[GONE_OWNER], row[GONE_HOW] = row[TOKEN], row[OWNER], how
  row[OWNER], row[TOKEN], held = '', '', false
end

-- The token after the last one; nothing where there is none.
local function next_token()
  local last = greater_of(row[LAST] ~= '' and row[LAST] or digits(now), floor)
  return less(last, GREATEST) and plus_one(last)
end

-- A key of its own for each, which the server forgets by itself: in the bucket they would pile up.
local function withdrawal(owner) return bucket .. ':withdrawn:' .. name .. '\0' .. owner end

-- An answer that says that a lease is over has to stay true.
local function expired()
  tell('expired')
  write()
  return rejected('Expired')
end

-- Why nothing can be done under this lease.
local function not_current(owner, token)
  if not held then return rejected('Vacant') end
  if row[OWNER] ~= owner then return rejected('WrongOwner') end
  if row[TOKEN] ~= token then return rejected('StaleToken') end
  if not live() then return expired() end
end

local function of_another_epoch(owner, token)
  return believed ~= '' and believed ~= epoch or held and row[OWNER] == owner and row[TOKEN] == token and row[EPOCH] ~= epoch
end

-- Whether the caller knows of a grant in this epoch that this history does not have.
local function look_for_loss(token)
  local last = greater_of(row[LAST], floor)
  if believed ~= '' and less(last, token) and not less(digits(now + YEAR), token) then rewound = 1 end
end

local asked = {}

function asked.acquire(again)
  local owner, ttl, attempt, label, identity = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10]
  if believed ~= '' and believed ~= epoch then return say('epoch') end
  if found[7] then return say('done', cmsgpack.unpack(found[7])) end
  if redis.call('EXISTS', withdrawal(owner)) == 1 then return say('superseded', 'the owner has withdrawn') end
  if row[ASKER] == owner and not less(row[ATTEMPT], attempt) then
    local own = held and row[OWNER] == owner and row[EPOCH] == epoch and row[KEPT] == 0
    if own and live() then return say('granted', row[TOKEN], row[UNTIL] - at) end
    if own then
      tell('expired')
      write()
      return say('superseded', 'its lease has run out')
    end
    return say('superseded', 'attempt ' .. row[ATTEMPT] .. ' of the owner was answered before')
  end
  if ttl == 0 then return rejected('InvalidTtl') end
  -- Work that has ended holds its resource back from everyone, its own owner included.
  if live() and not (again and row[KEPT] == 0 and row[OWNER] == owner) then return rejected('Occupied') end
  local token = next_token()
  if not token then return rejected('TokensExhausted') end
  if at < grants_from then return say('held back', grants_from - at) end
  if held and row[KEPT] == 0 then tell(live() and 'rotated' or 'expired') end
  row[LAST], row[OWNER], row[TOKEN], row[SINCE], row[UNTIL], row[EPOCH] = token, owner, token, at, at + ttl, epoch
  row[KEPT], row[TOLD], row[RENEWED], row[RENEWALS], row[LABEL], row[IDENTITY] = 0, 0, at, 0, label, identity
  row[ASKER], row[ATTEMPT] = owner, attempt
  write('t', greater_of(top, token))
  return say('granted', token, ttl)
end

function asked.reacquire() return asked.acquire(true) end

function asked.renew()
  local owner, token, ttl = ARGV[6], ARGV[7], tonumber(ARGV[8])
  if of_another_epoch(owner, token) then return say('epoch') end
  if held and row[KEPT] == 1 and row[TOKEN] == token and ttl > 0 then
    -- It was released; nothing extends it, whatever was in flight.
    return say('rejected', 'Vacant', occupant(), gone())
  end
  look_for_loss(token)
  if ttl == 0 then return rejected('InvalidTtl') end
  local refusal = not_current(owner, token)
  if refusal then return refusal end
  row[UNTIL] = math.max(row[UNTIL], at + ttl)
  row[RENEWED], row[RENEWALS] = at, row[RENEWALS] + 1
  write()
  return say('renewed', token, row[UNTIL] - at)
end

function asked.release()
  local owner, token, result, once, at_least = ARGV[6], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
  if of_another_epoch(owner, token) then return say('epoch') end
  if row[GONE] == token and row[GONE_OWNER] == owner and row[GONE_HOW] == 'released' then return say('already') end
  look_for_loss(token)
  local refusal = not_current(owner, token)
  if refusal then return refusal end
  local good = {}
  if result == 'good' then
    local work = cmsgpack.pack({token, owner, row[LABEL], once, now})
    good = {'g' .. name, work}
    if once ~= '' then redis.call('HSETNX', bucket, 'd' .. name .. '\0' .. string.sub(once, 2), work) end
  end
  tell('released', result)
  local left = row[SINCE] + at_least - at
  if left > 0 then
    row[UNTIL], row[KEPT] = at + left, 1
    row[GONE], row[GONE_OWNER], row[GONE_HOW] = token, owner, 'released'
    write(unpack(good))
    return say('retained', left)
  end
  vacate('released')
  write(unpack(good))
  return say('released')
end

function asked.withdraw()
  local owner = ARGV[6]
  redis.call('SET', withdrawal(owner), '1', 'PX', REMEMBER)
  if held and row[OWNER] == owner and row[KEPT] == 0 then
    if not live() then return expired() end
    tell('withdrawn')
    vacate('withdrawn')
    write()
    return say('released')
  end
  if row[GONE_OWNER] == owner and row[GONE_HOW] ~= 'revoked' then return say('already') end
  return rejected(held and 'WrongOwner' or 'Vacant')
end

function asked.revoke()
  local expect, reason = ARGV[6], ARGV[7]
  if expect ~= '' and not held then return rejected('Vacant') end
  if expect ~= '' and row[TOKEN] ~= expect then return rejected('StaleToken') end
  local token, broken = next_token(), live() and row[KEPT] == 0
  if held and row[KEPT] == 0 then tell(broken and 'revoked' or 'expired', '', broken and reason) end
  if token and not broken then remember({token, '0', '', '', now, now, 0, now, 'revoked', '', reason}) end
  if held and row[KEPT] == 1 then
    -- Its holder had released it, and may ask again whether it did.
    row[OWNER], row[TOKEN], held = '', '', false
  elseif held then
    vacate('revoked')
  end
  row[LAST] = token or GREATEST
  write('t', greater_of(top, row[LAST]))
  if not token then return say('rejected', 'TokensExhausted', false, false) end
  return say('burnt', token)
end

function asked.inspect()
  return say('seen', row[LAST], occupant(), not held and gone(), found[7] and cmsgpack.unpack(found[7]))
end

function asked.history()
  local holds, limit = {}, tonumber(ARGV[6])
  if held and row[KEPT] == 0 and row[TOLD] == 0 then
    if live() and row[EPOCH] == epoch then
      holds[1] = ended('held')
      holds[1][8] = row[UNTIL]
    else
      holds[1] = ended('expired')
    end
  end
  if limit > #holds then
    for _, entry in ipairs(redis.call('LRANGE', past, 0, limit - #holds - 1)) do
      holds[#holds + 1] = cmsgpack.unpack(entry)
    end
  end
  while #holds > limit do holds[#holds] = nil end
  return say('holds', holds)
end

return asked[ask]()
