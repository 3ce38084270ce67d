# frozen_string_literal: true

require_relative "test_helper"

# The collector runs at every allocation, and moves everything that can be moved.
class GcStressTest < Minitest::Test
  # Numbers that are objects of their own, and so can be collected: beyond 2**62, and Floats that are no immediates.
  OWNER = 2**63
  LATE = 2.0**60

  def test_every_call_under_stress
    stressed { everything }

    assert_equal everything, stressed { everything }
  end

  def test_every_error_under_stress
    stressed do
      assert_raises(TypeError) { Authority.new.acquire(owner: 1.5, now: 0, ttl: 1) }
      assert_raises(RangeError) { Authority.new.acquire(owner: 2**64, now: 0, ttl: 1) }
      assert_raises(ArgumentError) { Authority.new.acquire(owner: 1, now: -1r / 3, ttl: 1) }
      assert_raises(ArgumentError) { Authority.new(clock_policy: :other) }
      assert_raises(FrozenError) { Authority.new.freeze.revoke(now: 1) }
      assert_raises(InvalidCheckpoint) { Checkpoint.from_bytes("no") }
      assert_raises(ArgumentError) { Cadence.new(1, 2, 3) }
    end
  end

  def test_a_store_under_stress
    stressed do
      LeaseMachines.open("sqlite::memory:") do |leases|
        held = leases.acquire("job", ttl: 60, label: "a label")
        lease = held.lease

        assert_equal "a label", leases.acquire("job", ttl: 60).occupant.label
        assert_equal :renewed, leases.renew("job", owner: lease.owner, token: lease.token, ttl: 90).status
        assert_equal [["job", held.epoch]], leases.list.map { [_1.resource, _1.epoch] }
        assert_raises(Refused) { leases.acquire("job", ttl: 10**6) }
        assert_equal released, leases.release("job", owner: lease.owner, token: lease.token)
        assert_equal [:released], leases.history("job").map(&:outcome)
        refute_empty leases.doctor
      end
    end
  end

  def test_ids_under_stress
    ids = MachineId.start(strategy: MachineId::Fixed.new(7))
    wide = ids.counter(bits: 128)
    stressed do
      made = [ids.next_id, *ids.next_batch(20), wide.next_id, *wide.next_batch(20)]

      assert_equal made.uniq, made
      assert_equal 7, MachineId::Layout.default(bits: 128).decode(made.last).machine_id
      assert_raises(MachineId::Disabled) { ids.stop || ids.next_id }
    end
  end

  def test_stores_are_closed_when_they_are_collected
    before = ObjectSpace.each_object(Store).count
    50.times { LeaseMachines.open("sqlite::memory:").acquire("job", ttl: 60) }
    GC.start

    assert_operator ObjectSpace.each_object(Store).count, :<, before + 25
  end

  def test_everything_survives_being_moved
    skip_unless_compaction_works
    authority = Authority.new
    kept = Array.new(200) { |i| authority.acquire(owner: OWNER, now: LATE + (1024 * i), ttl: 1) }
    rejection = authority.acquire(owner: OWNER, now: LATE + (1024 * 199), ttl: 1)
    checkpoint = authority.checkpoint
    shown = [kept, rejection, checkpoint].inspect
    Array.new(10_000) { Object.new }
    3.times { GC.verify_compaction_references(toward: :empty, expand_heap: true) }

    assert_equal shown, [kept, rejection, checkpoint].inspect
    assert_same rejection, authority.acquire(owner: OWNER, now: LATE + (1024 * 199), ttl: 1)
    assert_equal everything, everything
  end

  def test_automatic_compaction
    skip_unless_compaction_works
    before = GC.auto_compact
    GC.auto_compact = true
    20.times { everything.tap { GC.start } }
    pass
  ensure
    GC.auto_compact = before unless before.nil?
  end

  def test_objects_are_collected
    100.times { Authority.new }
    GC.start
    before = ObjectSpace.each_object(Authority).count
    10_000.times { Authority.new }
    GC.start

    assert_operator ObjectSpace.each_object(Authority).count, :<, before + 1000
  end

  private

  def stressed
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  def skip_unless_compaction_works
    skip "this platform cannot compact" unless GC.respond_to?(:compact)
  end

  def everything
    authority = Authority.new
    first = authority.acquire(owner: OWNER, now: LATE, ttl: 1024)
    occupied = authority.acquire(owner: 1, now: LATE, ttl: 1)
    second = authority.renew(owner: OWNER, token: 1, now: LATE, ttl: 4096r)
    third = authority.reacquire(owner: OWNER, now: LATE, ttl: 1024)
    checkpoint = Checkpoint.from_bytes(authority.checkpoint.to_bytes)
    parts = Checkpoint.from_parts(**checkpoint.to_h)
    released = Authority.restore(parts).release(owner: OWNER, token: 2, now: LATE)
    fence = Fence.new(highest: OWNER)
    holder = Holder.granted(token: OWNER, sent: 0, granted_ttl: 2, now: 1, cadence: Cadence.new(3, 2, 1r / 3))
    [first, occupied, second, third, checkpoint, parts, released, fence.accept(OWNER + 1), fence.highest, holder.inspect,
     holder.confirm_at(token: OWNER + 1, sent: 1, granted_ttl: 3, now: 1.5), holder.stop_deadline, authority.revoke(now: 0),
     authority.inspect].map(&:inspect)
  end
end
