-- include slot-index
-- include slot-rows

local asked = {}

-- The slot that a claim gets, in the order of the core's pool; without one, when the first comes free.
local function find(low, high, time_until, cool_down, identity, exclusive, gone, gone_token)
  if time_until and time_until <= stamps_above or not less(floor, GREATEST) then return end
  local passed, own = passing(time_until), 'own' .. identity
  if identity ~= '' and size then
    local slot, score
    if exclusive then
      slot, score = first_of(own, low, high, '-inf', false, passing(time_until, at))
      if slot and -score > at then return slot end
    end
    if gone and gone >= low and gone <= high then
      local row = read(gone)
      if not row then return gone end
      local taken = live(row) and row[TOKEN] == gone_token and row[IDENTITY] == identity
      if taken and not (time_until and time_until <= row[MARK]) and less(row[LAST], GREATEST) then return gone end
    end
    if not exclusive then slot = first_of(own, low, high, digits(-at), false, passed) end
    if slot then return slot end
  end
  local slot = not size and low or size and never_used(low, high)
  if slot then return slot end
  local free
  slot, free = first_of('free', low, high, '-inf', false, passed)
  if slot and free + cool_down <= at then return slot end
  local chance = slot and free + cool_down
  if identity ~= '' then
    -- Its own need no rest. They are the last ones by when they come free, the latest first.
    local soonest, score = first_of(own, low, high, '-inf', true, passed)
    if soonest then chance = math.min(chance or -score, -score) end
  end
  return nil, chance
end

function asked.claim(again)
  local owner, ttl, attempt, label, identity = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10]
  local slots, low, high, cool_down = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
  local exclusive, gone, gone_token, id_time = ARGV[15] == '1', tonumber(ARGV[16]), ARGV[17], ARGV[18] == '1'
  if believed ~= '' and believed ~= epoch then return say('epoch') end
  if redis.call('EXISTS', withdrawal(owner)) == 1 then return say('superseded', 'the owner has withdrawn') end
  sweep()
  local slot, row = own_of(owner)
  if slot and not row then return damaged('the row of a slot cannot be read') end
  if slot and not less(row[ATTEMPT], attempt) then
    if row[OWNER] ~= owner or row[EPOCH] ~= epoch then
      return say('superseded', 'attempt ' .. row[ATTEMPT] .. ' of the owner was answered before')
    end
    if live(row) then return told('granted', slot, row, true) end
    tell(slot, row, 'expired')
    write(slot, row, row[IDENTITY])
    return say('superseded', 'its lease has run out')
  end
  if size and slots > size then return say('size', size) end
  if ttl == 0 then return say('unclaimed', 'InvalidTtl') end
  high = math.min(high, slots - 1)
  local going_on = slot and live(row)
  if going_on and not (again and low <= slot and slot <= high) then return say('unclaimed', 'Occupied') end
  if low > high then return say('unclaimed', 'NoSuchSlot') end
  local time_until = id_time and now + ttl
  if not going_on then
    local chance
    slot, chance = find(low, high, time_until, cool_down, identity, exclusive, gone, gone_token)
    if not slot then return say('unclaimed', 'Exhausted', chance and chance - at) end
    row = read(slot)
    if not row then return damaged('the row of a slot cannot be read') end
    -- The row says whether it is to be had; what found it does not.
    local own = identity ~= '' and row[IDENTITY] == identity
    local taken = own and held(row) and (exclusive or gone == slot and gone_token == row[TOKEN])
    local rested = free_from(row) < 0 or free_from(row) + (own and 0 or cool_down) <= at
    if not (rested or taken) or time_until and time_until <= row[MARK] then
      return damaged('what finds the slots of a pool does not agree with their rows')
    end
  end
  row[MARK] = math.max(row[MARK], stamps_above)
  if row[EPOCH] ~= epoch or not going_on then row[AFTER] = -1 end
  local token, formerly = next_token(row), row[IDENTITY]
  if not token then return say('unclaimed', 'TokensExhausted') end
  if at < grants_from then return say('held back', grants_from - at) end
  if held(row) then tell(slot, row, live(row) and 'rotated' or 'expired') end
  if row[ASKER] ~= owner and row[ASKER] ~= row[GONE_OWNER] then forget(row[ASKER], slot) end
  row[LAST], row[OWNER], row[TOKEN], row[SINCE], row[UNTIL], row[EPOCH] = token, owner, token, at, at + ttl, epoch
  row[TOLD], row[RENEWED], row[RENEWALS], row[LABEL], row[IDENTITY] = 0, at, 0, label, identity
  row[ASKER], row[ATTEMPT], row[FREED] = owner, attempt, -1
  if time_until then reserve(row, time_until) end
  if not size then make(slots) end
  redis.call('HSET', pool, 'o' .. owner, slot)
  write(slot, row, formerly)
  return told('granted', slot, row, id_time)
