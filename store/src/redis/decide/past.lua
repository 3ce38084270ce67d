-- How the hold has ended is written down once.
if how and row[TOLD] == 0 then
  row[TOLD] = 1
  if keep > 0 then
    -- include entry
    -- include remember
  end
end
