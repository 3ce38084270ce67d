-- The token after the last one; nothing where there is none.
local last = row[LAST] ~= '' and row[LAST] or digits(now)
if less(last, floor) then last = floor end
if less(last, GREATEST) then
  local head, tail = string.sub(last, 1, -10), string.sub(last, -9) + 1
  if tail == 1e9 then head, tail = digits((tonumber(head) or 0) + 1), 0 end
  token = head == '' and digits(tail) or head .. string.format('%09.0f', tail)
end
