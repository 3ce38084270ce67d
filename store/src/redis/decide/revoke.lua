-- include row

local expect, token = ARGV[6], nil
if expect ~= '' and not held then
  reason = 'Vacant'
elseif expect ~= '' and row[TOKEN] ~= expect then
  reason = 'StaleToken'
else
  -- include token
  local broken = live and row[KEPT] == 0
  if broken then
    how, why = 'revoked', ARGV[7]
  elseif held and row[KEPT] == 0 then
    how = 'expired'
  end
  -- include past
  if token and not broken and keep > 0 then
    -- As the hold of nobody, that was over at once.
    local entry = {token, '0', '', '', now, now, 0, now, 'revoked', '', ARGV[7]}
    -- include remember
  end
  -- The holder of what is held back had released it, and may ask again whether it did.
  if held and row[KEPT] == 0 then row[GONE], row[GONE_OWNER], row[GONE_HOW] = row[TOKEN], row[OWNER], 'revoked' end
  row[OWNER], row[TOKEN], row[LAST] = '', '', token or GREATEST
  if less(top, row[LAST]) then redis.call('HSET', bucket, 't', row[LAST]) end
  -- include write
  if not token then return {'rejected', epoch, count, before, 0, 'TokensExhausted', false, false} end
  return {'burnt', epoch, count, before, 0, token}
end
-- include refusal
