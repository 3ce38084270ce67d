# frozen_string_literal: true

module LeaseMachines
  # Decides who owns one resource, and until when.
  #
  #   authority = LeaseMachines::Authority.new
  #   first = authority.acquire(owner: 1, now: 0.0, ttl: 2.0)  # granted, token 1, until 2.0
  #   authority.acquire(owner: 2, now: 1.0, ttl: 2.0).reason   # => :occupied
  #   authority.acquire(owner: 2, now: 2.0, ttl: 2.0)          # granted, token 2
  #
  # A lease is live while +now < expires_at+. Every grant's token is greater than every earlier one's.
  #
  # Every request first looks at the clock: a +now+ before the latest observation is +:clock_regressed+ and changes nothing
  # (+clock_policy: :reject+), or is taken as that observation (+:clamp+); any other becomes the latest observation, also
  # where the request is then rejected. The other reasons of each request are checked in the order in which they are
  # listed; the first that applies is the answer. A rejection never raises; only malformed input does, as {LeaseMachines}
  # says.
  #
  # An authority cannot be copied, since two would both be right and disagree, and a frozen one raises +FrozenError+ for
  # every request. To carry one elsewhere take its {#checkpoint}, stop using it, and {restore} it there.
  #
  # @!method checkpoint
  #   Everything the authority knows; all of it must be kept, and durably, for tokens to keep rising.
  #   @return [Checkpoint]
  # @!method lease
  #   The current lease. It may be over: only a +now+ tells.
  #   @return [Lease, nil]
  # @!method last_issued
  #   The greatest token issued or burnt so far.
  #   @return [Integer, nil]
  # @!method observed
  #   The latest +now+ that a request has brought.
  #   @return [Float] seconds
  # @!method clock_policy
  #   What is done with a +now+ that lies before the latest observation.
  #   @return [Symbol] +:reject+ or +:clamp+
  class Authority
    include Uncopyable

    class << self
      # A resource that was never held, observed at time 0.
      #
      # @param clock_policy [Symbol] +:reject+ or +:clamp+
      # @return [Authority]
      def new(clock_policy: :reject) = _new(clock_policy)

      # Goes on from a checkpoint. Tokens go on from where they were.
      #
      # @param checkpoint [Checkpoint]
      # @param clock_policy [Symbol] +:reject+ or +:clamp+; a checkpoint does not carry it
      # @return [Authority]
      def restore(checkpoint, clock_policy: :reject) = _restore(checkpoint, clock_policy)
    end

    # Takes the resource if it is free: +:granted+, under the last issued token plus one, until +now + ttl+.
    #
    # Otherwise +:invalid_ttl+, +:occupied+ (also by the owner's own live lease), +:deadline_overflow+ or
    # +:tokens_exhausted+.
    #
    # @param owner [Integer] drawn afresh for every hold
    # @param now [Float, Integer, Rational] seconds
    # @param ttl [Float, Integer, Rational] seconds
    # @return [Decision]
    def acquire(owner:, now:, ttl:) = _acquire(owner, now, ttl)

    # As {#acquire}, but the owner's own live lease does not stand in its way: it is replaced by one under a new, greater
    # token. So a grant whose answer was lost on the way is asked for again.
    #
    # @param owner [Integer]
    # @param now [Float, Integer, Rational] seconds
    # @param ttl [Float, Integer, Rational] seconds
    # @return [Decision]
    def reacquire(owner:, now:, ttl:) = _reacquire(owner, now, ttl)

    # Extends the current lease: +:renewed+, under the same token, until the later of the old deadline and +now + ttl+.
    #
    # Otherwise +:invalid_ttl+, +:vacant+, +:wrong_owner+, +:stale_token+, +:expired+ (from +expires_at+ on, since someone
    # may have been told that it is free) or +:deadline_overflow+.
    #
    # @param owner [Integer]
    # @param token [Integer]
    # @param now [Float, Integer, Rational] seconds
    # @param ttl [Float, Integer, Rational] seconds
    # @return [Decision]
    def renew(owner:, token:, now:, ttl:) = _renew(owner, token, now, ttl)

    # Gives the resource back: +:released+. The history of tokens is kept.
    #
    # Otherwise +:vacant+, +:wrong_owner+, +:stale_token+ or +:expired+.
    #
    # @param owner [Integer]
    # @param token [Integer]
    # @param now [Float, Integer, Rational] seconds
    # @return [Decision]
    def release(owner:, token:, now:) = _release(owner, token, now)

    # The operator's break: vacates the resource, live lease or not, and burns one token, which it returns. A fence that is
    # told of the burnt token refuses the old holder at once, and the next grant is greater still. The clock never refuses
    # it: a +now+ before the latest observation is taken as that observation.
    #
    # With +expect+, so that nobody breaks the *next* holder by mistake, it is rejected as +:vacant+ where there is no
    # lease and as +:stale_token+ where it is under another token. With no token left to burn the resource is vacated all
    # the same, and the answer is +:tokens_exhausted+.
    #
    # @param now [Float, Integer, Rational] seconds
    # @param expect [Integer, nil] the token of the lease that is meant
    # @return [Integer, Decision] the burnt token, or the rejection
    def revoke(now:, expect: nil) = _revoke(now, expect)

    # @return [String]
    def inspect
      "#<#{self.class} last_issued=#{last_issued.inspect} lease=#{lease.inspect} observed=#{observed} " \
        "clock_policy=#{clock_policy.inspect}>"
    end
    alias to_s inspect
  end
end
