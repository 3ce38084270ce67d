-- Every decision about one resource begins with this: the clock, and one look at the row. Row and what
-- holds for all rows of its bucket lie in one hash, so that whatever takes a row away takes the epoch with it.
--
-- KEYS: the bucket.
-- ARGV: how it is asked; the time, or '' for the server's own; the epoch believed in, or ''; the resource; how many holds to
-- keep; then what the question has beside.
--
-- Times and counts are numbers: microseconds since 1970 by the server's clock are exact as doubles until 2255, and a command
-- is given, and answers, whole numbers up to 2^53 with all their digits. Tokens and attempts reach 2^63 and are therefore
-- texts of digits: never add to them but by the functions below, and never join a number to a text but by `digits`.
--
-- Each request runs all of this anew: a function costs where it is made, and not only where it is called. So a decision is
-- one text without functions, but for these two; what several have in common is included.
local bucket, field = KEYS[1], 'r' .. ARGV[4]
local believed, name, keep = ARGV[3], ARGV[4], tonumber(ARGV[5])
local GREATEST = '9223372036854775807'
-- The fields of a row.
local LAST, SEEN, OWNER, TOKEN, SINCE, UNTIL, EPOCH, KEPT, TOLD, RENEWED, RENEWALS, LABEL, IDENTITY, ASKER, ATTEMPT,
  GONE, GONE_OWNER, GONE_HOW, FIELDS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18

-- Lua's own conversion keeps 14 digits.
local function digits(number) return string.format('%.0f', number) end

local function less(a, b) return #a < #b or (#a == #b and a < b) end

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

-- Beside the row: epoch, floor, decision counter, greatest token, what a lost history left behind, and until when a
-- withdrawal may be remembered here.
local found = redis.call('HMGET', bucket, field, 'e', 'f', 'n', 't', 'm', 'w')
local epoch, floor, count, top, more, withdrawn = found[2], found[3], tonumber(found[4]), found[5], found[6], found[7]
if not epoch then return {'none'} end
if not (floor and count and top and more) then return {'damaged', epoch, 0, 0, 0, 'its bucket has lost fields'} end
-- Whatever is written that has to be there later counts as a decision. Each answer tells the count as it is left and as it was
-- found: whoever knows of a greater one sees that what was between is lost, also where this decision makes up for it.
local before = count

local row
if not found[1] then
  row = {'', 0, '', '', 0, 0, '', 0, 0, 0, 0, '', '', '', '0', '', '', ''}
else
  local sound
  sound, row = pcall(cmsgpack.unpack, found[1])
  if not sound or type(row) ~= 'table' or #row < FIELDS then
    return {'damaged', epoch, count, before, 0, 'its row cannot be read'}
  end
end
local held = row[OWNER] ~= ''
if held and less(row[LAST], row[TOKEN]) then
  return {'damaged', epoch, count, before, 0, 'its lease has a token greater than the last one issued'}
end
-- When the epoch was opened, before when it grants nothing, and from when leases of former ones are over.
local opened, grants_from = 0, 0
if more ~= '' then
  local dead
  opened, grants_from, dead = string.match(more, '^(%d+) (%d+) (%d+)$')
  opened, grants_from, dead = tonumber(opened), tonumber(grants_from), tonumber(dead)
  if held and row[EPOCH] ~= epoch and row[SINCE] <= dead and row[UNTIL] > dead then row[UNTIL] = dead end
end
local at = math.max(now, row[SEEN])
local live = held and at < row[UNTIL]
-- What becomes of the hold that stands, for the history, and with what result and for what reason; why nothing is done; whether
-- the caller knows of a grant that this history does not have.
local how, result, why, reason
local rewound = 0
