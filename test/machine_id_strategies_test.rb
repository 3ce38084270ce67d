# frozen_string_literal: true

require "tmpdir"
require "timeout"
require_relative "test_helper"
require_relative "support/machine_ids"

class MachineIdStrategiesTest < Minitest::Test
  include MachineIds

  class Unspeakable < MachineId::Refused
    def message = raise("there is none")
  end

  WHY = {
    ["Refused: no", :refused] => -> { raise MachineId::Refused, "no" },
    ["Refused: caf\uFFFD", :refused] => -> { raise MachineId::Refused, "caf\xE9" },
    ["Misconfigured: caf\uFFFD", :misconfigured] => -> { raise MachineId::Misconfigured, "caf\xE9".b },
    ["Refused: caf\u00E9", :refused] => -> { raise MachineId::Refused, "caf\u00E9".encode("UTF-16LE") },
    ["an exception whose message cannot be told", :refused] => -> { raise Unspeakable },
    ["Misconfigured: no", :misconfigured] => -> { raise MachineId::Misconfigured, "no" },
    ["Exhausted: all 512", :exhausted] => -> { raise MachineId::Exhausted, "all 512" },
    ["IOError: down", :unreachable] => -> { raise IOError, "down" },
    ["its thread was killed", :unreachable] => -> { Thread.current.kill },
    ["29s", :illegal_ttl] => -> { [7, :lease, 29] },
    ["machine_id must be an Integer, not nil", :unreachable] => -> {},
    ["machine_id must be an Integer, not Float", :unreachable] => -> { [7.5, :lease, 60] },
    ["machine_id must be in 0..65535, not 70000", :unreachable] => -> { [70_000, :lease, 60] },
    ["ttl must be seconds", :unreachable] => -> { [7, :lease, "a minute"] }
  }.freeze

  def test_a_start_that_fails_says_why
    starts = WHY.to_h do |(said, reason), acquiring|
      strategy = Asked.new
      strategy.acquiring = acquiring
      # What is not asked again ends at once: only a failure takes that long.
      limit = %i[refused misconfigured].include?(reason) ? 60 : 5
      thread = Thread.new do
        assert_raises(MachineId::StartError) { MachineId.start(strategy: strategy, acquire_timeout: limit) }
      end
      [[said, reason], thread]
    end
    starts.each do |(said, reason), thread|
      assert_includes thread.value.message, said
      assert_equal reason, thread.value.reason
    end
  end

  # A process at its limit of threads.
  module NoThreads
    class << self
      attr_accessor :wanting
    end

    def new(...)
      return super unless NoThreads.wanting&.call(Thread.current)

      raise ThreadError, "can't create Thread: Resource temporarily unavailable"
    end
  end
  Thread.singleton_class.prepend(NoThreads)

  def test_where_there_is_no_thread_for_a_call_it_is_asked_again
    strategy = Asked.new
    left = 2
    NoThreads.wanting = ->(by) { by.name == "lease-id-calls" && (left -= 1) >= 0 }
    notices = Thread::Queue.new
    start(strategy, acquire_timeout: 10, on_event: notices.method(:push))

    assert_equal 7, machine_of(@ids.next_id)
    assert_equal :unreachable, heard_of(:not_acquired, notices).reason
    assert_equal 1, strategy.calls.size
  ensure
    NoThreads.wanting = nil
  end

  def test_where_there_is_no_thread_at_all_nothing_is_left_behind
    names = -> { Thread.list.map(&:name).grep(/\Alease-id/) }
    before = names.().size
    threads = 0
    starter = Thread.current
    NoThreads.wanting = ->(by) { by == starter && (threads += 1) > 1 }

    assert_raises(ThreadError) { start(Asked.new) }
    NoThreads.wanting = nil
    wait_until { names.().size <= before }
  ensure
    NoThreads.wanting = nil
  end

  def test_who_waits_for_an_answer_is_told_where_nobody_gives_one_any_more
    before = Thread.list
    start(Asked.new)
    GC.disable # which would tell them at some time
    (Thread.list - before).find { |thread| thread.name == "lease-id-calls" }.kill.join
    @ids.report_lost
    @ids.stop
    # The system's threads, and not those of Ruby alone.
    wait_until { Dir["/proc/self/task/*/comm"].none? { |file| comm(file) == "lease-id-call" } }
  ensure
    GC.enable
  end

  def test_a_grant_that_cannot_be_read_is_given_back
    [[70_000, :lease, 60], [7, :lease, Float::NAN], [7, :lease, nil], ["7", :lease, 60]].each do |grant|
      strategy = Asked.new
      grants = [grant]
      strategy.acquiring = -> { grants.shift || raise(MachineId::Misconfigured, "enough") }

      assert_raises(MachineId::StartError) { MachineId.start(strategy: strategy) }
      wait_until { strategy.released.any? }
      assert_equal [[:lease, nil]], strategy.released, grant.inspect
    end
  end

  # A static strategy is one method.
  def test_a_strategy_with_nothing_but_acquire
    strategy = Object.new
    def strategy.acquire(duration, _options) = [5, nil, duration]
    notices = Thread::Queue.new
    start(strategy, on_event: notices.method(:push))

    assert_equal 5, machine_of(@ids.next_id)
    @ids.report_lost
    heard_of(:lost, notices)
    heard_of(:released, notices)

    assert_nil @ids.machine_id
    # Another, which is lost later, has been asked again by now.
    others = Thread::Queue.new
    other = MachineId.start(strategy: Asked.new, on_event: others.method(:push))
    other.report_lost
    2.times { heard_of(:acquired, others) }
    other.stop

    assert_empty notices, "it is taken for deterministic"
  end

  def test_an_interrupted_start_asks_no_more
    strategy = Asked.new
    gate = Thread::Queue.new
    others = Thread.list
    strategy.acquiring = -> { raise MachineId::Exhausted, gate.pop }
    thread = Thread.new { MachineId.start(strategy: strategy, acquire_timeout: nil) }
    strategy.calls.pop
    thread.kill

    assert thread.join(PATIENCE)
    gate << "none"
    wait_until { (Thread.list - others).none? { |other| other.name&.start_with?("lease-id") } }

    assert_empty strategy.calls
  end

  def test_what_a_start_is_granted_after_its_time_out_is_given_back
    strategy = Asked.new
    gate = Thread::Queue.new
    strategy.acquiring = -> { [7, :too_late, gate.pop] }

    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { MachineId.start(strategy: strategy, acquire_timeout: nil) } }
    strategy.calls.pop
    gate << 60

    assert_equal %i[release too_late], strategy.calls.pop(timeout: PATIENCE)
  end

  def test_a_pool_on_a_file
    Dir.mktmpdir do |folder|
      leases = LeaseMachines.open("sqlite:#{folder}/leases.db")
      pool = MachineId::PoolLease.new(store: leases, pool: "ids", size: 3, exclusive_identity: "web-0", label: "a test",
                                      range: 1..2)
      start(pool)
      again = MachineId.start(strategy: pool)

      assert_equal [1, 1], [@ids, again].map(&:machine_id), "that of a crash"
      assert_equal :behind, assert_raises(MachineId::ClockError) { again.sortable.next_id }.reason, "of its time"
      leases.close
      assert_equal 1, machine_of(again.next_id)
      again.stop
      LeaseMachines.open("sqlite:#{folder}/leases.db") do |opened|
        error = assert_raises(MachineId::StartError) { start(pool.with(store: opened, size: 4)) }
        assert_equal :misconfigured, error.reason
      end
    end
  end

  # Each call opens it anew, and a process may go elsewhere, as a daemon does: there is no other pool in which number 0 is
  # free.
  def test_a_file_is_the_same_wherever_the_process_is_by_then
    Dir.mktmpdir do |folder|
      notices = Thread::Queue.new
      other = Dir.chdir(folder) do
        pool = MachineId::PoolLease.new(store: LeaseMachines.open("sqlite:leases.db"), pool: "ids", size: 3)
        MachineId.start(strategy: pool).tap { start(pool, on_event: notices.method(:push)) }
      end
      heard_of(:acquired, notices)
      Dir.mkdir("#{folder}/elsewhere")
      Dir.chdir("#{folder}/elsewhere") do
        @ids.report_lost

        assert_equal 2, heard_of(:acquired, notices).machine_id, "0 is the other's, and 1 cools down"
        [other, @ids].each(&:stop)

        assert_empty Dir.children(".")
      end
    end
  end

  def test_a_pool_in_memory
    LeaseMachines.open("sqlite::memory:") do |leases|
      start(MachineId::PoolLease.new(store: leases, pool: "ids", size: 1, cool_down: 10, identity: "a"))
      none = MachineId::PoolLease.new(store: leases, pool: "ids", size: 1)

      assert_equal 0, @ids.machine_id
      full = assert_raises(MachineId::StartError) { MachineId.start(strategy: none, acquire_timeout: 0.2) }

      assert_equal :exhausted, full.reason
      assert_match(/pool ids/, full.message)
      [{ pool: "" }, { size: 513 }, { size: 600, range: 9..512 }, { range: 2..1 }, { range: 0..70_000 },
       { identity: "a", exclusive_identity: "b" }, { process_proof: true }, { cool_down: 9 }].each do |wrong|
        assert_raises(ArgumentError, wrong.to_s) { MachineId.start(strategy: none.with(**wrong)) }
      end
      [{ size: 2**40 }, { size: 0 }, { range: -1..3 }, { range: 3...3 }].each do |wrong|
        error = assert_raises(ArgumentError, wrong.to_s) { none.with(**wrong) }

        assert_includes error.message, wrong.values.first.to_s
      end
      [{ store: nil }, { size: 1.5 }, { range: 3 }, { range: (..5) }, { range: (5..) }, { range: 1.0..2.0 },
       { cool_down: "1 s" }, { label: 7 }, { process_proof: "web" }].each do |wrong|
        assert_raises(TypeError, wrong.to_s) { MachineId.start(strategy: none.with(**wrong)) }
      end
    end
    # The manager goes on with it.
    assert_kind_of Integer, @ids.next_id
  end

  def test_two_pools_in_one_process
    LeaseMachines.open("sqlite::memory:") do |leases|
      orders, users = %w[orders users].map do |name|
        MachineId.start(strategy: MachineId::PoolLease.new(store: leases, pool: name, size: 2))
      end
      other = start(MachineId::PoolLease.new(store: leases, pool: "users", size: 2))

      assert_equal [0, 0, 1], [orders, users, other].map(&:machine_id)
      users.stop

      assert_equal [0, 1], [orders, other].map { |ids| machine_of(ids.next_id) }
      assert_equal :stopped, assert_raises(MachineId::Disabled) { users.next_id }.reason
      orders.stop
    end
  end

  def test_a_pool_that_runs_short_says_so
    notices = Thread::Queue.new
    LeaseMachines.open("sqlite::memory:") do |leases|
      start(MachineId::PoolLease.new(store: leases, pool: "ids", size: 1), on_event: notices.method(:push))

      assert_equal "of 1 machine IDs 0 are left", heard_of(:runs_short, notices).message
    end
  end

  # Two variables with one number, a list with a mistake in it.
  def test_two_identities_with_one_number
    LeaseMachines.open("sqlite::memory:") do |leases|
      pool = MachineId::PoolLease.new(store: leases, pool: "ids", size: 512, label: "a test")
      guarded = ->(strategy, identity) { MachineId::Guarded.new(strategy: strategy, pool: pool, identity: identity) }
      start(guarded.(MachineId::Fixed.new(7), "web-1"))
      strategy = Asked.new
      error = assert_raises(MachineId::StartError) { MachineId.start(strategy: guarded.(strategy, "web-2")) }

      assert_equal :conflict, error.reason
      assert_match(/machine ID 7 is another identity's/, error.message)
      assert_equal [:the_lease], strategy.released.map(&:first)
      assert_equal 7, machine_of(@ids.next_id)
      again = MachineId.start(strategy: guarded.(strategy, "web-1"))

      assert_equal 7, again.machine_id, "the same after a crash"
      again.stop
      assert_raises(TypeError) { guarded.(Object.new, "web-1") }
      assert_raises(TypeError) { guarded.(strategy, nil) }
      assert_raises(TypeError) { MachineId::Guarded.new(strategy, strategy, "web-1") }
      assert_raises(ArgumentError) { MachineId::Guarded.new(strategy, pool.with(identity: "a"), "web-1") }
    end
  end

  # zitadel#9075, #10484; mybatis-plus#6055: what only looked like an ID was taken for one.
  def test_strategies_that_are_built_in
    ENV["LEASE_TEST_POD"] = "web-12"
    start(MachineId::EnvironmentVariable.new("LEASE_TEST_POD"))

    assert_equal 12, @ids.machine_id
    # Ruby's own view of it, whatever bytes there are.
    ENV["LEASE_TEST_POD"] = "caf\xE9-13"
    start(MachineId::EnvironmentVariable.new("LEASE_TEST_POD"))

    assert_equal 13, @ids.machine_id
    ENV["LEASE_TEST_POD"] = "web-7d4f9c6b5-x2x9q"
    error = assert_raises(MachineId::StartError) { start(MachineId::EnvironmentVariable.new("LEASE_TEST_POD")) }
    assert_equal :misconfigured, error.reason
    ENV.delete("LEASE_TEST_POD")
    error = assert_raises(MachineId::StartError) { start(MachineId::EnvironmentVariable.new("LEASE_TEST_POD")) }
    assert_match(/LEASE_TEST_POD is not set/, error.message)
    start(MachineId::HostIdentifiers.new(["db1.example.org", "db1"], { "db1" => 4, "db2" => 5 }))

    assert_equal 4, @ids.machine_id
    assert_raises(MachineId::StartError) { start(MachineId::HostIdentifiers.new(["db9"], { "db1" => 4 })) }
    assert_raises(ArgumentError) { start(MachineId::HostIdentifiers.new(["a"], { "a" => 1, "b" => 1 })) }
    # ENV["HOST"] where it is not set: on the list as on the host, it would be everybody's name.
    [[[nil], { "a" => 1 }], [["a"], { nil => 1 }], ["a", { "a" => 1 }], [["a"], [["a", 1], ["a", 2]]]].each do |own, ids|
      assert_raises(TypeError) { MachineId::HostIdentifiers.new(own, ids) }
    end
    [[[""], { "a" => 1 }], [["a"], { " " => 1 }]].each do |own, ids|
      assert_raises(ArgumentError) { MachineId::HostIdentifiers.new(own, ids) }
    end
    assert_raises(RangeError) { MachineId::Fixed.new(65_536) }
    assert_raises(TypeError) { MachineId::Fixed.new("7") }
    assert_raises(TypeError) { MachineId::EnvironmentVariable.new(:POD) }
    assert_raises(TypeError) { start(Object.new) }
  ensure
    ENV.delete("LEASE_TEST_POD")
  end

  private

  def comm(file)
    File.read(file).chomp
  rescue SystemCallError
    nil # it has ended
  end
end
