# frozen_string_literal: true

require_relative "test_helper"

class HolderTest < Minitest::Test
  def setup
    @cadence = Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)
    @holder = Holder.new(token: 1, confirmed_at: 0, cadence: @cadence)
  end

  def test_the_walk_through
    refute @holder.renewal_due?(now: 9)
    assert @holder.renewal_due?(now: 10)
    assert @holder.refresh(now: 10)
    assert_predicate @holder, :unconfirmed?
    assert @holder.confirm(token: 1, at: 11)
    assert_predicate @holder, :confirmed?
    refute @holder.at_risk?(now: 35)
    assert @holder.at_risk?(now: 36)
    assert @holder.expire
    assert_predicate @holder, :expired?
    assert @holder.reacquire(token: 2, at: 40)
    assert_predicate @holder, :confirmed?
    assert_nil @holder.fence
    assert_predicate @holder, :fenced?
    assert_nil @holder.warning_deadline
  end

  def test_its_deadlines
    assert_equal [0.0, 10.0, 25.0, 30.0],
                 [@holder.confirmed_at, @holder.renewal_at, @holder.warning_deadline, @holder.stop_deadline]
    assert_equal 1, @holder.token
  end

  def test_the_clock_decides
    assert_equal %i[confirmed confirmed at_risk at_risk expired expired],
                 [0, 24.9, 25, 29.9, 30, 1e9].map { |now| @holder.state_at(now:) }
    assert_equal :confirmed, @holder.state, "what was recorded does not know the time"
    assert @holder.may_act?(now: 29.999)
    refute @holder.may_act?(now: 30)
  end

  def test_predicates_ask_the_clock_where_they_are_given_one
    assert @holder.confirmed?(now: 24)
    refute @holder.confirmed?(now: 25)
    assert @holder.at_risk?(now: 25)
    assert @holder.expired?(now: 30)
    refute_predicate @holder, :expired?
    @holder.refresh(now: 1)

    assert @holder.unconfirmed?(now: 1)
    refute @holder.unconfirmed?(now: 30)
    @holder.refresh(now: 26)

    assert_predicate @holder, :at_risk?
  end

  def test_a_renewal_past_the_stop_deadline_must_not_be_sent
    refute @holder.refresh(now: 30)
    assert_predicate @holder, :expired?
    refute @holder.renewal_due?(now: 31)
    assert_nil @holder.renewal_at
    assert_nil @holder.stop_deadline
  end

  def test_a_stale_reply_is_ignored
    holder = Holder.new(token: 5, confirmed_at: 0, cadence: @cadence)
    holder.refresh(now: 10)

    refute holder.confirm(token: 4, at: 11)
    refute holder.confirm(token: 0, at: 11)
    refute holder.confirm_at(token: 4, sent: 10, granted_ttl: 30, now: 11)
    refute holder.confirm_at(token: 0, sent: 10, granted_ttl: 30, now: 11)
    assert_predicate holder, :unconfirmed?
    assert_equal 5, holder.token
    assert holder.confirm(token: 6, at: 11)
    assert_equal 6, holder.token
  end

  def test_the_clock_has_its_say_with_a_stale_reply_too
    [0, 4].each do |token|
      holder = Holder.new(token: 5, confirmed_at: 0, cadence: @cadence)

      refute holder.confirm_at(token:, sent: 10, granted_ttl: 30, now: 30)
      assert_predicate holder, :expired?
      holder = Holder.new(token: 5, confirmed_at: 0, cadence: @cadence)

      refute holder.reacquire_at(token:, sent: 30, granted_ttl: 30, now: 30)
      assert_predicate holder, :expired?
    end
  end

  def test_a_late_answer_revives_nobody
    assert @holder.refresh(now: 29)
    refute @holder.confirm_at(token: 1, sent: 29, granted_ttl: 30, now: 30)
    assert_predicate @holder, :expired?
    refute @holder.confirm(token: 9, at: 31)
  end

  def test_an_answer_counts_from_when_it_was_asked_for
    assert @holder.refresh(now: 10)
    assert @holder.confirm_at(token: 1, sent: 10, granted_ttl: 30, now: 12)
    assert_in_delta 40.0, @holder.stop_deadline, 0
  end

  def test_the_shorter_of_what_was_asked_and_what_was_granted
    holder = Holder.granted(token: 1, sent: 100, granted_ttl: 15, now: 101, cadence: @cadence)

    assert_equal [105.0, 112.5, 115.0], [holder.renewal_at, holder.warning_deadline, holder.stop_deadline]
    holder = Holder.granted(token: 1, sent: 100, granted_ttl: 60, now: 101, cadence: @cadence)

    assert_in_delta 130.0, holder.stop_deadline, 0
    assert_predicate Holder.granted(token: 1, sent: 100, granted_ttl: 1, now: 101, cadence: @cadence), :expired?
  end

  def test_only_a_newer_token_recovers
    @holder.expire

    refute @holder.reacquire(token: 1, at: 40)
    refute @holder.reacquire(token: 0, at: 40)
    refute @holder.reacquire_at(token: 1, sent: 40, granted_ttl: 30, now: 41)
    assert @holder.reacquire_at(token: 2, sent: 40, granted_ttl: 30, now: 41)
    assert_in_delta 70.0, @holder.stop_deadline, 0
    refute @holder.reacquire(token: 3, at: 50), "it is not expired"
  end

  def test_taken_again_too_late
    @holder.expire

    refute @holder.reacquire_at(token: 2, sent: 40, granted_ttl: 30, now: 70)
    assert_predicate @holder, :expired?
    assert_equal 2, @holder.token
  end

  def test_expiry_is_news_once
    assert @holder.expire
    refute @holder.expire
  end

  def test_a_fence_is_final
    2.times { @holder.fence }

    assert_predicate @holder, :fenced?
    assert_equal :fenced, @holder.state_at(now: 1e6)
    refute @holder.expire
    refute @holder.refresh(now: 1)
    refute @holder.confirm(token: 9, at: 1)
    refute @holder.reacquire(token: 9, at: 1)
    refute @holder.may_act?(now: 1)
    refute @holder.at_risk?(now: 29)
    refute @holder.renewal_due?(now: 29)
    assert_nil @holder.stop_deadline
  end

  def test_inspect
    assert_equal "#<LeaseMachines::Holder token=1 state=:confirmed confirmed_at=0.0 stop_deadline=30.0>", @holder.inspect
    assert_equal @holder.inspect, @holder.to_s
  end

  def test_the_holder_stops_before_the_next_one_starts
    authority = Authority.new
    lease = authority.acquire(owner: 1, now: 100.2, ttl: 30).lease # asked at 100 by the holder's clock, which is the same
    holder = Holder.granted(token: lease.token, sent: 100, granted_ttl: 30, now: 100.4, cadence: @cadence)
    stop = holder.stop_deadline

    refute holder.may_act?(now: stop)
    assert_predicate authority.acquire(owner: 2, now: stop, ttl: 30), :rejected?
  end
end
