-- include row

-- Asked 'again' it may be in place of the caller's own lease.
local owner, ttl, attempt, once, token = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[11], nil
if believed ~= '' and believed ~= epoch then return {'epoch', epoch, count, before, 0} end
if once ~= '' then
  local done = redis.call('HGET', bucket, 'd' .. name .. '\0' .. string.sub(once, 2))
  if done then return {'done', epoch, count, before, 0, cmsgpack.unpack(done)} end
end
if withdrawn and now < tonumber(withdrawn)
  and redis.call('EXISTS', bucket .. ':withdrawn:' .. name .. '\0' .. owner) == 1 then
  return {'superseded', epoch, count, before, 0, 'the owner has withdrawn'}
end
local run_out = false
if row[ASKER] == owner and not less(row[ATTEMPT], attempt) then
  if not (held and row[OWNER] == owner and row[EPOCH] == epoch and row[KEPT] == 0) then
    return {'superseded', epoch, count, before, 0, 'attempt ' .. row[ATTEMPT] .. ' of the owner was answered before'}
  end
  if live then return {'granted', epoch, count, before, 0, row[TOKEN], row[UNTIL] - at} end
  run_out, how = true, 'expired'
elseif ttl == 0 then
  reason = 'InvalidTtl'
elseif live and not (ARGV[1] == 'again' and row[KEPT] == 0 and row[OWNER] == owner) then
  -- Work that has ended holds its resource back from everyone, its own owner included.
  reason = 'Occupied'
else
  -- include token
  if not token then
    reason = 'TokensExhausted'
  elseif at < grants_from then
    return {'held back', epoch, count, before, 0, grants_from - at}
  elseif held and row[KEPT] == 0 then
    how = live and 'rotated' or 'expired'
  end
end
-- include past
if token then
  row[LAST], row[OWNER], row[TOKEN], row[SINCE], row[UNTIL], row[EPOCH] = token, owner, token, at, at + ttl, epoch
  row[KEPT], row[TOLD], row[RENEWED], row[RENEWALS], row[LABEL], row[IDENTITY] = 0, 0, at, 0, ARGV[9], ARGV[10]
  row[SEEN], row[ASKER], row[ATTEMPT], count = at, owner, attempt, count + 1
  redis.call('HSET', bucket, 'n', count, 't', less(top, token) and token or top, field, cmsgpack.pack(row))
  return {'granted', epoch, count, before, 0, token, ttl}
end
if run_out then
  -- include write
  return {'superseded', epoch, count, before, 0, 'its lease has run out'}
end
-- include refusal
