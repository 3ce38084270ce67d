# frozen_string_literal: true

require_relative "test_helper"

class AuthorityTest < Minitest::Test
  def setup
    @authority = Authority.new
  end

  def test_the_first_grant_has_token_1_until_now_plus_ttl
    assert_equal granted(owner: 1, token: 1, expires_at: 2.0), @authority.acquire(owner: 1, now: 0.0, ttl: 2.0)
  end

  def test_a_live_lease_is_in_the_way
    @authority.acquire(owner: 1, now: 0.0, ttl: 2.0)

    assert_equal rejected(:occupied), @authority.acquire(owner: 2, now: 1.0, ttl: 2.0)
    assert_equal rejected(:occupied), @authority.acquire(owner: 1, now: 1.0, ttl: 2.0), "the owner's own too"
  end

  def test_at_its_deadline_a_lease_is_over
    @authority.acquire(owner: 1, now: 0.0, ttl: 2.0)

    assert_equal rejected(:occupied), @authority.acquire(owner: 2, now: 2.0.prev_float.round(9) - 1e-9, ttl: 2.0)
    assert_equal granted(owner: 2, token: 2, expires_at: 4.0), @authority.acquire(owner: 2, now: 2.0, ttl: 2.0)
  end

  def test_a_renewal_extends_the_lease
    @authority.acquire(owner: 1, now: 0.0, ttl: 2.0)

    assert_equal renewed(owner: 1, token: 1, expires_at: 4.0), @authority.renew(owner: 1, token: 1, now: 1.0, ttl: 3.0)
    assert_equal rejected(:stale_token), @authority.renew(owner: 1, token: 2, now: 1.0, ttl: 3.0)
    assert_equal released, @authority.release(owner: 1, token: 1, now: 2.0)
  end

  def test_a_renewal_never_shortens
    @authority.acquire(owner: 1, now: 0.0, ttl: 10.0)

    assert_equal renewed(owner: 1, token: 1, expires_at: 10.0), @authority.renew(owner: 1, token: 1, now: 1.0, ttl: 1.0)
  end

  def test_a_renewal_never_resurrects
    @authority.acquire(owner: 1, now: 0.0, ttl: 2.0)

    assert_equal rejected(:expired), @authority.renew(owner: 1, token: 1, now: 2.0, ttl: 2.0)
  end

  def test_what_is_over_cannot_be_released
    @authority.acquire(owner: 1, now: 0.0, ttl: 1.0)

    assert_equal rejected(:expired), @authority.release(owner: 1, token: 1, now: 3.0)
  end

  def test_a_clock_that_goes_back_is_rejected_and_leaves_no_trace
    @authority.acquire(owner: 1, now: 2.0, ttl: 1.0)
    before = @authority.checkpoint

    assert_equal rejected(:clock_regressed), @authority.acquire(owner: 1, now: 1.0, ttl: 1.0)
    assert_equal before, @authority.checkpoint
  end

  def test_a_rejection_observes_the_time_all_the_same
    @authority.acquire(owner: 1, now: 0.0, ttl: 0.0)
    @authority.acquire(owner: 1, now: 5.0, ttl: 0.0)

    assert_in_delta 5.0, @authority.observed, 0
    assert_equal rejected(:clock_regressed), @authority.acquire(owner: 1, now: 4.0, ttl: 1.0)
  end

  def test_a_clamped_clock_decides_at_the_latest_observation
    authority = Authority.new(clock_policy: :clamp)
    authority.acquire(owner: 1, now: 10.0, ttl: 1.0)

    assert_equal rejected(:occupied), authority.acquire(owner: 2, now: 3.0, ttl: 1.0)
    assert_equal renewed(owner: 1, token: 1, expires_at: 14.0), authority.renew(owner: 1, token: 1, now: 3.0, ttl: 4.0)
    assert_equal :clamp, authority.clock_policy
    assert_equal :reject, @authority.clock_policy
  end

  def test_the_owner_may_rotate_its_own_lease
    @authority.acquire(owner: 1, now: 0.0, ttl: 5.0)

    assert_equal rejected(:occupied), @authority.reacquire(owner: 2, now: 1.0, ttl: 5.0)
    assert_equal granted(owner: 1, token: 2, expires_at: 6.0), @authority.reacquire(owner: 1, now: 1.0, ttl: 5.0)
    assert_equal rejected(:stale_token), @authority.renew(owner: 1, token: 1, now: 1.0, ttl: 5.0)
  end

  def test_nobody_to_renew_or_release
    assert_equal rejected(:vacant), @authority.renew(owner: 1, token: 1, now: 0.0, ttl: 1.0)
    assert_equal rejected(:vacant), @authority.release(owner: 1, token: 1, now: 0.0)
  end

  def test_somebody_elses_lease
    @authority.acquire(owner: 1, now: 0.0, ttl: 5.0)

    assert_equal rejected(:wrong_owner), @authority.renew(owner: 2, token: 1, now: 0.0, ttl: 1.0)
    assert_equal rejected(:wrong_owner), @authority.release(owner: 2, token: 1, now: 0.0)
  end

  def test_a_ttl_of_zero
    assert_equal rejected(:invalid_ttl), @authority.acquire(owner: 1, now: 0.0, ttl: 0)
    assert_equal rejected(:invalid_ttl), @authority.reacquire(owner: 1, now: 0.0, ttl: 0.0)
    assert_equal rejected(:invalid_ttl), @authority.acquire(owner: 1, now: 0.0, ttl: 1e-10), "less than a nanosecond"
    @authority.acquire(owner: 1, now: 0.0, ttl: 1)

    assert_equal rejected(:invalid_ttl), @authority.renew(owner: 9, token: 9, now: 0.0, ttl: 0r)
  end

  def test_short_ttls_are_exact
    { 0.001 => 0.001, 0.5 => 0.5, 1.5 => 1.5, 1e-9 => 1e-9, 3r / 1000 => 0.003 }.each do |ttl, deadline|
      assert_equal deadline, Authority.new.acquire(owner: 1, now: 0, ttl:).lease.expires_at
    end
  end

  def test_a_deadline_out_of_range
    assert_equal rejected(:deadline_overflow), @authority.acquire(owner: 1, now: MAX, ttl: 1)
    @authority.acquire(owner: 1, now: MAX, ttl: 1r / 2)

    assert_equal rejected(:deadline_overflow), @authority.renew(owner: 1, token: 1, now: MAX, ttl: 1)
  end

  def test_tokens_run_out_and_never_wrap
    authority = Authority.restore(Checkpoint.from_parts(last_issued: MAX - 1, lease: nil, observed: 0))

    assert_equal MAX, authority.acquire(owner: 1, now: 0, ttl: 1).lease.token
    assert_equal rejected(:tokens_exhausted), authority.acquire(owner: 1, now: 1, ttl: 1)
    assert_equal rejected(:tokens_exhausted), authority.revoke(now: 1)
    assert_nil authority.lease
  end

  def test_owners_are_any_64_bits
    [0, 1, (2**62) - 1, 2**62, (2**63) - 1, 2**63, MAX].each do |owner|
      assert_equal owner, Authority.new.acquire(owner:, now: 0, ttl: 1).lease.owner
    end
  end

  def test_token_zero_is_stale_after_all_that_comes_before_it
    assert_equal rejected(:vacant), @authority.renew(owner: 1, token: 0, now: 0, ttl: 1)
    assert_equal rejected(:vacant), @authority.revoke(now: 0, expect: 0)
    @authority.acquire(owner: 1, now: 0, ttl: 1)

    2.times do # once under token 1, once under token 2
      assert_equal rejected(:invalid_ttl), @authority.renew(owner: 1, token: 0, now: 0, ttl: 0)
      assert_equal rejected(:wrong_owner), @authority.renew(owner: 2, token: 0, now: 0, ttl: 1)
      assert_equal rejected(:stale_token), @authority.renew(owner: 1, token: 0, now: 0, ttl: 1)
      assert_equal rejected(:stale_token), @authority.release(owner: 1, token: 0, now: 0)
      assert_equal rejected(:stale_token), @authority.revoke(now: 0, expect: 0)
      assert_predicate @authority.reacquire(owner: 1, now: 0, ttl: 1), :granted?
    end
  end

  def test_revoke_burns_a_token
    @authority.acquire(owner: 1, now: 0.0, ttl: 9.0)

    assert_equal 2, @authority.revoke(now: 1.0)
    assert_nil @authority.lease
    assert_equal 2, @authority.last_issued
    assert_equal 3, @authority.acquire(owner: 1, now: 1.0, ttl: 1.0).lease.token
  end

  def test_revoke_breaks_only_the_lease_that_is_meant
    assert_equal rejected(:vacant), @authority.revoke(now: 0, expect: 1)
    @authority.acquire(owner: 1, now: 0, ttl: 9)

    assert_equal rejected(:stale_token), @authority.revoke(now: 0, expect: 2)
    assert_equal 1, @authority.lease.token
    assert_equal 2, @authority.revoke(now: 0, expect: 1)
  end

  def test_revoke_is_not_refused_by_the_clock
    @authority.acquire(owner: 1, now: 5, ttl: 9)

    assert_equal 2, @authority.revoke(now: 1)
    assert_in_delta 5.0, @authority.observed, 0
  end

  def test_a_new_authority
    assert_nil @authority.lease
    assert_nil @authority.last_issued
    assert_in_delta 0.0, @authority.observed, 0
  end

  def test_it_shows_its_lease_even_when_that_is_over
    lease = @authority.acquire(owner: 1, now: 0, ttl: 1).lease
    @authority.acquire(owner: 1, now: 7, ttl: 0)

    assert_equal lease, @authority.lease
    assert_equal 1, @authority.last_issued
  end

  def test_a_checkpoint_goes_on_where_it_was_taken
    @authority.acquire(owner: 1, now: 0, ttl: 1)
    restored = Authority.restore(@authority.checkpoint)

    assert_equal rejected(:occupied), restored.acquire(owner: 2, now: 0.5, ttl: 1)
    assert_equal granted(owner: 2, token: 2, expires_at: 2.0), restored.acquire(owner: 2, now: 1, ttl: 1)
  end

  def test_a_checkpoint_does_not_carry_the_clock_policy
    checkpoint = Authority.new(clock_policy: :clamp).checkpoint

    assert_equal :reject, Authority.restore(checkpoint).clock_policy
    assert_equal :clamp, Authority.restore(checkpoint, clock_policy: :clamp).clock_policy
  end

  def test_inspect
    @authority.acquire(owner: 7, now: 0.5, ttl: 1)

    assert_match(/\A#<LeaseMachines::Authority last_issued=1 lease=.*owner=7.* observed=0.5 clock_policy=:reject>\z/,
                 @authority.inspect)
    assert_equal @authority.inspect, @authority.to_s
  end

  def test_a_subclass_makes_its_own
    kind = Class.new(Authority)

    assert_instance_of kind, kind.new
    assert_instance_of kind, kind.restore(@authority.checkpoint)
    assert_predicate kind.new.acquire(owner: 1, now: 0, ttl: 1), :granted?
  end
end
