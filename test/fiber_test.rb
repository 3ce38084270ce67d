# frozen_string_literal: true

require "timeout"
require_relative "test_helper"
require_relative "support/scheduler"

# Under a scheduler a fiber that waits for a store lets the others of its thread run.
class FiberTest < Minitest::Test
  def test_other_fibers_run_while_one_waits
    order = []
    scheduled do |leases|
      lease = leases.acquire("job", ttl: 3600).lease
      Fiber.schedule do
        leases.wait("job", limit: 3600)
        order << :waited
        order << leases.acquire("job", ttl: 60).status
      end
      Fiber.schedule do
        order << :released
        leases.release("job", owner: lease.owner, token: lease.token)
      end
    end

    assert_equal %i[released waited granted], order
  end

  def test_every_call_in_many_fibers
    answers = []
    scheduled do |leases|
      20.times do |i|
        Fiber.schedule do
          held = leases.acquire("job-#{i}", ttl: 60).lease
          leases.renew("job-#{i}", owner: held.owner, token: held.token, ttl: 90)
          answers << [leases.show("job-#{i}").held?, leases.list("job-").any?,
                      leases.release("job-#{i}", owner: held.owner, token: held.token).status]
        end
      end
    end

    assert_equal [[true, true, :released]], answers.uniq
    assert_equal 20, answers.size
  end

  def test_a_fiber_is_interrupted
    ended = nil
    scheduled do |leases|
      leases.acquire("job", ttl: 3600)
      waiting = Fiber.schedule do
        leases.wait("job", limit: 3600)
      rescue Timeout::Error => error
        ended = error
      end
      Fiber.schedule { waiting.raise(Timeout::Error, "enough") }
    end

    assert_equal "enough", ended&.message
  end

  # Its stack is freed, and nothing on it dropped.
  def test_a_fiber_that_is_never_resumed
    thread = Thread.new do
      Fiber.set_scheduler(scheduler = Scheduler.new)
      leases = LeaseMachines.open("sqlite::memory:")
      leases.acquire("job", ttl: 3600)
      def scheduler.close = nil
      3.times { Fiber.schedule { leases.wait("job", limit: 3600) } }
      leases
    end
    leases = thread.value
    3.times { GC.start }

    assert_equal :occupied, leases.acquire("job", ttl: 1).reason
  end

  def test_errors_in_a_fiber
    raised = nil
    scheduled do |leases|
      Fiber.schedule do
        leases.acquire("job", ttl: 10**6)
      rescue LeaseMachines::Refused => error
        raised = error.kind
      end
    end

    assert_equal :request, raised
  end

  private

  # In a thread of its own, which is at its end when all fibers are.
  def scheduled
    Thread.new do
      leases = LeaseMachines.open("sqlite::memory:")
      Fiber.set_scheduler(Scheduler.new)
      Fiber.schedule { yield leases }
    end.join
  end
end
