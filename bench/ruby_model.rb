# frozen_string_literal: true

# The authority once more, as one would write it in plain Ruby: what the native one is measured against by bench/ruby.rb,
# and checked against by test/model_test.rb. Tokens and times are as the caller gives them, and nothing is validated.
class PlainAuthority
  Lease = Data.define(:owner, :token, :expires_at)
  Decision = Data.define(:status, :lease, :reason)

  MAX_TOKEN = (2**64) - 1

  attr_reader :lease, :last_issued, :observed

  def initialize(clock_policy: :reject, last_issued: nil)
    @clock_policy = clock_policy
    @last_issued = last_issued
    @lease = nil
    @observed = 0
  end

  def acquire(owner:, now:, ttl:) = grant(now, ttl, owner) { true }

  def reacquire(owner:, now:, ttl:) = grant(now, ttl, owner) { |lease| lease.owner != owner }

  def renew(owner:, token:, now:, ttl:)
    now = observe(now) or return rejected(:clock_regressed)
    return rejected(:invalid_ttl) if ttl.zero?

    reason = obstacle(owner, token, now) and return rejected(reason)
    @lease = Lease.new(owner: owner, token: token, expires_at: [@lease.expires_at, now + ttl].max)
    Decision.new(status: :renewed, lease: @lease, reason: nil)
  end

  def release(owner:, token:, now:)
    now = observe(now) or return rejected(:clock_regressed)
    reason = obstacle(owner, token, now) and return rejected(reason)
    @lease = nil
    Decision.new(status: :released, lease: nil, reason: nil)
  end

  def revoke(now:, expect: nil)
    @observed = now if now > @observed
    if expect
      return rejected(:vacant) unless @lease
      return rejected(:stale_token) if @lease.token != expect
    end
    @lease = nil
    next_token || rejected(:tokens_exhausted)
  end

  private

  def grant(now, ttl, owner)
    now = observe(now) or return rejected(:clock_regressed)
    return rejected(:invalid_ttl) if ttl.zero?
    return rejected(:occupied) if @lease && now < @lease.expires_at && yield(@lease)

    token = next_token or return rejected(:tokens_exhausted)
    @lease = Lease.new(owner: owner, token: token, expires_at: now + ttl)
    Decision.new(status: :granted, lease: @lease, reason: nil)
  end

  def observe(now)
    return (@clock_policy == :clamp ? @observed : nil) if now < @observed

    @observed = now
  end

  def obstacle(owner, token, now)
    return :vacant unless @lease
    return :wrong_owner if @lease.owner != owner
    return :stale_token if @lease.token != token

    :expired if now >= @lease.expires_at
  end

  def next_token
    return if @last_issued == MAX_TOKEN

    @last_issued = (@last_issued || 0) + 1
  end

  def rejected(reason) = Decision.new(status: :rejected, lease: nil, reason: reason)
end
