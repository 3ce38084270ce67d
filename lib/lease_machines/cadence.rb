# frozen_string_literal: true

module LeaseMachines
  Cadence = Data.define(:ttl, :renew_every, :warn_before)

  # How long a lease is, when to renew it, and when to start worrying; all in seconds.
  #
  # @!attribute [r] ttl
  #   The ttl that is asked for.
  #   @return [Float]
  # @!attribute [r] renew_every
  #   The time from a confirmation to the next renewal.
  #   @return [Float]
  # @!attribute [r] warn_before
  #   How long before the stop deadline the holder is at risk.
  #   @return [Float]
  class Cadence
    # @param ttl [Float, Integer, Rational]
    # @param renew_every [Float, Integer, Rational] more than 0, less than +ttl+
    # @param warn_before [Float, Integer, Rational] more than 0, less than +ttl+
    # @raise [ArgumentError] unless these hold
    # @raise [TypeError, RangeError] for what is no time
    def initialize(ttl:, renew_every:, warn_before:)
      ttl, renew_every, warn_before = _check(ttl, renew_every, warn_before)
      super
    end
  end
end
