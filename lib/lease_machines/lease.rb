# frozen_string_literal: true

module LeaseMachines
  Lease = Data.define(:owner, :token, :expires_at)

  # A grant: +owner+ may act under +token+ while +now < expires_at+, on the clock of the authority that made it.
  #
  #   case authority.lease
  #   in { owner: 1, token: } then token
  #   end
  #
  # @!attribute [r] owner
  #   Who holds it.
  #   @return [Integer]
  # @!attribute [r] token
  #   The token it was granted under, which is never 0; renewals keep it.
  #   @return [Integer]
  # @!attribute [r] expires_at
  #   The first instant at which it is over, in seconds since the authority's origin.
  #   @return [Float]
  class Lease
    # Makes a lease, say for {Checkpoint.from_parts}. Those that count are made by an {Authority}.
    #
    # @param owner [Integer]
    # @param token [Integer] 1 or more
    # @param expires_at [Float, Integer, Rational] seconds
    # @raise [TypeError, RangeError, ArgumentError] for what cannot be a part of a lease
    def initialize(owner:, token:, expires_at:)
      super(owner: owner, token: token, expires_at: _check(owner, token, expires_at))
    end
  end
end
