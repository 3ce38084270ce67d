if believed ~= '' and less(row[LAST], token) and less(floor, token) and not less(digits(now + 31536e9), token) then
  rewound = 1
end
