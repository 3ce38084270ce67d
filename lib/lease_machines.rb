# frozen_string_literal: true

# Who may act on this, until when, and how is the one who overslept stopped?
#
# Time-limited, exclusive ownership, on a store that others use, too: {LeaseMachines.open} and {Store}.
#
# IDs that no other process makes: {MachineId}.
#
# And the decision model behind the leases, for *one* resource. It reads no clock and opens no socket; every answer follows
# from what it was told.
#
# - On the side of the store, an {Authority} grants, renews, releases and revokes; its whole state is a {Checkpoint}.
# - On the side of the resource, a {Fence} lets a token through, or refuses it because a greater one was seen.
# - On the side of the worker, a {Holder} knows, on the worker's own clock, whether it may still act.
#
# == Owners and tokens
#
# Integers from 0 to 2**64-1. Anything that is not an Integer, a Float too, is a +TypeError+; an Integer out of range is a
# +RangeError+. Token 0 is in range and is never issued: where it is shown it is stale, and where one is kept it is a
# +RangeError+.
#
# == Time
#
# Seconds since an origin that the caller picks, as a Float, an Integer or a Rational; use a clock that does not go
# backwards. Integers are exact, Floats and Rationals are taken to the nearest nanosecond. What comes out is the nearest
# Float: up to 2**23 seconds (97 days) after the origin it reads back as the very same nanosecond, beyond that Floats are
# the coarser of the two. A negative, infinite or NaN time is an +ArgumentError+, one of 2**64 seconds or more a
# +RangeError+, anything else a +TypeError+.
module LeaseMachines
end

require_relative "lease_machines/version"
require_relative "lease_machines/errors"
require_relative "lease_machines/uncopyable"
require_relative "lease_machines/lease"
require_relative "lease_machines/decision"
require_relative "lease_machines/checkpoint"
require_relative "lease_machines/authority"
require_relative "lease_machines/fence"
require_relative "lease_machines/cadence"
require_relative "lease_machines/holder"
require_relative "lease_machines/inspection"
require_relative "lease_machines/seconds"
require_relative "lease_machines/store"
require_relative "lease_machines/machine_id"
require_relative "lease_machines/native"
require_relative "lease_machines/forking"
