# frozen_string_literal: true

require "timeout"
require_relative "../test_helper"
require_relative "../support/child"
require_relative "../support/scheduler"
require_relative "server"

# What must hold on every engine that lives in a server: each test is run on each.
module OnAServer
  include LeaseMachines
  include Child

  # Only a failure takes it.
  PATIENCE = 30

  def setup
    @server = self.class::SERVER.shared
    @url = "#{@server.url}?timeout=20s"
    LeaseMachines.migrate(@url)
    @leases = LeaseMachines.open(@url)
    @job = "#{name}-#{LeaseMachines.fresh_owner}"
  end

  def teardown
    @leases&.close
  end

  def test_the_walk_through
    first = @leases.acquire(@job, ttl: 60, label: "a label")
    occupied = @leases.acquire(@job, ttl: 60)

    assert_equal [:granted, :occupied, "a label"], [first.status, occupied.reason, occupied.occupant.label]
    lease = first.lease

    assert_equal :renewed, @leases.renew(@job, owner: lease.owner, token: lease.token, ttl: 90, epoch: first.epoch).status
    assert_equal lease.token, @leases.show(@job).occupant.token
    assert_includes @leases.list(@job).map(&:resource), @job
    2.times { assert_equal released, @leases.release(@job, owner: lease.owner, token: lease.token) }
    second = @leases.acquire(@job, ttl: 60).lease

    assert_operator second.token, :>, lease.token
    assert_operator @leases.revoke(@job, expect: second.token), :>, second.token
    assert_equal %i[revoked released], @leases.history(@job).map(&:outcome)
    assert_equal :up_to_date, LeaseMachines.migrate(@url)
    assert_equal @leases.epoch, first.epoch
    assert_kind_of Array, @leases.doctor
    assert_includes @url, @leases.engine[0, 5].sub("mysql", "maria")
  end

  def test_what_is_refused
    assert_equal :request, assert_raises(Refused) { @leases.acquire(@job, ttl: 10**6) }.kind
    assert_equal rejected(:invalid_ttl), @leases.acquire(@job, ttl: 0)
  end

  # filelock#634, redis-rb#1157, Artemis PR#2632: a child used its parent's connection.
  def test_workers_that_were_forked_from_one_that_had_the_store_open
    held = @leases.acquire(@job, ttl: 3600).lease
    answers = in_children(4) do
      GC.start
      statuses = Array.new(20) do |i|
        lease = @leases.acquire("#{@job}-#{Process.pid}-#{i}", ttl: 60).lease
        @leases.release("#{@job}-#{Process.pid}-#{i}", owner: lease.owner, token: lease.token).status
      end
      [@leases.acquire(@job, ttl: 1).reason, statuses.uniq]
    end

    assert_equal [[:occupied, [:released]]] * 4, answers
    20.times { assert_equal :renewed, @leases.renew(@job, owner: held.owner, token: held.token, ttl: 3600).status }
  end

  def test_a_fork_while_calls_are_on_their_way
    threads = Array.new(4) { |i| Thread.new { Array.new(30) { @leases.acquire("#{@job}-#{i}", ttl: 60).status } } }
    seen = Array.new(3) { |i| in_child { @leases.acquire("#{@job}-child-#{i}", ttl: 60).status } }

    assert_equal [:granted], seen.uniq
    threads.each { |thread| assert_includes thread.value, :granted }
  end

  # simstudioai/sim#6864: an answer was lost, and nobody owned the lock until its ttl.
  def test_an_acquire_that_was_interrupted_while_the_server_hung_leaves_nothing_held
    @leases.acquire("#{@job}-warm", ttl: 1)
    @server.freeze_process
    begun = now
    threads = %i[kill raise].map do |how|
      thread = Thread.new { @leases.acquire(@job, ttl: 3600) }
      thread.report_on_exception = false
      Thread.pass until thread.status == "sleep"
      how == :kill ? thread.kill : thread.raise(Interrupt)
      thread
    end
    ends = threads.map { |thread| ended?(thread) }
    took = now - begun
    @server.thaw

    assert_equal [true, true], ends
    assert_operator took, :<, PATIENCE
    wait_until { @leases.acquire(@job, ttl: 3600).granted? }
  ensure
    @server.thaw
  end

  def test_a_time_out_while_the_server_hangs
    @leases.acquire("#{@job}-warm", ttl: 1)
    @server.freeze_process
    late = Array.new(5) do
      begun = now
      assert_raises(Timeout::Error) { Timeout.timeout(0.05) { @leases.acquire(@job, ttl: 3600) } }
      now - begun - 0.05
    end

    assert_operator late.min, :<=, 0.05
  ensure
    @server.thaw
  end

  def test_other_fibers_run_while_the_server_hangs
    order = []
    @leases.acquire("#{@job}-warm", ttl: 1)
    Thread.new do
      Fiber.set_scheduler(Scheduler.new)
      @server.freeze_process
      Fiber.schedule { order << @leases.acquire(@job, ttl: 60).status }
      Fiber.schedule do
        order << :ran
        @server.thaw
      end
    end.join

    assert_equal %i[ran granted], order
  ensure
    @server.thaw
  end

  # rails/rails#58658, DistributedLock#133: after the connection was lost, the lock was, too.
  def test_a_server_that_is_killed_and_comes_back
    held = @leases.acquire(@job, ttl: 3600)
    @server.restart
    wait_until do
      @leases.renew(@job, owner: held.lease.owner, token: held.lease.token, ttl: 3600).renewed?
    rescue NotDone, Unknown
      false
    end

    assert_equal :occupied, @leases.acquire(@job, ttl: 1).reason
  end

  def test_many_threads_and_one_holder
    holders = Array.new(16) { Thread.new { @leases.acquire(@job, ttl: 60) } }.map(&:value)

    assert_equal 1, holders.count(&:granted?)
    assert_equal 1, holders.filter_map { |decision| decision.occupant&.token }.uniq.size
  end

  def test_processes_of_a_pool_have_a_machine_id_each
    pool = MachineId::PoolLease.new(store: @leases, pool: @job, size: 3, label: "a test")
    ids = MachineId.start(strategy: pool)
    number = -> { MachineId::Layout.default.decode(MachineId.next_id).machine_id }
    childs = in_children(2) do
      own = MachineId.start(strategy: pool)
      [own.machine_id, number.(), own.stop]
    end

    assert_equal [0, 1, 2], [ids.machine_id, *childs.map(&:first)].sort
    assert_equal [ids.machine_id, *childs.map(&:first)], [number.(), *childs.map { _1[1] }]
    # What the children gave back cools down.
    none = assert_raises(MachineId::StartError) { MachineId.start(strategy: pool, acquire_timeout: 1) }

    assert_equal :exhausted, none.reason
    ids.stop
  end

  def test_a_store_that_was_not_set_up
    other = LeaseMachines.open(self.class::ELSEWHERE.(@server))

    assert_equal :not_set_up, assert_raises(Refused) { other.acquire(@job, ttl: 1) }.kind
  end

  private

  def ended?(thread)
    !thread.join(PATIENCE).nil?
  rescue Interrupt
    true
  end

  def wait_until
    limit = now + PATIENCE
    until yield
      flunk "it did not come to that" if now > limit
      sleep 0.01
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
