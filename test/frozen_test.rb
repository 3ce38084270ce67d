# frozen_string_literal: true

require_relative "test_helper"

# What is frozen does not change, and what is one cannot become two.
class FrozenTest < Minitest::Test
  CADENCE = LeaseMachines::Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)

  # Each object, with every call that may change it; also those that would have been refused.
  MUTATIONS = {
    -> { LeaseMachines::Authority.new } => [
      -> { _1.acquire(owner: 1, now: 0, ttl: 1) }, -> { _1.acquire(owner: 1, now: 0, ttl: 0) },
      -> { _1.reacquire(owner: 1, now: 0, ttl: 1) }, -> { _1.renew(owner: 1, token: 1, now: 0, ttl: 1) },
      -> { _1.release(owner: 1, token: 1, now: 0) }, -> { _1.revoke(now: 0) }, -> { _1.revoke(now: 0, expect: 3) }
    ],
    -> { LeaseMachines::Fence.new(highest: 2) } => [-> { _1.accept(3) }, -> { _1.accept(1) }, -> { _1.accept(0) }],
    -> { LeaseMachines::Holder.new(token: 1, confirmed_at: 0, cadence: CADENCE) } => [
      -> { _1.refresh(now: 1) }, -> { _1.confirm(token: 1, at: 1) }, -> { _1.confirm(token: 0, at: 1) },
      -> { _1.confirm_at(token: 1, sent: 1, granted_ttl: 1, now: 1) }, -> { _1.reacquire(token: 2, at: 1) },
      -> { _1.reacquire_at(token: 2, sent: 1, granted_ttl: 1, now: 1) }, -> { _1.expire }, -> { _1.fence }
    ]
  }.freeze

  def test_every_mutation_of_a_frozen_object_raises
    MUTATIONS.each do |make, mutations|
      mutations.each do |mutation|
        object = make.().freeze
        before = object.inspect
        error = assert_raises(FrozenError) { mutation.(object) }

        assert_equal "can't modify frozen #{object.class}", error.message
        assert_same object, error.receiver
        assert_equal before, object.inspect
      end
    end
  end

  def test_a_frozen_object_still_answers
    authority = Authority.new.tap { _1.acquire(owner: 1, now: 0, ttl: 1) }.freeze

    assert_equal 1, authority.lease.token
    assert_equal 2, Authority.restore(authority.checkpoint).acquire(owner: 1, now: 1, ttl: 1).lease.token
    assert Fence.new(highest: 2).freeze.would_accept?(2)
    assert Holder.new(token: 1, confirmed_at: 0, cadence: CADENCE).freeze.may_act?(now: 1)
  end

  def test_no_copies
    MUTATIONS.each_key do |make|
      object = make.()
      [-> { object.dup }, -> { object.clone }, -> { object.clone(freeze: true) }].each do |copy|
        error = assert_raises(TypeError, &copy)

        assert_equal "#{object.class} cannot be copied: two of them would disagree", error.message
      end
      assert_raises(TypeError) { object.class.allocate }
      assert_raises(TypeError) { Marshal.dump(object) }
      # Not by way of the method that was overridden, either.
      assert_raises(TypeError) { Kernel.instance_method(:dup).bind_call(object) }
      assert_raises(TypeError) { Kernel.instance_method(:clone).bind_call(object) }
      assert_raises(TypeError) { Class.new(object.class).allocate }
    end
  end

  def test_natives_are_private
    [Authority, Fence, Holder, Lease, Cadence, Checkpoint].each do |kind|
      assert_empty(kind.public_instance_methods(false).select { _1.start_with?("_") } - [:_dump])
      assert_empty(kind.singleton_class.public_instance_methods(false).select { _1.start_with?("_") } - [:_load])
    end
  end
end
