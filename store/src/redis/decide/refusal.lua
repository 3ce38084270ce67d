-- Nothing is done. But an answer that says that a lease is over has to stay true.
if reason == 'Expired' then
  -- include write
end
-- include standing
return {'rejected', epoch, count, before, rewound, reason, occupant, gone}
