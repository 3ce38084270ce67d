-- One decision about a pool, which lies beside the bucket of its name. Its size, its rows and its owners lie in one hash;
-- beside it lies what finds a slot for a claim.
--
-- The invariant: what is beside the hash follows from its rows, and is written together with them.
-- * `used` has the bit of every slot that was ever granted, or has no token left. The others are never used: the first of
--   a range is found by BITPOS.
-- * `free` has every slot that was ever granted, by the time from which it counts as free: the end of its lease, its
--   release, or the end of the lease that was revoked. So the first of them is the one free for longest, and if that has
--   not rested yet, none has: a cool-down, which each claim names for itself, is looked at once.
-- * `own` has, for each identity, those that it was the last to hold, by the same time, the latest first.
-- * `mark` has the slots by their marks: those whose mark is at or beyond what a claim would reserve are passed over.
-- * `shut` has those that were revoked, by the end of the lease: an identity takes over its live lease, not one of these.
-- Each is a tree of two levels, so that a range costs no look at what is outside of it: a sorted set for every 256 numbers,
-- and for `free` and `own` one over these sets by what is first in each. A claim looks at the first of the first set, at
-- others of it only where slots are passed over, and at no set more than once; a set that is passed over as a whole costs
-- two counts.
-- None of it is believed: a slot that was found is granted only where its row agrees.
local bucket, name = KEYS[1], ARGV[4]
local pool, past = bucket .. ':pool:' .. name, bucket .. ':past:' .. name .. '#'
local WIDTH = 256

-- Lua's own conversion keeps 14 digits.
local function digits(number) return string.format('%.0f', number) end

-- No identity holds a NUL, so that no tree has the name of another one's set.
local function set_of(tree, slot) return pool .. '\0' .. tree .. '\0' .. string.format('%03d', math.floor(slot / WIDTH)) end

-- Puts a slot in its place, or takes it out where there is none.
local function place(tree, slot, score)
  if score then
    redis.call('ZADD', set_of(tree, slot), digits(score), string.format('%05d', slot))
  else
    redis.call('ZREM', set_of(tree, slot), string.format('%05d', slot))
  end
end

-- The same, in a tree with a set over its sets.
local function place_in_order(tree, slot, score)
  place(tree, slot, score)
  local first = redis.call('ZRANGE', set_of(tree, slot), 0, 0, 'WITHSCORES')
  local block = string.format('%03d', math.floor(slot / WIDTH))
  if first[1] then
    redis.call('ZADD', pool .. '\0' .. tree, first[2], block)
  else
    redis.call('ZREM', pool .. '\0' .. tree, block)
  end
end

-- Visits what a set has from a score on, in order, until a visit says that it is enough.
local function walk(set, from_score, backwards, visit)
  local offset, some = 0, 2
  repeat
    local found
    if backwards then
      found = redis.call('ZREVRANGEBYSCORE', set, '+inf', from_score, 'WITHSCORES', 'LIMIT', offset, some)
    else
      found = redis.call('ZRANGEBYSCORE', set, from_score, '+inf', 'WITHSCORES', 'LIMIT', offset, some)
    end
    for index = 1, #found, 2 do
      if visit(tonumber(found[index]), tonumber(found[index + 1])) then return end
    end
    local enough = #found < 2 * some
    offset, some = offset + some, 64
  until enough
end

-- The slot of a tree that is first from a score on (backwards: last), within numbers; of equals the lowest number.
-- `passed` names those of a set that do not count; nothing where none does.
local function first_of(tree, low, high, from_score, backwards, passed)
  local best, best_score
  walk(pool .. '\0' .. tree, '-inf', false, function(block, head)
    local lowest = block * WIDTH
    if best and not backwards and (head > best_score or head == best_score and lowest > best) then return true end
    local others = lowest <= high and lowest + WIDTH > low and passed(lowest)
    if not others then return end
    walk(set_of(tree, lowest), from_score, backwards, function(slot, score)
      if slot < low or slot > high or others[slot] then return end
      local better = not best or score < best_score or score == best_score and slot < best
      if backwards then better = not best or score > best_score end
      if better then best, best_score = slot, score end
      return true
    end)
  end)
  return best, best_score
end

-- What is passed over by a claim that reserves time up to `time_until`, if it does; and by one that takes live leases over,
-- those that were revoked and are closed at this instant.
local function passing(time_until, closed_at)
  return function(lowest)
    local others, found = {}, {}
    if time_until then
      local set = set_of('mark', lowest)
      local marked = redis.call('ZCOUNT', set, digits(time_until), '+inf')
      if marked > 0 and marked >= redis.call('ZCARD', set_of('free', lowest)) then return end
      if marked > 0 then found[1] = redis.call('ZRANGEBYSCORE', set, digits(time_until), '+inf') end
    end
    if closed_at then
      found[#found + 1] = redis.call('ZRANGEBYSCORE', set_of('shut', lowest), '(' .. digits(closed_at), '+inf')
    end
    for _, slots in ipairs(found) do
      for _, slot in ipairs(slots) do others[tonumber(slot)] = true end
    end
    return others
  end
end

-- The first slot of a range that was never granted.
local function never_used(low, high)
  local used, slot = pool .. '\0used', low
  while slot <= high and slot % 8 ~= 0 do
    if redis.call('GETBIT', used, slot) == 0 then return slot end
    slot = slot + 1
  end
  if slot > high then return end
  local found = redis.call('BITPOS', used, 0, slot / 8, math.floor(high / 8))
  if found >= 0 and found <= high then return found end
end
