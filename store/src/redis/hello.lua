-- Whether this server still has everything that it answered under the store's epoch: asked on every new connection, before
-- the first decision on it.
--
-- KEYS: the first bucket; of all of them where this said that a run begins.
-- ARGV: the version of what is stored, as it was seen just before; the server's run, its place, the history that it followed
-- before it was promoted (or ''), whether it keeps all that it answers, whether its failovers are trusted; the name of its run; then what
-- the client was told of under another run: the epoch (or '' for nothing), the run's number and name, and of buckets, each by
-- its place among all, the counts.
--
-- A server loses nothing while it runs. So what is lost is lost between two runs, and two things show it, whatever others
-- have decided since: the run under which the client was told is not the one that has its number here; or a run that came
-- after it began with fewer decisions in a bucket than the client was told of. As each connection begins with this, and the
-- first one under a run writes down how it began, no decision under a run is older than that.
local found = redis.call('HMGET', KEYS[1], 'e', 'v', 's.run', 's.place', 's.former', 's.durable', 's.left')
local epoch, version, run, place, former, durable, left = unpack(found)
if not epoch then return {'none'} end
if version ~= ARGV[1] then return {'version', version or ''} end
local promoted = ARGV[4] ~= '' and ARGV[4] ~= former
local restarted = ARGV[2] ~= run
local begins, counts = promoted or restarted, {}
if begins then
  local kept = not promoted and durable == '1' and ARGV[3] == place
  if not kept and ARGV[6] ~= '1' then return {'lost', epoch, promoted and 'promoted' or 'restarted'} end
  if #KEYS == 1 then return {'begins'} end
  for index, bucket in ipairs(KEYS) do
    -- One that is gone says so by itself.
    counts[index] = tonumber(redis.call('HGET', bucket, 'n') or '') or false
  end
end
-- include runs

local function has_all_told(began)
  for index = 11, #ARGV, 2 do
    local count = began[tonumber(ARGV[index])]
    if count and count < tonumber(ARGV[index + 1]) then return false end
  end
  return true
end

local function goes_on()
  local number, name = tonumber(ARGV[9]), ARGV[10]
  if last_run() < number or not has_all_told(counts) then return false end
  for _, one in ipairs(last_runs()) do
    if one[1] == number then return one[2] == name end
    if not has_all_told(one[3]) then return false end
  end
  return true
end

if ARGV[8] == epoch and not goes_on() then return {'lost', epoch, 'put back'} end
if begins or durable ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 's.run', ARGV[2], 's.place', ARGV[3], 's.former', ARGV[4], 's.durable', ARGV[5])
end
return {'kept', epoch, enter(ARGV[7], counts), left or ''}
