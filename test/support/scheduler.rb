# frozen_string_literal: true

# A Fiber scheduler as small as can be: it waits for descriptors, for time, and for fibers that wake each other.
class Scheduler
  def initialize
    @ready = []
    @readable = {}
    @sleeping = {}
    @blocked = {}
    @lock = Thread::Mutex.new
    @bell, @ringer = IO.pipe
  end

  def fiber(&)
    Fiber.new(blocking: false, &).tap(&:resume)
  end

  def io_wait(io, events, timeout)
    raise ArgumentError, "it waits for reading alone" unless events == IO::READABLE

    @readable[Fiber.current] = io
    @sleeping[Fiber.current] = now + timeout if timeout
    Fiber.yield ? events : false
  ensure
    @readable.delete(Fiber.current)
    @sleeping.delete(Fiber.current)
  end

  def kernel_sleep(duration = nil) = block(:sleep, duration)

  def block(_blocker, timeout = nil)
    @blocked[Fiber.current] = true
    @sleeping[Fiber.current] = now + timeout if timeout
    Fiber.yield ? true : false
  ensure
    @blocked.delete(Fiber.current)
    @sleeping.delete(Fiber.current)
  end

  def unblock(_blocker, fiber)
    @lock.synchronize { @ready << fiber }
    @ringer.write_nonblock(".")
  end

  def fiber_interrupt(fiber, exception) = fiber.raise(exception)

  # Ruby runs it when the thread has nothing more to do.
  def close = run

  def run
    until @readable.empty? && @sleeping.empty? && @blocked.empty? && @ready.empty?
      limit = @sleeping.values.min&.then { |at| [at - now, 0].max }
      found, = IO.select([@bell, *@readable.values], nil, nil, limit)
      @bell.read_nonblock(64, exception: false) if found&.include?(@bell)
      wake(@lock.synchronize { @ready.shift(@ready.size) }, true)
      wake(@readable.select { |_, io| found&.include?(io) }.keys, true)
      wake(@sleeping.select { |_, at| at <= now }.keys, false)
    end
  ensure
    [@bell, @ringer].each(&:close)
  end

  private

  def wake(fibers, value) = fibers.each { |fiber| fiber.resume(value) if fiber.alive? }

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
