-- include row

local owner, token, once, at_least = ARGV[6], ARGV[7], ARGV[9], tonumber(ARGV[10])
-- include epoch
if row[GONE] == token and row[GONE_OWNER] == owner and row[GONE_HOW] == 'released' then
  return {'already', epoch, count, before, 0}
end
-- include loss
-- include current
if not reason then how, result = 'released', ARGV[8] end
-- include past
if not reason then
  if result == 'good' then
    local work = cmsgpack.pack({token, owner, row[LABEL], once, now})
    redis.call('HSET', bucket, 'g' .. name, work)
    if once ~= '' then redis.call('HSETNX', bucket, 'd' .. name .. '\0' .. string.sub(once, 2), work) end
  end
  row[GONE], row[GONE_OWNER], row[GONE_HOW] = token, owner, 'released'
  local left = row[SINCE] + at_least - at
  if left > 0 then
    row[UNTIL], row[KEPT] = at + left, 1
  else
    row[OWNER], row[TOKEN] = '', ''
  end
  -- include write
  if left > 0 then return {'retained', epoch, count, before, rewound, left} end
  return {'released', epoch, count, before, rewound}
end
-- include refusal
