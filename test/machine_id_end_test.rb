# frozen_string_literal: true

require_relative "test_helper"
require_relative "support/machine_ids"

# What has ended leaves nothing behind in Ruby: neither threads nor the strategy that they asked, also where the MachineId
# itself is still there.
class MachineIdEndTest < Minitest::Test
  include MachineIds

  # Of which there are no others.
  class Kept < Asked
  end

  # What was given back to one that nobody knows any more.
  RELEASED = Thread::Queue.new

  # It tells of a release, and is deterministic where that is wanted.
  class Told < Kept
    def initialize(deterministic: false)
      super()
      @deterministic = deterministic
    end

    def release(lease, _options) = RELEASED << lease

    def deterministic? = @deterministic
  end

  def setup
    MachineId.current&.stop
    wait_until { nothing_left? }
  end

  def test_one_that_was_stopped_and_is_still_the_current_one
    ids = started { Kept.new }

    assert_equal [%w[lease-id-calls lease-id-notices], 1], [threads, strategies]
    ids.stop

    wait_until { nothing_left? }
    assert_same ids, MachineId.current
    assert_equal :stopped, assert_raises(MachineId::Disabled) { ids.next_id }.reason
    assert_nil ids.stop
  end

  def test_one_that_was_stopped_and_then_forgotten
    started { Kept.new }.stop
    others = start(MachineId::Fixed.new(7))
    wait_until { collected? && threads.size == 2 }

    assert_same others, MachineId.current
  end

  def test_one_that_was_forgotten_and_not_stopped
    Thread.new { MachineId.start(strategy: Told.new) && nil }.join
    start(MachineId::Fixed.new(7))
    wait_until { collected? && threads.size == 2 }

    assert_equal :the_lease, RELEASED.pop(timeout: PATIENCE)
  end

  # There is no other number that it could ask for.
  def test_one_that_has_lost_its_only_number
    ids = started { Told.new(deterministic: true) }
    ids.report_lost

    assert_equal :the_lease, RELEASED.pop(timeout: PATIENCE)
    wait_until { nothing_left? }
    assert_equal :signalled, assert_raises(MachineId::Disabled) { ids.next_id }.reason
  end

  def test_one_that_did_not_start
    error = assert_raises(MachineId::StartError) do
      started { Kept.new.tap { |strategy| strategy.acquiring = -> { raise MachineId::Refused, "no" } } }
    end

    assert_equal :refused, error.reason
    wait_until { nothing_left? }
  end

  def test_what_a_listener_holds
    heard = Thread::Queue.new
    ids = started(on_event: ->(notice) { heard << notice.name }) { Kept.new }
    ids.stop

    wait_until { nothing_left? }
    assert_equal :acquired, heard.pop(timeout: PATIENCE)
  end

  private

  # On the stack of a thread that has ended nothing keeps what was made there.
  def started(**options)
    Thread.new do
      Thread.current.report_on_exception = false
      MachineId.start(strategy: yield, **options)
    end.value
  end

  def nothing_left? = collected? && threads.empty?

  def collected?
    GC.start
    strategies.zero?
  end

  def strategies = ObjectSpace.each_object(Kept).count

  def threads = Thread.list.map(&:name).grep(/\Alease-id/).sort
end
