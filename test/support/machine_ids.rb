# frozen_string_literal: true

require_relative "child"

# What tests of machine IDs have in common.
module MachineIds
  include Child

  MachineId = LeaseMachines::MachineId

  # What a program would write for a store of its own.
  class Asked
    attr_reader :calls, :released
    attr_accessor :acquiring, :renewing

    def initialize
      @calls = Thread::Queue.new
      @released = []
      @acquiring = -> { [7, :the_lease, 60] }
      @renewing = ->(lease) { [lease, 60] }
    end

    def acquire(lease_duration, options)
      @calls << [:acquire, lease_duration, options.limit]
      @acquiring.()
    end

    def renew(lease, lease_duration, options)
      @calls << [:renew, lease, lease_duration, options.limit]
      @renewing.(lease)
    end

    def release(lease, options)
      @released << [lease, options.last_used]
      @calls << [:release, lease]
    end

    def deterministic? = false
  end

  def teardown
    @ids&.stop
  end

  private

  def start(strategy, **options)
    @ids&.stop
    @ids = MachineId.start(strategy: strategy, **options)
  end

  # The next notice of this name.
  def heard_of(name, notices)
    limit = now + PATIENCE
    while (notice = notices.pop(timeout: [limit - now, 0].max))
      return notice if notice.name == name
    end
    flunk "nothing was heard of #{name}"
  end

  def wait_until
    limit = now + PATIENCE
    until yield
      flunk "it did not come to that" if now > limit
      sleep 0.01
    end
  end

  def machine_of(id) = MachineId::Layout.default.decode(id).machine_id

  def now = Process.clock_gettime(Process::CLOCK_BOOTTIME)
end
