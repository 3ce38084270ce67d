-- include row

local owner, token, ttl = ARGV[6], ARGV[7], tonumber(ARGV[8])
-- include epoch
if held and row[KEPT] == 1 and row[TOKEN] == token and ttl > 0 then
  -- It was released; nothing extends it, whatever was in flight.
  reason = 'Vacant'
else
  -- include loss
  if ttl == 0 then
    reason = 'InvalidTtl'
  else
    -- include current
  end
end
if not reason then
  row[UNTIL] = math.max(row[UNTIL], at + ttl)
  row[RENEWED], row[RENEWALS] = at, row[RENEWALS] + 1
  -- include write
  return {'renewed', epoch, count, before, rewound, token, row[UNTIL] - at}
end
-- include past
-- include refusal
