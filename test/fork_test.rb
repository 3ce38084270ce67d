# frozen_string_literal: true

require_relative "test_helper"
require_relative "support/child"

# The decision model is memory and nothing else: a child has its own, and the parent does not see what it does with it.
class ForkTest < Minitest::Test
  include Child

  def test_a_child_has_a_copy_of_its_own
    authority = Authority.new
    authority.acquire(owner: 1, now: 0, ttl: 9)
    fence = Fence.new(highest: 1)

    seen = in_child do
      GC.start
      [authority.revoke(now: 1), authority.acquire(owner: 2, now: 1, ttl: 1), fence.accept(3), fence.highest]
    end

    assert_equal [2, granted(owner: 2, token: 3, expires_at: 2.0), true, 3], seen
    assert_equal 1, authority.lease.token
    assert_equal 1, fence.highest
    assert_equal rejected(:occupied), authority.acquire(owner: 2, now: 1, ttl: 1)
  end

  def test_a_child_of_a_child
    authority = Authority.new

    assert_equal 1, in_child { in_child { authority.acquire(owner: 1, now: 0, ttl: 1).lease.token } }
  end
end
