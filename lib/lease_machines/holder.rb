# frozen_string_literal: true

module LeaseMachines
  # Tells its holder, on the holder's own clock, whether it may still act.
  #
  #   cadence = LeaseMachines::Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)
  #   holder = LeaseMachines::Holder.new(token: 1, confirmed_at: 0, cadence: cadence)
  #   holder.renewal_due?(now: 10)      # => true: a renewal is sent
  #   holder.refresh(now: 10)           # => true: unconfirmed from here on
  #   holder.confirm(token: 1, at: 10)  # => true: confirmed until 40
  #   holder.may_act?(now: 39.9)        # => true
  #
  # - *Questions*, each answered as the clock has it: {#state_at}, {#may_act?}, {#at_risk?}, {#renewal_due?}, and the
  #   deadlines {#stop_deadline} and {#warning_deadline}.
  # - *Events*: {#refresh} when a renewal is sent, {#confirm_at} when it is answered, {#expire} when the store says that the
  #   lease is gone, {#fence} when the resource refused the token, {#reacquire_at} when it was taken again.
  #
  # A lease counts from the instant at which its request was *sent*. The store decided later than that, so that its
  # deadline lies at or after the holder's, and the holder stops before the store lets the next one in, as long as the
  # store's clock neither steps forward nor runs faster. Where it does, the {Fence} orders the writes.
  #
  # The states are +:confirmed+, +:unconfirmed+ (a renewal is outstanding), +:at_risk+ (the warning deadline has passed
  # without a confirmation), +:expired+ (only {#reacquire}, with a newer token, recovers) and +:fenced+ (the resource
  # refused the token: terminal).
  #
  # A frozen holder raises +FrozenError+ for every event; a holder cannot be copied.
  #
  # @!method token
  #   The token that writes are made under.
  #   @return [Integer]
  # @!method confirmed_at
  #   The instant the current term counts from.
  #   @return [Float] seconds
  # @!method state
  #   The state last recorded. It does not know what time it is: decide by {#state_at}.
  #   @return [Symbol]
  # @!method renewal_at
  #   When the next renewal falls due.
  #   @return [Float, nil] seconds; nil once expired or fenced
  # @!method warning_deadline
  #   From here on the holder is at risk: +confirmed_at + ttl - warn_before+.
  #   @return [Float, nil] seconds; nil once expired or fenced
  # @!method stop_deadline
  #   The first instant at which the holder must not act any more: +confirmed_at + ttl+.
  #   @return [Float, nil] seconds; nil once expired or fenced
  # @!method expire
  #   The lease is known to be gone.
  #   @return [Boolean] whether this was news: false once expired or fenced
  # @!method fence
  #   The resource refused the token: terminal, whatever is still in flight. Calling it again changes nothing.
  #   @return [nil]
  class Holder
    include Uncopyable

    class << self
      # A holder whose lease was confirmed for a full ttl.
      #
      # @param token [Integer] 1 or more
      # @param confirmed_at [Float, Integer, Rational] when the request was *sent*, not when the answer came
      # @param cadence [Cadence]
      # @return [Holder]
      def new(token:, confirmed_at:, cadence:) = _new(token, confirmed_at, cadence)

      # A first grant as a runtime sees it. It counts for the shorter of what was asked and what was granted, and is
      # expired from the start where +now+ has reached the deadline already. Where less was granted, renewal and warning
      # come proportionally earlier.
      #
      # @param token [Integer] 1 or more
      # @param sent [Float, Integer, Rational] when the request was sent
      # @param granted_ttl [Float, Integer, Rational] what the store granted
      # @param now [Float, Integer, Rational] when the answer came
      # @param cadence [Cadence] what was asked for
      # @return [Holder]
      def granted(token:, sent:, granted_ttl:, now:, cadence:)
        _granted(token, sent, granted_ttl, now, cadence)
      end
    end

    # The state as the clock has it: +:expired+ from the stop deadline on and +:at_risk+ from the warning deadline on,
    # whatever was recorded last. A machine that slept learns it here.
    #
    # @param now [Float, Integer, Rational] seconds
    # @return [Symbol]
    def state_at(now:) = _state_at(now)

    # What a writer asks before each write: true only before the stop deadline, and never once expired or fenced. It is a
    # hint to the honest: between the question and the write a process can sleep, and only the fence is sure.
    #
    # @param now [Float, Integer, Rational] seconds
    # @return [Boolean]
    def may_act?(now:) = _may_act(now)

    # Whether a renewal should be sent: from +confirmed_at + renew_every+ on, and whenever one is outstanding. Never from
    # the stop deadline on, where it would come too late, nor once expired or fenced.
    #
    # @param now [Float, Integer, Rational] seconds
    # @return [Boolean]
    def renewal_due?(now:) = _renewal_due(now)

    # Whether +now+ lies between the warning deadline and the stop deadline. False once expired or fenced.
    #
    # Without +now+: whether that is the state last recorded.
    #
    # @param now [Float, Integer, Rational, nil] seconds
    # @return [Boolean]
    def at_risk?(now: nil) = nil.equal?(now) ? state == :at_risk : _at_risk(now)

    # Whether the lease is confirmed, at +now+ or, without it, as last recorded.
    #
    # @param now [Float, Integer, Rational, nil] seconds
    # @return [Boolean]
    def confirmed?(now: nil) = in_state?(:confirmed, now)

    # Whether a renewal is outstanding, at +now+ or, without it, as last recorded.
    #
    # @param now [Float, Integer, Rational, nil] seconds
    # @return [Boolean]
    def unconfirmed?(now: nil) = in_state?(:unconfirmed, now)

    # Whether the lease is over, at +now+ or, without it, as last recorded, which may have been long ago.
    #
    # @param now [Float, Integer, Rational, nil] seconds
    # @return [Boolean]
    def expired?(now: nil) = in_state?(:expired, now)

    # Whether the resource refused the token. The clock has no say in it.
    #
    # @return [Boolean]
    def fenced? = state == :fenced

    # Records that a renewal is sent: unconfirmed, or at risk from the warning deadline on.
    #
    # @param now [Float, Integer, Rational] seconds
    # @return [Boolean] false, and expired, where the stop deadline has passed: such a renewal must not be sent
    def refresh(now:) = _refresh(now)

    # An answer that confirmed the lease for a full ttl, counted from +at+ (never moved backwards). It does not know what
    # time it is: runtimes call {#confirm_at}.
    #
    # @param token [Integer]
    # @param at [Float, Integer, Rational] when the renewal was sent
    # @return [Boolean] false for an older token than the current one (a stale reply, ignored), and once expired or fenced
    def confirm(token:, at:) = _confirm(token, at)

    # An answer, as a runtime sees it.
    #
    # @param token [Integer]
    # @param sent [Float, Integer, Rational] when the renewal was sent
    # @param granted_ttl [Float, Integer, Rational] what the store granted
    # @param now [Float, Integer, Rational] when the answer came
    # @return [Boolean] false, and expired, where +now+ has reached the deadline held until then, or the new one: a late
    #   answer revives nobody. False for an older token, which changes nothing else.
    def confirm_at(token:, sent:, granted_ttl:, now:) = _confirm_at(token, sent, granted_ttl, now)

    # From expired, with a strictly newer token: confirmed for a full ttl from +at+. Runtimes call {#reacquire_at}.
    #
    # @param token [Integer]
    # @param at [Float, Integer, Rational] when the request was sent
    # @return [Boolean] false, and nothing changes, otherwise
    def reacquire(token:, at:) = _reacquire(token, at)

    # {#reacquire} as a runtime sees it, with the rules of {Holder.granted}.
    #
    # @param token [Integer]
    # @param sent [Float, Integer, Rational] when the request was sent
    # @param granted_ttl [Float, Integer, Rational] what the store granted
    # @param now [Float, Integer, Rational] when the answer came
    # @return [Boolean] false where +now+ has reached the new deadline already: expired, under the newer token
    def reacquire_at(token:, sent:, granted_ttl:, now:) = _reacquire_at(token, sent, granted_ttl, now)

    # @return [String]
    def inspect
      "#<#{self.class} token=#{token} state=#{state.inspect} confirmed_at=#{confirmed_at} " \
        "stop_deadline=#{stop_deadline.inspect}>"
    end
    alias to_s inspect

    private

    def in_state?(expected, now) = (nil.equal?(now) ? state : _state_at(now)) == expected
  end
end
