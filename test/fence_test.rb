# frozen_string_literal: true

require_relative "test_helper"

class FenceTest < Minitest::Test
  def test_takes_what_rises_and_refuses_what_does_not
    fence = Fence.new

    assert_nil fence.highest
    assert fence.accept(1)
    assert fence.accept(2)
    refute fence.accept(1)
    assert fence.accept(2), "its holder may write again"
    assert_equal 2, fence.highest
  end

  def test_starts_at_a_mark_that_was_kept
    fence = Fence.new(highest: 2)

    refute fence.accept(1)
    assert fence.accept(2)
    assert fence.accept(3)
    refute fence.accept(2)
  end

  def test_a_question_raises_no_mark
    fence = Fence.new(highest: 2)

    assert fence.would_accept?(9)
    refute fence.would_accept?(1)
    assert_equal 2, fence.highest
  end

  def test_token_zero_is_not_accepted
    fence = Fence.new

    refute fence.accept(0)
    refute fence.would_accept?(0)
    assert_nil fence.highest
    assert_raises(RangeError) { Fence.new(highest: 0) }
  end

  def test_the_greatest_token
    fence = Fence.new

    assert fence.accept(MAX)
    assert_equal MAX, fence.highest
    refute fence.accept(MAX - 1)
    assert_equal MAX, Fence.new(highest: MAX).highest
  end

  def test_the_one_who_overslept_is_stopped
    authority = Authority.new
    fence = Fence.new
    first = authority.acquire(owner: 1, now: 0, ttl: 2).lease
    second = authority.acquire(owner: 2, now: 5, ttl: 2).lease

    assert fence.accept(second.token)
    refute fence.accept(first.token)
  end

  def test_a_burnt_token_stops_the_old_holder_at_once
    authority = Authority.new
    fence = Fence.new
    old = authority.acquire(owner: 1, now: 0, ttl: 9).lease
    fence.accept(old.token)
    fence.accept(authority.revoke(now: 1))

    refute fence.accept(old.token)
    assert fence.accept(authority.acquire(owner: 2, now: 1, ttl: 9).lease.token)
  end

  def test_inspect
    assert_equal "#<LeaseMachines::Fence highest=nil>", Fence.new.inspect
    assert_equal "#<LeaseMachines::Fence highest=2>", Fence.new(highest: 2).to_s
  end
end
