if believed ~= '' and believed ~= epoch or held and row[OWNER] == owner and row[TOKEN] == token and row[EPOCH] ~= epoch then
  return {'epoch', epoch, count, before, 0}
end
