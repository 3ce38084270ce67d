# frozen_string_literal: true

require "tmpdir"
require_relative "test_helper"
require_relative "support/machine_ids"

# These only wait.
Minitest.parallel_executor = Minitest::Parallel::Executor.new(4)

# What a lease's time brings. None is shorter than 30 s, and the first renewal comes no sooner than after 10 s: so all wait
# at once.
class MachineIdTermTest < Minitest::Test
  include MachineIds

  parallelize_me!

  # A lease of 30 s is over for its holder this long after it was asked for.
  TERM = 20

  def test_a_strategy_in_ruby_is_asked_to_renew
    strategy = Asked.new
    notices = Thread::Queue.new
    start(strategy, lease_duration: 100, renew_interval: 20, on_event: notices.method(:push))
    name, duration, limit = strategy.calls.pop

    assert_equal [7, :acquire, 100.0], [@ids.machine_id, name, duration]
    assert_operator limit, :>, 0
    assert_equal [:acquired, 7, 60.0, nil, nil], notices.pop(timeout: PATIENCE).deconstruct
    strategy.renewing = ->(_) { [:another_lease, 50] }

    assert_equal [:renew, :the_lease, 100.0], strategy.calls.pop(timeout: PATIENCE).first(3)
    assert_equal [:renewed, 7, 50.0, nil, nil], notices.pop(timeout: PATIENCE).deconstruct
    last = @ids.next_id
    @ids.stop

    assert_equal %i[release another_lease], strategy.calls.pop(timeout: PATIENCE)
    assert_operator strategy.released.first.last, :>=, MachineId::Layout.default.decode(last).time.to_f
  end

  # One that raises in renew counts as retry; its lease is not released, and IDs go on.
  def test_a_strategy_that_raises_in_renew
    strategy = Asked.new
    strategy.renewing = ->(_) { raise NotImplementedError, "not today" }
    notices = Thread::Queue.new
    start(strategy, lease_duration: 60, renew_interval: 20, on_event: notices.method(:push))
    notice = heard_of(:not_renewed, notices)

    assert_equal [7, :retry, "NotImplementedError: not today"], notice.to_h.values_at(:machine_id, :reason, :message)
    assert_equal 7, machine_of(@ids.next_id)
    assert_empty strategy.released
    strategy.acquiring = -> { [8, :another_lease, 60] }
    strategy.renewing = ->(_) { raise MachineId::LeaseLost, "another has it: \xE9" }
    lost = heard_of(:lost, notices)

    assert_equal [7, :lost], [lost.machine_id, lost.reason]
    assert_includes lost.message, "another has it"
    heard_of(:acquired, notices)

    assert_equal [8, 8], [@ids.machine_id, machine_of(@ids.next_id)]
  end

  NO_RENEWAL = [nil, [], :another, [:another], [:another, "a minute"], [:another, -1], [:another, Float::NAN],
                [:another, Float::INFINITY], [:another, 2**64]].freeze

  # Nobody knows what became of the lease: it is asked again, for the one that it had.
  def test_an_answer_that_makes_no_sense_is_no_renewal
    started = NO_RENEWAL.map { |answer| [answer, *start_a_renewing_one(answer)] }
    started.each do |answer, strategy, notices, ids|
      2.times do
        notice = heard_of(:not_renewed, notices)

        assert_equal [7, :retry], [notice.machine_id, notice.reason], answer.inspect
        assert_match(/\A(Type|Argument|Range)Error: ttl must /, notice.message, answer.inspect)
      end
      assert_equal 7, machine_of(ids.next_id)
      ids.stop

      assert_equal [:the_lease], renewed_ones(strategy).uniq, answer.inspect
      assert_equal [:the_lease], strategy.released.map(&:first), answer.inspect
    end
  ensure
    started&.each { |*, ids| ids.stop }
  end

  # What lasts for less than 30 s is given back, and what lasts for thousands of years is good.
  def test_the_shortest_and_the_longest_renewal
    short, short_notices, short_ids = start_a_renewing_one([:another, 29.9])
    long, long_notices, long_ids = start_a_renewing_one([:another, (2**64) - 1])
    lost = heard_of(:lost, short_notices)

    assert_equal [7, :illegal_ttl], [lost.machine_id, lost.reason]
    assert_match(/renewed for 29\.9s/, lost.message)
    heard_of(:acquired, short_notices) # again
    assert_equal [:another], short.released.map(&:first)
    assert_in_delta 2.0**64, heard_of(:renewed, long_notices).ttl, 1
    assert_equal [7, 7], [short_ids, long_ids].map { |ids| machine_of(ids.next_id) }
    assert_empty long.released
  ensure
    [short_ids, long_ids].compact.each(&:stop)
  end

  # Of a new one all numbers would be free, also those that others hold.
  def test_a_file_that_was_replaced_is_not_asked
    Dir.mktmpdir do |folder|
      url = "sqlite:#{folder}/leases.db"
      notices = Thread::Queue.new
      LeaseMachines.open(url) do |leases|
        pool = MachineId::PoolLease.new(store: leases, pool: "ids", size: 1)
        start(pool, lease_duration: 60, renew_interval: 20, on_event: notices.method(:push))
      end
      # It is looked how many are left, and then the file is closed.
      heard_of(:runs_short, notices)
      wait_until { !File.exist?("#{folder}/leases.db-wal") }
      File.rename("#{folder}/leases.db", "#{folder}/kept.db")
      LeaseMachines.open(url, &:epoch)

      assert_match(/leases\.db was removed or replaced/, heard_of(:not_renewed, notices).message)
      assert_equal 0, machine_of(@ids.next_id)
      File.delete("#{folder}/leases.db")

      assert_match(/leases\.db was removed or replaced/, heard_of(:not_renewed, notices).message)
      File.rename("#{folder}/kept.db", "#{folder}/leases.db")

      assert_equal 0, heard_of(:renewed, notices).machine_id
      @ids.stop
      # The file is closed a moment later.
      wait_until { !File.exist?("#{folder}/leases.db-wal") && !File.exist?("#{folder}/leases.db-shm") }
    end
  end

  # What was done wrong elsewhere: IDs were made for seconds past the lease, or for ever, while a call hung.
  def test_ids_end_in_time_while_a_renewal_hangs
    gate = Thread::Queue.new
    lost = Thread::Queue.new
    strategy = Asked.new
    strategy.renewing = ->(_) { gate.pop }
    start_a_short_term(strategy, on_lost: lost.method(:push))

    assert_ids_end_in_time
    assert_equal :expired, lost.pop(timeout: PATIENCE).reason
  ensure
    gate&.close
  end

  # And where the manager was dead.
  def test_ids_end_in_time_where_all_that_serves_the_manager_in_ruby_is_dead
    group = ThreadGroup.new
    Thread.new { group.add(Thread.current) && start_a_short_term(Asked.new) }.join

    assert_equal %w[lease-id-calls lease-id-notices], group.list.each(&:kill).map(&:name).sort
    assert_ids_end_in_time
  end

  private

  # A strategy that answers this, its notices but for the first, and its machine ID.
  def start_a_renewing_one(answer)
    strategy = Asked.new
    strategy.renewing = ->(_) { answer }
    notices = Thread::Queue.new
    ids = MachineId.start(strategy: strategy, lease_duration: 60, renew_interval: 20, on_event: notices.method(:push))
    heard_of(:acquired, notices)
    [strategy, notices, ids]
  end

  # The leases that it was asked to renew.
  def renewed_ones(strategy)
    calls = Array.new(strategy.calls.size) { strategy.calls.pop }
    calls.filter_map { |name, lease| lease if name == :renew }
  end

  # Of one lease: there is no other.
  def start_a_short_term(strategy, **options)
    strategy.acquiring = lambda do
      raise MachineId::Exhausted, "there was one" if @begun

      @begun = now
      [7, :the_lease, 30]
    end
    start(strategy, lease_duration: 30, renew_interval: 20, **options)
  end

  def assert_ids_end_in_time
    last = nil
    ended = assert_raises(MachineId::Disabled) do
      loop do
        asked = now
        @ids.next_id
        last = asked
        sleep 0.01
      end
    end

    assert_equal :expired, ended.reason
    assert_operator last - @begun, :<, TERM
    assert_operator last - @begun, :>, TERM / 2, "they go on until then"
  end
end
