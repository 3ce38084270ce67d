# frozen_string_literal: true

require "English"
require "tmpdir"
require_relative "test_helper"
require_relative "support/machine_ids"

class MachineIdForkTest < Minitest::Test
  include MachineIds

  # hyperf#3551, #7057; snowflaked PR#52: worker processes shared an ID, or deadlocked after a fork.
  def test_a_child_makes_no_id_until_it_has_its_own
    start(strategy = Asked.new)
    factories = [@ids, MachineId, @ids.counter, @ids.sortable(bits: 128), @ids.encrypted(key: "k" * 32)]
    before = @ids.next_id
    seen = in_child do
      refused = factories.map { |factory| reason_of { factory.next_id } }
      refused << reason_of { @ids.next_batch(2) } << reason_of { @ids.counter }
      ended = [@ids.machine_id, @ids.report_lost, @ids.stop]
      GC.start
      own = MachineId.start(strategy: MachineId::Fixed.new(9))
      [refused.uniq, ended, own.machine_id, machine_of(MachineId.next_id)]
    end

    assert_equal [[:forked], [nil] * 3, 9, 9], seen
    assert_operator @ids.next_id, :>, before
    assert_empty strategy.released
  end

  def test_what_a_child_collects_is_still_its_parents
    strategy = Asked.new
    ids = [MachineId.start(strategy: strategy)]
    seen = in_child do
      ids.clear
      MachineId.start(strategy: MachineId::Fixed.new(1)).stop
      3.times { GC.start }
      strategy.released.size
    end

    assert_equal 0, seen
    assert_equal 7, machine_of(ids.first.next_id)
    ids.first.stop

    assert_equal [:the_lease], strategy.released.map(&:first)
  end

  # Neither its own, once it was stopped, nor its parent's, whose threads are not there.
  def test_what_has_ended_in_a_child_leaves_nothing_behind
    kept = Class.new(Asked)
    start_one = -> { Thread.new { MachineId.start(strategy: kept.new) }.value }
    threads = -> { Thread.list.map(&:name).grep(/\Alease-id/).sort }
    ids = start_one.()
    seen = in_child do
      before = threads.()
      own = start_one.()
      during = threads.()
      own.stop
      wait_until { GC.start || (ObjectSpace.each_object(kept).count.zero? && threads.().empty?) }
      [before, during, own.equal?(MachineId.current)]
    end

    assert_equal [[], %w[lease-id-calls lease-id-notices], true], seen
    assert_equal 7, machine_of(ids.next_id)
    ids.stop
    wait_until { GC.start || ObjectSpace.each_object(kept).count.zero? }
  end

  def test_processes_of_a_pool_have_a_number_each
    Dir.mktmpdir do |folder|
      leases = LeaseMachines.open("sqlite:#{folder}/leases.db")
      pool = MachineId::PoolLease.new(store: leases, pool: "ids", size: 3)
      start(pool)
      childs = in_children(2) do
        own = MachineId.start(strategy: pool)
        [own.machine_id, machine_of(MachineId.next_id), own.stop]
      end

      assert_equal [0, 1, 2], [@ids.machine_id, *childs.map(&:first)].sort
      childs.each { |own, in_its_id, _| assert_equal own, in_its_id }
      assert_equal @ids.machine_id, machine_of(@ids.next_id)
    end
  end

  # Leaf#84, CosId#69: the dead used the pool up until their leases were over.
  def test_a_worker_that_is_killed_has_its_number_at_once_when_it_is_started_again
    skip "only Linux tells that a process is gone" unless RUBY_PLATFORM.include?("linux")

    Dir.mktmpdir do |folder|
      pool = MachineId::PoolLease.new(store: LeaseMachines.open("sqlite:#{folder}/leases.db"), pool: "ids", size: 8,
                                      identity: "web", process_proof: true)
      start(pool)

      assert_equal [1, 1, 1], Array.new(3) { number_of_one_that_is_killed(pool) }
      assert_equal 2, number_of_one_that_is_killed(pool.with(process_proof: false)), "by name alone it is another"
      assert_equal 1, number_of_one_that_is_killed(pool)
      assert_equal [0, 0], [@ids.machine_id, machine_of(@ids.next_id)], "it lives"
    end
  end

  def test_before_anything_was_started
    said = run_elsewhere("LeaseMachines::MachineId.next_id rescue print($!.class, $!.message)")

    assert_match(/\ALeaseMachines::MachineId::NotStarted.*MachineId\.start/, said)
  end

  def test_a_process_that_ends_gives_back_what_it_holds
    script = <<~RUBY
      include LeaseMachines
      pool = MachineId::PoolLease.new(store: LeaseMachines.open(ARGV.fetch(0)), pool: "ids", size: 2, identity: "web")
      held = []
      start = -> { (held << MachineId.start(strategy: pool, acquire_timeout: 5)).last.machine_id }
      print(start.call, " ")
      Process.wait(fork { start.call })
      print(start.call, " ")
      at_exit { print("last: ", MachineId.next_id.positive?) }
    RUBY
    Dir.mktmpdir do |folder|
      url = "sqlite:#{folder}/leases.db"

      assert_equal "0 1 last: true", run_elsewhere(script, url)
      pool = MachineId::PoolLease.new(store: LeaseMachines.open(url), pool: "ids", size: 2, identity: "web")
      again = MachineId.start(strategy: pool, acquire_timeout: 5)

      assert_equal [0, 1], [again.machine_id, start(pool, acquire_timeout: 5).machine_id].sort
      again.stop
    end
  end

  # Each has its time, also where the one before hangs, and its turn, also where that one has raised.
  def test_at_the_end_of_a_process_the_last_is_stopped_first_and_each_of_them_is
    script = <<~'RUBY'
      $stdout.sync = true
      strategy = Struct.new(:name) do
        def acquire(*) = [name.hash % 512, nil, 60]
        def deterministic? = false

        def release(*)
          print(name, " ")
          sleep if name == "fourth"
        end
      end
      held = %w[first second third fourth].map do |name|
        LeaseMachines::MachineId.start(strategy: strategy.new(name))
      end
      GC.compact if GC.respond_to?(:compact)
      ids = held.fetch(1)
      def ids.stop = raise("the second was not stopped")
    RUBY
    said = run_elsewhere(script, err: %i[child out])

    assert_match(/\Afourth third first /, said)
    assert_match(/the second was not stopped/, said)
    assert_equal 1, $CHILD_STATUS.exitstatus
  end

  # By itself, and by a signal.
  def test_a_process_ends_while_a_strategy_hangs
    script = <<~'RUBY'
      ASKED = Thread::Queue.new
      strategy = Object.new
      def strategy.acquire(*) = ASKED.push(true) && sleep
      start = -> { LeaseMachines::MachineId.start(strategy: strategy, acquire_timeout: nil) }
      if ARGV.fetch(0) == "EXIT"
        Thread.new(&start)
        ASKED.pop
      else
        Thread.new { ASKED.pop && Process.kill(ARGV.fetch(0), Process.pid) }
        start.call
      end
    RUBY
    ended = %w[EXIT TERM].map do |how|
      assert_empty run_elsewhere(script, how, err: File::NULL)
      [$CHILD_STATUS.exitstatus, $CHILD_STATUS.termsig]
    end

    assert_equal [[0, nil], [nil, 15]], ended
  end

  private

  def number_of_one_that_is_killed(pool)
    reader, writer = IO.pipe
    pid = fork do
      writer.puts(MachineId.start(strategy: pool).machine_id)
      sleep
    end
    writer.close
    Integer(reader.gets)
  ensure
    reader&.close
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def run_elsewhere(script, *arguments, **options)
    load_path = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
    command = [RbConfig.ruby, *load_path, "-rlease_machines", "-e", script, *arguments]
    IO.popen(command, **options) { |output| heard(output.pid, output) }
  end

  def reason_of
    yield
  rescue MachineId::Disabled => error
    error.reason
  end
end
