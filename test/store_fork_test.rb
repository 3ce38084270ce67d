# frozen_string_literal: true

require "rbconfig"
require "tmpdir"
require_relative "test_helper"
require_relative "support/child"

# What a child may do with a store that its parent has opened, and that the parent goes on undisturbed. The shapes are those
# of Puma's and Unicorn's workers, of Spring, and of daemons.
class StoreForkTest < Minitest::Test
  include Child

  def setup
    @folder = Dir.mktmpdir("leases")
    @url = "sqlite:#{@folder}/leases.db"
    @leases = LeaseMachines.open(@url)
  end

  def teardown
    @leases.close
    FileUtils.rm_rf(@folder)
  end

  # Artemis PR#2632, filelock#634, redis-rb#1157: the child released, or used, what was its parent's.
  def test_a_child_has_a_store_of_its_own_and_the_parent_keeps_its_lease
    held = @leases.acquire("parents", ttl: 3600).lease
    seen = in_child do
      GC.start
      [@leases.acquire("parents", ttl: 1).reason, @leases.acquire("childs", ttl: 3600).status]
    end

    assert_equal %i[occupied granted], seen
    assert_equal :renewed, @leases.renew("parents", owner: held.owner, token: held.token, ttl: 3600).status
    assert_equal :occupied, @leases.acquire("childs", ttl: 1).reason
    assert_equal %w[childs parents], @leases.list.map(&:resource)
  end

  def test_a_child_of_a_child_and_one_that_opens_its_own
    assert_equal :granted, in_child { in_child { @leases.acquire("job", ttl: 3600).status } }
    assert_equal :occupied, in_child { LeaseMachines.open(@url) { |leases| leases.acquire("job", ttl: 1).reason } }
    assert_equal :occupied, @leases.acquire("job", ttl: 1).reason
  end

  # A daemon's folder is the root.
  def test_a_child_in_another_folder_has_the_same_file
    leases = Dir.chdir(@folder) { LeaseMachines.open("sqlite:leases.db") }
    @leases.acquire("job", ttl: 3600)
    Dir.mkdir("#{@folder}/elsewhere")
    seen = in_child do
      Dir.chdir("#{@folder}/elsewhere")
      [leases.acquire("job", ttl: 1).reason, Dir.children(".")]
    end

    assert_equal [:occupied, []], seen
  end

  def test_a_file_that_was_replaced_is_not_opened_again
    @leases.acquire("job", ttl: 3600)
    refused = lambda do
      assert_match(/removed or replaced since/, assert_raises(Refused) { @leases.acquire("job", ttl: 1) }.message)
    end
    in_child { nil } # for which it is closed
    File.rename("#{@folder}/leases.db", "#{@folder}/kept.db")
    refused.()

    assert_equal ["kept.db"], Dir.children(@folder)
    LeaseMachines.open(@url, &:epoch)
    refused.()
    File.rename("#{@folder}/kept.db", "#{@folder}/leases.db")

    assert_equal :occupied, @leases.acquire("job", ttl: 1).reason
  end

  def test_a_store_that_was_never_used_again_is_left_alone
    in_child { @leases = nil and GC.start }
    in_child { @leases.close }

    assert_predicate @leases.acquire("job", ttl: 1), :granted?
  end

  # hyperf#3551, #7057: workers of one host deadlocked after a fork.
  def test_workers_that_were_forked_at_once
    tokens = in_children(6) do
      Array.new(10) do
        decision = @leases.acquire("shared", ttl: 3600)
        if decision.granted?
          @leases.release("shared", owner: decision.lease.owner, token: decision.lease.token)
          decision.lease.token
        else
          @leases.wait("shared", limit: 1)
          nil
        end
      end.compact
    end

    assert_equal tokens.flatten.uniq, tokens.flatten
    refute_empty tokens.flatten
  end

  def test_forks_while_threads_use_the_store
    stop = false
    threads = Array.new(3) do |i|
      Thread.new do
        statuses = []
        until stop
          lease = @leases.acquire("job-#{i}", ttl: 3600).lease
          statuses << @leases.release("job-#{i}", owner: lease.owner, token: lease.token).status
        end
        statuses.uniq
      end
    end
    seen = Array.new(5) { |i| in_child { @leases.acquire("child-#{i}", ttl: 3600).status } }
    stop = true

    assert_equal [[:released]] * 3, threads.map(&:value)
    assert_equal [:granted], seen.uniq
  end

  # Its call has the file open for as long as it takes.
  def test_a_child_is_told_where_a_call_was_going_on
    @leases.acquire("job", ttl: 3600)
    waiting = Thread.new { @leases.wait("job", limit: 3600) }
    Thread.pass until waiting.status == "sleep"
    said = in_child do
      @leases.acquire("other", ttl: 1)
    rescue ConfigurationError => error
      error.message
    end

    assert_match(/forked while .* open/, said)
    assert_predicate @leases.acquire("other", ttl: 1), :granted?
  ensure
    waiting&.kill&.join
  end

  def test_a_store_in_memory_is_each_processes_own
    LeaseMachines.open("sqlite::memory:") do |leases|
      leases.acquire("job", ttl: 3600)

      assert_equal :granted, in_child { leases.acquire("job", ttl: 3600).status }
      assert_equal :occupied, leases.acquire("job", ttl: 1).reason
    end
  end

  def test_a_daemon
    said = "#{@folder}/said"
    script = <<~RUBY
      require "lease_machines"
      leases = LeaseMachines.open(ARGV.fetch(0))
      held = leases.acquire("daemons", ttl: 3600).lease
      Process.daemon(true, true)
      answers = [leases.renew("daemons", owner: held.owner, token: held.token, ttl: 3600).status,
                 leases.acquire("other", ttl: 3600).status]
      File.write("\#{ARGV.fetch(1)}.new", answers.join(" "))
      File.rename("\#{ARGV.fetch(1)}.new", ARGV.fetch(1))
    RUBY
    load_path = $LOAD_PATH.flat_map { |folder| ["-I", folder] }

    assert system(RbConfig.ruby, *load_path, "-e", script, @url, said)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    sleep 0.005 until File.exist?(said) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

    assert_equal "renewed granted", File.read(said)
    assert_equal :occupied, @leases.acquire("other", ttl: 1).reason
  end

  def test_popen_with_a_fork
    answer = IO.popen("-") do |io|
      next io.read if io

      $stdout.write(@leases.acquire("job", ttl: 3600).status)
      $stdout.flush
      exit!(0)
    end

    assert_equal "granted", answer
    assert_equal :occupied, @leases.acquire("job", ttl: 1).reason
  end

  # Ctrl-C.
  def test_a_signal_ends_a_call_and_a_handler_runs_beside_it
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      $stderr.reopen(File::NULL)
      trap("USR1") { writer.syswrite("handled ") }
      # What a shell starts in the background is to ignore it, and so would this process.
      trap("INT", "DEFAULT")
      leases = LeaseMachines.open("sqlite::memory:")
      leases.acquire("job", ttl: 3600)
      writer.syswrite("waits ")
      leases.wait("job", limit: 3600)
    rescue Interrupt
      writer.write("interrupted")
    ensure
      exit!(0)
    end
    writer.close

    assert_equal "waits ", heard(pid, reader, 6)
    Process.kill("USR1", pid)

    assert_equal "handled ", heard(pid, reader, 8)
    Process.kill("INT", pid)

    assert_equal "interrupted", heard(pid, reader)
  ensure
    Process.wait(pid)
  end

  def test_a_fork_that_fails_leaves_the_store_usable
    assert_raises(ArgumentError) { Process.daemon(1, 2, 3) }
    assert_predicate @leases.acquire("job", ttl: 1), :granted?
  end
end
