# frozen_string_literal: true

require_relative "test_helper"

class LeaseTest < Minitest::Test
  def test_a_lease_is_data
    assert_equal Data, Lease.superclass
    assert_equal %i[owner token expires_at], Lease.members
  end

  def test_its_deadline_is_a_float_however_it_was_given
    [2, 2.0, 2r].each do |deadline|
      lease = Lease.new(owner: 1, token: 1, expires_at: deadline)

      assert_instance_of Float, lease.expires_at
      assert_operator Lease.new(owner: 1, token: 1, expires_at: 2.0), :eql?, lease
    end
  end

  def test_members_by_position_and_by_keyword
    assert_equal Lease.new(owner: 1, token: 2, expires_at: 3), Lease.new(1, 2, 3)
    assert_equal Lease.new(owner: 1, token: 2, expires_at: 3), Lease[1, 2, 3]
    assert_raises(ArgumentError) { Lease.new(1, 2) }
    assert_raises(ArgumentError) { Lease.new(owner: 1, token: 2, expires_at: 3, more: 4) }
  end

  def test_with_checks_as_new_does
    lease = Lease.new(1, 2, 3)

    assert_equal Lease.new(1, 5, 3), lease.with(token: 5)
    assert_raises(RangeError) { lease.with(token: 0) }
    assert_raises(TypeError) { lease.with(expires_at: "3") }
  end

  def test_frozen_and_shareable
    assert Ractor.shareable?(Lease.new(MAX, MAX, 1e18))
    assert Ractor.shareable?(Authority.new.acquire(owner: MAX, now: 1e18, ttl: 1).lease)
  end
end
