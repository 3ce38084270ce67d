-- What of some commands this user may not run on a key of the store's. Servers before 7.0 do not say.
--
-- KEYS: one such key. ARGV: the commands.
local lacking = {}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  if not redis.acl_check_cmd(command, KEYS[1]) then lacking[#lacking + 1] = command end
end
return lacking
