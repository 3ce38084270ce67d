# frozen_string_literal: true

require "bigdecimal"
require_relative "test_helper"

# Every wrong kind of thing, for every argument of every method. Only what is malformed raises, it changes nothing, and the
# message names the argument.
class ArgumentsTest < Minitest::Test
  CADENCE = LeaseMachines::Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)
  LEASE = LeaseMachines::Lease.new(owner: 1, token: 1, expires_at: 1)

  # Each call with good arguments, and what each argument is.
  CALLS = [
    [:authority, :acquire, { owner: :owner, now: :time, ttl: :time }],
    [:authority, :reacquire, { owner: :owner, now: :time, ttl: :time }],
    [:authority, :renew, { owner: :owner, token: :shown_token, now: :time, ttl: :time }],
    [:authority, :release, { owner: :owner, token: :shown_token, now: :time }],
    [:authority, :revoke, { now: :time, expect: :shown_token }],
    [:holder, :state_at, { now: :time }],
    [:holder, :may_act?, { now: :time }],
    [:holder, :at_risk?, { now: :time }],
    [:holder, :confirmed?, { now: :time }],
    [:holder, :unconfirmed?, { now: :time }],
    [:holder, :expired?, { now: :time }],
    [:holder, :renewal_due?, { now: :time }],
    [:holder, :refresh, { now: :time }],
    [:holder, :confirm, { token: :shown_token, at: :time }],
    [:holder, :confirm_at, { token: :shown_token, sent: :time, granted_ttl: :time, now: :time }],
    [:holder, :reacquire, { token: :shown_token, at: :time }],
    [:holder, :reacquire_at, { token: :shown_token, sent: :time, granted_ttl: :time, now: :time }],
    [:holder_class, :new, { token: :issued_token, confirmed_at: :time, cadence: :cadence }],
    [:holder_class, :granted,
     { token: :issued_token, sent: :time, granted_ttl: :time, now: :time, cadence: :cadence }],
    [:cadence_class, :new, { ttl: :ttl, renew_every: :part, warn_before: :part }],
    [:lease_class, :new, { owner: :owner, token: :issued_token, expires_at: :time }],
    [:checkpoint_class, :from_parts, { last_issued: :issued_token, lease: :lease, observed: :time }],
    [:fence_class, :new, { highest: :issued_token }]
  ].freeze

  # These may be left out, which nil is for.
  OPTIONAL = { revoke: [:expect], from_parts: %i[last_issued lease], at_risk?: [:now], confirmed?: [:now],
               unconfirmed?: [:now], expired?: [:now] }.freeze

  GOOD = { owner: 1, shown_token: 1, issued_token: 1, time: 1, ttl: 30, part: 10, cadence: CADENCE, lease: LEASE }.freeze

  NOT_INTEGERS = [*NOT_NUMBERS, 1.0, 1.5, Float::NAN, 1r, BigDecimal("1")].freeze
  NOT_TIMES = [*NOT_NUMBERS, BigDecimal("1"), Time.at(1)].freeze
  NOT_NATURAL = [-1, -(2**62), -(2**64), 2**64, 2**200].freeze

  BAD = {
    owner: { TypeError => NOT_INTEGERS, RangeError => NOT_NATURAL },
    shown_token: { TypeError => NOT_INTEGERS, RangeError => NOT_NATURAL },
    issued_token: { TypeError => NOT_INTEGERS, RangeError => [0, *NOT_NATURAL] },
    time: {
      TypeError => NOT_TIMES,
      ArgumentError => [-1, -1.0, -Float::MIN, -1r / 3, -(2**64), -(2**200), Float::INFINITY, -Float::INFINITY, Float::NAN],
      RangeError => [2**64, 2**200, 2.0**64, 1e300, 2r**64, (2r**64) - Rational(1, 10**10), (2r**200) + (1r / 3)]
    },
    cadence: { TypeError => [*NOT_NUMBERS, 1, { ttl: 1, renew_every: 1, warn_before: 1 }, LEASE] },
    lease: { TypeError => [*NOT_NUMBERS.compact, 1, { owner: 1, token: 1, expires_at: 1 }, CADENCE] }
  }.then { |bad| bad.merge(ttl: bad[:time], part: bad[:time]) }.freeze

  CALLS.each do |receiver, name, arguments|
    arguments.each do |argument, kind|
      define_method(:"test_#{receiver}_#{name}_#{argument}") do
        BAD.fetch(kind).each do |error, values|
          values.each { |value| check(receiver, name, arguments, argument, error, value) }
        end
      end
    end

    define_method(:"test_#{receiver}_#{name}_with_good_arguments") do
      send(receiver).public_send(name, **arguments.transform_values { GOOD.fetch(_1) })

      pass
    end
  end

  def test_fences_take_a_token_by_position
    fence = Fence.new(highest: 5)
    { TypeError => NOT_INTEGERS, RangeError => NOT_NATURAL }.each do |error, values|
      values.each do |value|
        assert_match(/\Atoken /, assert_raises(error) { fence.accept(value) }.message)
        assert_match(/\Atoken /, assert_raises(error) { fence.would_accept?(value) }.message)
      end
    end

    assert_equal 5, fence.highest
  end

  def test_restore_takes_a_checkpoint
    [*NOT_NUMBERS, 1, "\0" * 56, Authority.new, LEASE].each do |value|
      assert_match(/\Acheckpoint must be a LeaseMachines::Checkpoint, not /,
                   assert_raises(TypeError) { Authority.restore(value) }.message)
    end
  end

  def test_bytes_are_a_string
    (NOT_NUMBERS.grep_v(String) + [1]).each do |value|
      assert_match(/\Abytes must be a String, not /, assert_raises(TypeError) { Checkpoint.from_bytes(value) }.message)
    end
  end

  def test_the_clock_policy_is_one_of_two_symbols
    [nil, "reject", 1, true].each do |value|
      assert_raises(TypeError) { Authority.new(clock_policy: value) }
      assert_raises(TypeError) { Authority.restore(Authority.new.checkpoint, clock_policy: value) }
    end
    error = assert_raises(ArgumentError) { Authority.new(clock_policy: :ignore) }

    assert_equal "clock_policy must be :reject or :clamp, not :ignore", error.message
  end

  def test_messages_say_what_was_found
    authority = Authority.new
    messages = {
      { owner: 1.5, now: 0, ttl: 1 } => "owner must be an Integer, not Float",
      { owner: nil, now: 0, ttl: 1 } => "owner must be an Integer, not nil",
      { owner: -1, now: 0, ttl: 1 } => "owner must be in 0..2**64-1, not -1",
      { owner: 1, now: "0", ttl: 1 } => "now must be seconds as a Float, an Integer or a Rational, not String",
      { owner: 1, now: -0.5, ttl: 1 } => "now must not be negative, not -0.5",
      { owner: 1, now: 0, ttl: Float::NAN } => "ttl must be finite, not NaN",
      { owner: 1, now: 0, ttl: 2**64 } => "ttl must be less than 2**64 seconds, not 18446744073709551616"
    }
    messages.each do |arguments, message|
      error = assert_raises(TypeError, RangeError, ArgumentError) { authority.acquire(**arguments) }

      assert_equal message, error.message
    end
  end

  def test_a_message_does_not_repeat_a_million_digits
    [{ owner: 10**10_000, now: 0, ttl: 1 }, { owner: 1, now: 10**10_000, ttl: 1 },
     { owner: 1, now: -(10r**10_000) / 3, ttl: 1 }].each do |arguments|
      error = assert_raises(RangeError, ArgumentError) { Authority.new.acquire(**arguments) }

      assert_operator error.message.length, :<, 120
    end
  end

  # An object that raises when it is asked for anything.
  class Hostile < BasicObject
    def method_missing(name, *) = ::Kernel.raise("asked for #{name}")
    def respond_to_missing?(*) = true
  end

  def test_foreign_objects_are_asked_for_nothing
    assert_raises(TypeError) { Authority.new.acquire(owner: Hostile.new, now: 0, ttl: 1) }
    assert_raises(TypeError) { Authority.new.acquire(owner: 1, now: Hostile.new, ttl: 1) }
    assert_raises(TypeError) { Fence.new.accept(Hostile.new) }
    assert_raises(TypeError) { Authority.restore(Hostile.new) }
  end

  private

  def check(receiver, name, arguments, argument, error, value)
    return if nil.equal?(value) && OPTIONAL.fetch(name, []).include?(argument)
    return if nil.equal?(value) && receiver == :fence_class

    object = send(receiver)
    before = object.inspect
    given = arguments.transform_values { GOOD.fetch(_1) }.merge(argument => value)
    kind = Kernel.instance_method(:class).bind_call(value) # a BasicObject cannot say
    raised = assert_raises(TypeError, RangeError, ArgumentError, "#{name}(#{argument}: #{kind})") do
      object.public_send(name, **given)
    end

    assert_instance_of error, raised, "#{name}(#{argument}:) given a #{kind}: #{raised.message}"
    assert_match(/\A#{argument} /, raised.message)
    assert_equal before, object.inspect, "a call that raised changed something"
  end

  def authority = Authority.new.tap { _1.acquire(owner: 1, now: 0, ttl: 9) }

  def holder = Holder.new(token: 1, confirmed_at: 0, cadence: CADENCE)

  def holder_class = Holder
  def cadence_class = LeaseMachines::Cadence
  def lease_class = Lease
  def checkpoint_class = Checkpoint
  def fence_class = Fence
end
