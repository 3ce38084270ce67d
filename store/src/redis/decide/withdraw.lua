-- include row

-- Withdrawn owners are remembered for longer than any request of theirs is on its way, also where the clock is set an hour
-- ahead meanwhile: three hours. Each has a key of its own, which the server forgets by itself; in the bucket they would pile
-- up. The bucket says until when there may be one.
local owner, REMEMBER = ARGV[6], 3 * 3600
redis.call('SET', bucket .. ':withdrawn:' .. name .. '\0' .. owner, '1', 'EX', REMEMBER)
count = count + 1
redis.call('HSET', bucket, 'n', count, 'w', math.max(tonumber(withdrawn or 0), now + REMEMBER * 1e6))
if held and row[OWNER] == owner and row[KEPT] == 0 then
  if live then
    how = 'withdrawn'
  else
    reason, how = 'Expired', 'expired'
  end
elseif row[GONE_OWNER] == owner and row[GONE_HOW] ~= 'revoked' then
  return {'already', epoch, count, before, 0}
else
  reason = held and 'WrongOwner' or 'Vacant'
end
-- include past
if not reason then
  row[GONE], row[GONE_OWNER], row[GONE_HOW] = row[TOKEN], owner, 'withdrawn'
  row[OWNER], row[TOKEN] = '', ''
  -- include write
  return {'released', epoch, count, before, 0}
end
-- include refusal