end

function asked.reclaim() return asked.claim(true) end

-- Why nothing can be done under this lease; nothing where it stands.
local function refusal(row, slot, owner, token, shortest)
  -- Whether the caller knows of a grant in this epoch that this history does not have.
  local last = greater_of(row[LAST], floor)
  if believed ~= '' and less(last, token) and not less(digits(now + YEAR), token) then rewound = 1 end
  if shortest == 0 then return rejected(row, 'InvalidTtl') end
  if not held(row) then return rejected(row, 'Vacant') end
  if row[OWNER] ~= owner then return rejected(row, 'WrongOwner') end
  if row[TOKEN] ~= token then return rejected(row, 'StaleToken') end
  if live(row) then return end
  -- An answer that says that a lease is over has to stay true.
  tell(slot, row, 'expired')
  write(slot, row, row[IDENTITY])
  return rejected(row, 'Expired')
end

-- The row of a slot that the pool has; else one that nobody ever held.
local function row_of(slot)
  if not size or slot >= size then return fresh() end
  return read(slot)
end

local function of_another_epoch(row, owner, token)
  return believed ~= '' and believed ~= epoch or row[OWNER] == owner and row[TOKEN] == token and row[EPOCH] ~= epoch
end

function asked.renew(slot, row)
  local owner, token, ttl = ARGV[7], ARGV[8], tonumber(ARGV[9])
  if of_another_epoch(row, owner, token) then return say('epoch') end
  local refused = refusal(row, slot, owner, token, ttl)
  if refused then return refused end
  row[MARK] = math.max(row[MARK], stamps_above)
  row[UNTIL] = math.max(row[UNTIL], at + ttl)
  row[RENEWED], row[RENEWALS] = at, row[RENEWALS] + 1
  if ARGV[10] == '1' then reserve(row, now + ttl) end
  write(slot, row, row[IDENTITY])
  return told('renewed', slot, row, ARGV[10] == '1')
end

function asked.release(slot, row)
  local owner, token, last_used = ARGV[7], ARGV[8], tonumber(ARGV[9])
  if of_another_epoch(row, owner, token) then return say('epoch') end
  if row[GONE] == token and row[GONE_OWNER] == owner and row[GONE_HOW] == 'released' then return say('already') end
  local refused = refusal(row, slot, owner, token)
  if refused then return refused end
  tell(slot, row, 'released')
  row[MARK] = math.max(row[MARK], stamps_above)
  if last_used then row[MARK] = math.max(last_used, row[AFTER] < 0 and row[MARK] or row[AFTER]) end
  if row[MARK] == 0 then place('mark', slot) end
  vacate(row, slot, 'released', at)
  write(slot, row, row[IDENTITY])
  return say('released')
end

function asked.withdraw()
  local owner = ARGV[6]
  redis.call('SET', withdrawal(owner), '1', 'PX', REMEMBER)
  count = count + 1
  redis.call('HSET', bucket, 'n', digits(count))
  local slot, row = own_of(owner)
  if slot and not row then return damaged('the row of a slot cannot be read') end
  if not slot or slot >= size then return rejected(fresh(), 'Vacant') end
  if live(row) and row[OWNER] == owner then
    tell(slot, row, 'withdrawn')
    row[MARK] = math.max(row[MARK], stamps_above)
    vacate(row, slot, 'withdrawn', at)
    write(slot, row, row[IDENTITY])
    return say('released')
  end
  if row[GONE_OWNER] == owner and row[GONE_HOW] ~= 'revoked' then return say('already') end
  return rejected(row, 'Vacant')
end

