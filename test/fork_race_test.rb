# frozen_string_literal: true

require "rbconfig"
require "tmpdir"
require_relative "test_helper"
require_relative "support/child"
require_relative "support/scheduler"

# Whatever other threads of a process are about when it forks, its children can use stores. What goes wrong here does so once
# in many forks: LEASE_FORKS says how many.
class ForkRaceTest < Minitest::Test
  include Child

  FORKS = Integer(ENV.fetch("LEASE_FORKS", 40))

  def setup
    @folder = Dir.mktmpdir("leases")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # They are not closed before a fork, and have SQLite's own locks at any moment.
  def test_forks_while_stores_in_memory_are_busy
    threads = Array.new(3) { |i| [LeaseMachines.open("sqlite::memory:"), i] }
    answers = while_busy(*threads.map { |leases, i| -> { hold(leases, "job-#{i}") } }) do
      Array.new(FORKS) { in_child { LeaseMachines.open("sqlite::memory:") { hold(_1, "job") } } }
    end

    assert_equal [:released], answers.uniq
  end

  # What is open is waited for, and where that takes too long, the child is told.
  def test_forks_while_files_are_opened_set_up_and_closed
    urls = Array.new(3) { |i| "sqlite:#{@folder}/#{i}.db" }
    busy = urls.map { |url| -> { LeaseMachines.open(url) { hold(_1, "job") } } }
    collected = -> { LeaseMachines.open(urls[0]) and GC.start }
    answers = while_busy(*busy, collected, -> { LeaseMachines.migrate(urls[1]) }) do
      Array.new(FORKS) { in_child { urls.map { |url| unless_told { LeaseMachines.open(url) { hold(_1, "child") } } } } }
    end

    assert_held_unless_told answers
  end

  def test_several_threads_that_fork
    leases = LeaseMachines.open("sqlite:#{@folder}/leases.db")
    threads = Array.new(3) do |i|
      own = -> { unless_told { hold(leases, "job-#{i}") } }
      Thread.new { Array.new(FORKS / 4) { in_child { [own.(), in_child(&own)] } } }
    end

    assert_held_unless_told threads.flat_map(&:value)
  end

  # As most programs end: what a child has of its parent's is collected there.
  def test_children_that_end_at_once
    script = <<~RUBY
      require "lease_machines"
      file, memory = [ARGV.fetch(0), "sqlite::memory:"].map { |url| LeaseMachines.open(url) }
      2.times { |i| Thread.new { loop { memory.acquire("job-\#{i}", ttl: 60) } } }
      ended = Array.new(ARGV.fetch(1).to_i) do |i|
        file.acquire("parents-\#{i}", ttl: 60)
        pid = fork { file.acquire("childs-\#{i}", ttl: 60) if i.even? }
        Process.wait(pid)
        $?.exitstatus
      end
      print ended.uniq, file.list.count(&:held?)
    RUBY
    load_path = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
    IO.popen([RbConfig.ruby, *load_path, "-e", script, "sqlite:#{@folder}/leases.db", FORKS.to_s]) do |program|
      assert_equal "[0]#{FORKS + FORKS.fdiv(2).ceil}", heard(program.pid, program)
    end
  end

  # Its parent goes on waiting, and gets the answer.
  def test_a_handler_that_forks_while_its_process_waits
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      leases = LeaseMachines.open("sqlite::memory:")
      lease = leases.acquire("job", ttl: 3600).lease
      trap("USR1") do
        next unless lease && caller_locations(1, 1).first.label.end_with?("_wait")

        owner, token = lease.to_h.values_at(:owner, :token)
        lease = nil
        leases.release("job", owner: owner, token: token) if fork
      end
      writer.syswrite("waits ")
      leases.wait("job", limit: PATIENCE)
      Process.wait
      writer.syswrite("waited ")
    rescue Unknown => error
      writer.syswrite("#{error.kind} ")
    ensure
      exit!(0)
    end
    writer.close

    assert_equal "waits ", heard(pid, reader, 6)
    Process.kill("USR1", pid) until reader.wait_readable(0.05)

    assert_equal %w[forked waited], heard(pid, reader).split.sort
  ensure
    Process.wait(pid)
  end

  # The child has the socket, too, by which the fiber is woken, and must leave in it what is its parent's.
  def test_a_fork_while_a_fiber_waits
    order = []
    Thread.new do
      leases = LeaseMachines.open("sqlite::memory:")
      lease = leases.acquire("job", ttl: 3600).lease
      reader, writer = IO.pipe
      Fiber.set_scheduler(scheduler = Scheduler.new)
      Fiber.schedule do
        leases.wait("job", limit: 3600)
        order << :waited
      rescue Unknown => error
        writer.syswrite(error.kind)
        exit!(0)
      end
      pid = fork do
        scheduler.run
      ensure
        exit!(1)
      end
      writer.close
      leases.release("job", owner: lease.owner, token: lease.token)
      order << heard(pid, reader)
      Process.wait(pid)
    end.join

    assert_equal ["forked", :waited], order
  end

  private

  # Has each done over and over again by a thread of its own.
  def while_busy(*works)
    stop = false
    threads = works.map { |work| Thread.new { work.() until stop } }
    yield
  ensure
    stop = true
    threads.each(&:join)
  end

  def unless_told
    yield
  rescue ConfigurationError => error
    raise unless error.message.match?(/forked while .* open/)

    :told
  end

  def assert_held_unless_told(answers)
    assert_includes answers.flatten, :released
    assert_empty answers.flatten.uniq - %i[released told]
  end

  def hold(leases, resource)
    lease = leases.acquire(resource, ttl: 3600).lease
    leases.release(resource, owner: lease.owner, token: lease.token).status
  end
end
