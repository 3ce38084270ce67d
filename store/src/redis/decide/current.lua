-- Why nothing can be done under this lease.
if not held then
  reason = 'Vacant'
elseif row[OWNER] ~= owner then
  reason = 'WrongOwner'
elseif row[TOKEN] ~= token then
  reason = 'StaleToken'
elseif not live then
  reason, how = 'Expired', 'expired'
end