function asked.revoke(slot, row)
  local expect, reason = ARGV[7], ARGV[8]
  if not size or slot >= size then return rejected(row, 'Vacant') end
  if expect ~= '' and not held(row) then return rejected(row, 'Vacant') end
  if expect ~= '' and row[TOKEN] ~= expect then return rejected(row, 'StaleToken') end
  local token, broken = next_token(row), live(row)
  if held(row) then tell(slot, row, broken and 'revoked' or 'expired', broken and reason) end
  if token and not broken then remember(slot, {token, '0', '', '', now, now, 0, now, 'revoked', '', reason}) end
  if held(row) then vacate(row, slot, 'revoked', row[UNTIL]) end
  row[MARK], row[LAST] = math.max(row[MARK], stamps_above), token or GREATEST
  write(slot, row, row[IDENTITY])
  if not token then return say('rejected', 'TokensExhausted', false, false) end
  return say('burnt', token)
end

-- Whether there are rows that this name speaks of, and the holds of that slot.
function asked.history(slot, row)
  local holds, limit = {}, tonumber(ARGV[7])
  if held(row) and row[TOLD] == 0 then
    if live(row) and row[EPOCH] == epoch then
      holds[1] = ended(row, 'held')
      holds[1][8] = row[UNTIL]
    else
      holds[1] = ended(row, 'expired')
    end
  end
  if limit > #holds then
    for _, entry in ipairs(redis.call('LRANGE', past .. slot, 0, limit - #holds - 1)) do
      holds[#holds + 1] = cmsgpack.unpack(entry)
    end
  end
  while #holds > limit do holds[#holds] = nil end
  return say('holds', holds, row[LAST] == '' and 0 or 1)
end

function asked.slots()
  local seen = {}
  for slot = 0, (size or 0) - 1 do
    if slot % 1000 == 0 then
      local fields = {}
      for some = slot, math.min(slot + 999, size - 1) do fields[#fields + 1] = 's' .. some end
      found = redis.call('HMGET', pool, unpack(fields))
    end
    local value = found[slot % 1000 + 1]
    local row = value and unpacked(value)
    if value and not row then return damaged('the row of slot ' .. slot .. ' cannot be read') end
    if row then
      if held(row) and row[EPOCH] ~= epoch and row[SINCE] <= dead and row[UNTIL] > dead then row[UNTIL] = dead end
      local free = free_from(row)
      free = free >= 0 and digits(math.max(free - at + now, 0)) or ''
      seen[#seen + 1] = {slot, row[LAST], occupant(row), row[IDENTITY], free, digits(row[MARK])}
    end
  end
  return say('pool', size or 0, digits(now), seen)
end

function asked.room()
  local low, high, cool_down = tonumber(ARGV[6]), math.min(tonumber(ARGV[7]), size or 0) - 1, tonumber(ARGV[8])
  local taken, rested = 0, '(' .. digits(at - cool_down)
  for block = math.floor(low / WIDTH), math.floor(high / WIDTH) do
    local set = set_of('free', block * WIDTH)
    if low <= block * WIDTH and (block + 1) * WIDTH - 1 <= high then
      taken = taken + redis.call('ZCOUNT', set, rested, '+inf')
    else
      walk(set, rested, false, function(slot) if low <= slot and slot <= high then taken = taken + 1 end end)
    end
  end
  return say('room', size or 0, taken)
end

function asked.resize()
  local slots = tonumber(ARGV[6])
  sweep()
  local highest, until_then
  for block = size and slots < size and math.floor((size - 1) / WIDTH) or -1, math.floor(slots / WIDTH), -1 do
    for _, tree in ipairs({'free', 'spent'}) do
      walk(set_of(tree, block * WIDTH), '(' .. digits(at), false, function(slot, score)
        if slot >= slots and slot < size and (not highest or slot > highest) then highest, until_then = slot, score end
      end)
    end
    if highest then return say('in use', highest, until_then - at) end
  end
  make(slots)
  counted()
  return say('resized')
end

-- Whatever is about one slot has its number first.
local slot = (ask == 'renew' or ask == 'release' or ask == 'revoke' or ask == 'history') and tonumber(ARGV[6])
local row = slot and row_of(slot)
if slot and not row then return damaged('the row of a slot cannot be read') end
return asked[ask](slot, row)
