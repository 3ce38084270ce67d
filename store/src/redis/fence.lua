-- The fence: compares a token with the mark, and runs the caller's commands behind it, without anything in between.
--
-- KEYS: the marks; the bucket of the lease's resource. ARGV: what is asked; the field of the mark; then what the question has
-- beside. Tokens are texts of digits, see decide/row.lua.
local marks, bucket = KEYS[1], KEYS[2]
local ask, field = ARGV[1], ARGV[2]
local YEAR = 31536e9
local LAST, OWNER, TOKEN, EPOCH, KEPT, GONE, GONE_OWNER, GONE_HOW = 1, 3, 4, 7, 8, 16, 17, 18

local function less(a, b) return #a < #b or (#a == #b and a < b) end

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local believable = string.format('%.0f', now + YEAR)
local stamp = string.format('%.0f', now)
local mark = redis.call('HGET', marks, field)
local highest, first
if mark then highest, first = string.match(mark, '^(%d+) (%x+) ') end

-- What the leases in this database say against it: a reason, or how far they could say anything.
local function among_leases(owner, token, believed, name)
  local found = redis.call('HMGET', bucket, 'e', 'r' .. name)
  if not found[1] then return nil, 'no lease store is in this database' end
  local row = found[2] and cmsgpack.unpack(found[2])
  if believed == '' then return nil, 'the lease does not say of which epoch it is' end
  local held = row and row[OWNER] == owner and row[TOKEN] == token
  local given_back = row and row[GONE_OWNER] == owner and row[GONE] == token
  if believed ~= found[1] then
    if held or given_back then return {'lost', 'is of a former epoch'} end
    return nil, 'epoch'
  end
  if held and row[KEPT] == 0 and row[EPOCH] == believed then return nil, nil end
  if row and less(token, row[LAST]) and not given_back then return {'stale', row[LAST]} end
  if given_back then return {'lost', 'was ' .. row[GONE_HOW]} end
  return {'lost', 'is not known to the store'}
end

local function guard(owner, token, believed, name, mode)
  if less(believable, token) then return {'out of range'} end
  if mark then
    if less(token, highest) then return {less(believable, highest) and 'poisoned' or 'stale', highest} end
    if token == highest and first ~= owner and first ~= '0' then return {'rewound', first} end
  end
  local ran = 'plain'
  if mode ~= 'plain' then
    local refusal, why_not = among_leases(owner, token, believed, name)
    if refusal then return refusal end
    if mode == 'strict' and why_not then return {why_not == 'epoch' and 'lost' or 'not strict', why_not} end
    if not why_not then ran = 'strict' end
  end
  redis.call('HSET', marks, field, token .. ' ' .. owner .. ' ' .. stamp)
  return nil, ran
end

-- The caller's commands: of each the number of its words, then the words.
local function run(from)
  local replies = {}
  while from <= #ARGV do
    local count = tonumber(ARGV[from])
    replies[#replies + 1] = redis.call(unpack(ARGV, from + 1, from + count))
    from = from + count + 1
  end
  return replies
end

if ask == 'guard' then
  local refusal, ran = guard(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  return refusal or {'passed', ran, run(8)}
elseif ask == 'unfenced' then
  if mark then return {'unfenced', highest} end
  return {'passed', 'plain', run(3)}
elseif ask == 'look' then
  if not mark then return {'none'} end
  return {'mark', string.match(mark, '^(%d+) (%x+) (%d+)$')}
end
if less(believable, ARGV[3]) then return {'out of range'} end
-- An operator's reset, with its reason, is written down beside the mark.
redis.call('RPUSH', marks .. ':log', stamp .. ' ' .. (string.gsub(field, '%z', ' ')) .. ' ' .. (highest or 'none') .. ' -> ' ..
  (ARGV[3] == '' and 'none' or ARGV[3]) .. ': ' .. ARGV[4])
if ARGV[3] == '' then
  redis.call('HDEL', marks, field)
elseif mark then
  redis.call('HSET', marks, field, ARGV[3] .. ' 0 ' .. stamp)
end
return {'reset'}
