row[SEEN], count = at, count + 1
redis.call('HSET', bucket, 'n', count, field, cmsgpack.pack(row))
