# frozen_string_literal: true

require "tmpdir"
require_relative "test_helper"

class RactorTest < Minitest::Test
  def test_each_ractor_has_authorities_of_its_own
    workers = Array.new(4) do |number|
      Ractor.new(number) do |n|
        authority = LeaseMachines::Authority.new
        fence = LeaseMachines::Fence.new
        cadence = LeaseMachines::Cadence.new(ttl: 3, renew_every: 2, warn_before: 1)
        1000.times do |i|
          lease = authority.acquire(owner: n, now: i, ttl: 1).lease
          holder = LeaseMachines::Holder.new(token: lease.token, confirmed_at: i, cadence: cadence)
          raise "refused" unless fence.accept(lease.token) && holder.may_act?(now: i)
        end
        [authority.last_issued, fence.highest, authority.acquire(owner: 9, now: 999, ttl: 1).reason]
      end
    end

    assert_equal [[1000, 1000, :occupied]] * 4, workers.map { value_of(_1) }
  end

  def test_frozen_values_are_shared_and_not_copied
    authority = Authority.new
    decision = authority.acquire(owner: MAX, now: 1e9, ttl: 1)
    values = [decision, decision.lease, authority.checkpoint, Cadence.new(3, 2, 1),
              authority.acquire(owner: 1, now: 1e9, ttl: 1)]
    values.each do |value|
      assert Ractor.shareable?(value)
      assert_same value, value_of(Ractor.new(value) { |it| it })
    end
  end

  def test_a_checkpoint_is_how_an_authority_moves
    authority = Authority.new
    authority.acquire(owner: 1, now: 0, ttl: 1)
    token = value_of(Ractor.new(authority.checkpoint) do |checkpoint|
      LeaseMachines::Authority.restore(checkpoint).acquire(owner: 2, now: 1, ttl: 1).lease.token
    end)

    assert_equal 2, token
  end

  def test_authorities_and_fences_do_not_move_and_are_not_shared
    [Authority.new, Fence.new, Holder.new(token: 1, confirmed_at: 0, cadence: Cadence.new(3, 2, 1))].each do |object|
      refute Ractor.shareable?(object)
      assert_raises(TypeError, Ractor::Error) { Ractor.new(object) { |it| it } }
      assert_raises(Ractor::Error) { Ractor.make_shareable(object) }
    end
  end

  def test_errors_in_a_ractor
    raised = value_of(Ractor.new do
      LeaseMachines::Checkpoint.from_bytes("no")
    rescue LeaseMachines::Error => error
      [error.kind, error.message]
    end)

    assert_equal [:length, "a checkpoint has 56 bytes, found 2"], raised
  end

  def test_each_ractor_opens_a_store_of_its_own
    Dir.mktmpdir do |folder|
      tokens = Array.new(2) do |number|
        Ractor.new("sqlite:#{folder}/leases.db", number) do |url, n|
          LeaseMachines.open(url) { |leases| leases.acquire("job-#{n}", ttl: 60).lease.token }
        end
      end

      tokens.each { |ractor| assert_kind_of Integer, value_of(ractor) }
      LeaseMachines.open("sqlite:#{folder}/leases.db") { |leases| refute Ractor.shareable?(leases) }
    end
  end

  def test_each_ractor_has_a_machine_id_of_its_own
    ids = MachineId.start(strategy: MachineId::Fixed.new(5))
    machine_id, id, current = value_of(Ractor.new do
      own = LeaseMachines::MachineId.start(strategy: LeaseMachines::MachineId::Fixed.new(6))
      LeaseMachines::MachineId.next_id
    rescue LeaseMachines::MachineId::NotStarted
      [own.machine_id, own.next_id.tap { own.stop }, LeaseMachines::MachineId.current]
    end)

    assert_equal [6, 6, nil], [machine_id, MachineId::Layout.default.decode(id).machine_id, current]
    assert_equal 5, MachineId::Layout.default.decode(MachineId.next_id).machine_id
    ids.stop
  end

  private

  # Ruby 4.0 has renamed it.
  def value_of(ractor) = ractor.respond_to?(:value) ? ractor.value : ractor.take
end
