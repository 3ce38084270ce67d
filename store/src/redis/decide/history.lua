-- include row

local holds, limit = {}, tonumber(ARGV[6])
if held and row[KEPT] == 0 and row[TOLD] == 0 then
  local goes_on = live and row[EPOCH] == epoch
  how = goes_on and 'held' or 'expired'
  -- include entry
  if goes_on then entry[8] = row[UNTIL] end
  holds[1] = entry
end
if limit > #holds then
  -- There may be some that are not kept any more.
  local most = keep > 0 and math.min(limit - #holds, keep) or limit - #holds
  for _, entry in ipairs(redis.call('LRANGE', bucket .. ':past:' .. name, 0, most - 1)) do
    holds[#holds + 1] = cmsgpack.unpack(entry)
  end
end
while #holds > limit do holds[#holds] = nil end
return {'holds', epoch, count, before, 0, holds}
