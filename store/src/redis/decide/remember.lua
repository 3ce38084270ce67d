-- Of the oldest, those that are kept no longer are taken away some at a time.
local past = bucket .. ':past:' .. name
if redis.call('LPUSH', past, cmsgpack.pack(entry)) >= keep + 16 then redis.call('LTRIM', past, 0, keep - 1) end
