-- include row

local good = redis.call('HGET', bucket, 'g' .. name)
-- include standing
return {'seen', epoch, count, before, 0, row[LAST], occupant, gone, good and cmsgpack.unpack(good)}
