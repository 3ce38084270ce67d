-- What of some commands this user may not run on a key of the store's. Servers before 7.0 do not say.
--
-- KEYS: one such key. ARGV: the commands.

-- Some versions ask for as many arguments as the command takes. Keys among them are the store's.
local function may(command)
  for count = 1, 6 do
    local arguments = {command}
    for place = 1, count % 6 do arguments[place + 1] = KEYS[1] end
    local sound, answer = pcall(redis.acl_check_cmd, unpack(arguments))
    if sound then return answer end
  end
  return true
end

local lacking = {}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  if not may(command) then lacking[#lacking + 1] = command end
end
return lacking
