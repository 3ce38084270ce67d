# frozen_string_literal: true

require "timeout"
require "tmpdir"
require_relative "test_helper"
require_relative "support/locked_file"

# Whatever ends a thread of Ruby's ends its call to a store, and what the call may have been granted is taken back.
class InterruptionTest < Minitest::Test
  class Stop < StandardError
  end

  # What must not take longer: of some tries the quickest, since others use the machine, too.
  SOON = 0.05
  # Only a failure takes it.
  PATIENCE = 30

  def setup
    @folder = Dir.mktmpdir("leases")
    @path = "#{@folder}/leases.db"
    @leases = LeaseMachines.open("sqlite:#{@path}", timeout: 20)
  end

  def teardown
    @leases.close
    FileUtils.rm_rf(@folder)
  end

  def test_a_thread_is_killed_at_once
    assert_soon(&:kill)
  end

  def test_an_exception_is_raised_in_a_thread_at_once
    assert_soon { |thread| thread.raise(Stop) }
  end

  def test_a_time_out_ends_a_call_at_once
    @leases.acquire("job", ttl: 3600)
    late = Array.new(5) do
      begun = now
      assert_raises(Timeout::Error) { Timeout.timeout(0.05) { @leases.wait("job", limit: 3600) } }
      now - begun - 0.05
    end

    assert_operator late.min, :<=, SOON
  end

  def test_what_is_put_off_does_not_end_a_call
    @leases.acquire("job", ttl: 0.3)
    order = []
    thread = Thread.new do
      Thread.handle_interrupt(Stop => :never) do
        @leases.wait("job", limit: 3600)
        order << :waited
      end
    rescue Stop
      order << :stopped
    end
    sleep_until { thread.status == "sleep" }
    thread.raise(Stop)
    thread.join(PATIENCE)

    assert_equal %i[waited stopped], order
  end

  # simstudioai/sim#6864: an answer was lost, and nobody owned the lock until its ttl.
  def test_an_interrupted_acquire_leaves_nothing_held
    ends = LockedFile.while_locked(@path) do
      threads = %i[kill raise].map do |how|
        thread = Thread.new { @leases.acquire("job", ttl: 3600) }
        thread.report_on_exception = false
        sleep_until { thread.status == "sleep" }
        how == :kill ? thread.kill : thread.raise(Stop)
        thread
      end
      threads.map { |thread| ended?(thread) }
    end

    assert_equal [true, true], ends, "while the file was still locked"
    sleep_until { @leases.acquire("job", ttl: 3600).granted? }
    assert_equal 1, @leases.list.count(&:held?)
  end

  # It may be at work under the lease that it had.
  def test_an_interrupted_reacquire_takes_nothing_away
    owner = LeaseMachines.fresh_owner
    lease = @leases.acquire("job", ttl: 3600, owner: owner).lease
    LockedFile.while_locked(@path) do
      thread = Thread.new { @leases.reacquire("job", ttl: 3600, owner: owner, attempt: 2) }
      sleep_until { thread.status == "sleep" }
      thread.kill

      assert ended?(thread)
    end
    @leases.acquire("other", ttl: 1)

    assert_equal owner, @leases.show("job").occupant.owner
    assert_operator @leases.show("job").occupant.token, :>=, lease.token
  end

  def test_calls_go_on_after_many_were_interrupted
    @leases.acquire("job", ttl: 3600)
    50.times do
      thread = Thread.new { @leases.wait("job", limit: 3600) }
      Thread.pass
      thread.kill
      thread.join
    end

    assert_equal :occupied, @leases.acquire("job", ttl: 1).reason
  end

  # Everything at once: threads that ask, and are interrupted wherever they are.
  def test_interrupts_at_any_moment
    threads = Array.new(4) do |i|
      Thread.new { loop { @leases.acquire("job-#{i}", ttl: 3600) } }.tap { _1.report_on_exception = false }
    end
    200.times { threads.sample.wakeup }
    threads.each do |thread|
      thread.raise(Stop)
      assert_raises(Stop) { thread.value }
    end

    assert_predicate @leases.acquire("job", ttl: 1), :granted?
  end

  private

  # Has a call interrupted that would take an hour.
  def assert_soon
    @leases.acquire("job", ttl: 3600)
    took = Array.new(5) do
      thread = Thread.new { @leases.wait("job", limit: 3600) }
      thread.report_on_exception = false
      sleep_until { thread.status == "sleep" }
      begun = now
      yield thread
      ended?(thread)
      now - begun
    end

    assert_operator took.min, :<=, SOON
  end

  def ended?(thread)
    !thread.join(PATIENCE).nil?
  rescue Stop
    true
  end

  def sleep_until
    limit = now + PATIENCE
    until yield
      flunk "it did not come to that" if now > limit
      sleep 0.002
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
