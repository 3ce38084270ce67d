-- Who holds it, or who gave it back.
local occupant, gone = false, false
if live then
  occupant = {row[OWNER], row[TOKEN], at - row[SINCE], row[UNTIL] - at, row[KEPT], row[LABEL], row[IDENTITY]}
end
if (not held or reason == 'Vacant') and row[GONE] ~= '' then gone = {row[GONE], row[GONE_OWNER], row[GONE_HOW]} end
