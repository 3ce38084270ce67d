-- Whether this server still has everything that it answered under the store's epoch: asked on every new connection, before
-- the first decision on it.
--
-- KEYS: the first bucket. ARGV: the version of what is stored, as it was seen just before; the server's run, its place, the
-- history that it followed before it was promoted (or ''), whether it keeps all that it answers, whether its failovers are
-- trusted.
local found = redis.call('HMGET', KEYS[1], 'e', 'v', 's.run', 's.place', 's.former', 's.durable')
local epoch, version, run, place, former, durable = unpack(found)
if not epoch then return {'none'} end
if version ~= ARGV[1] then return {'version', version or ''} end
local promoted = ARGV[4] ~= '' and ARGV[4] ~= former
local restarted = ARGV[2] ~= run
if promoted or restarted then
  local kept = not promoted and durable == '1' and ARGV[3] == place
  if not kept and ARGV[6] ~= '1' then return {'lost', epoch, promoted and 'promoted' or 'restarted'} end
end
if promoted or restarted or durable ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 's.run', ARGV[2], 's.place', ARGV[3], 's.former', ARGV[4], 's.durable', ARGV[5])
end
return {'kept', epoch}
