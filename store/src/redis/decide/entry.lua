-- The hold as it stands in the history.
local ends, outcome = how == 'expired' and row[UNTIL] or at, how
if row[EPOCH] ~= epoch and row[UNTIL] >= opened then ends, outcome = math.min(ends, opened), 'lost' end
local entry = {row[TOKEN], row[OWNER], row[LABEL], row[IDENTITY], row[SINCE], row[RENEWED], row[RENEWALS], ends, outcome,
  result or '', why or ''}
