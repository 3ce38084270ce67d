# frozen_string_literal: true

require_relative "test_helper"

class CadenceTest < Minitest::Test
  def test_its_parts_are_floats
    cadence = Cadence.new(ttl: 30, renew_every: 10r, warn_before: 0.5)

    assert_equal [30.0, 10.0, 0.5], [cadence.ttl, cadence.renew_every, cadence.warn_before]
    assert_instance_of Float, cadence.ttl
    assert_instance_of Float, cadence.renew_every
  end

  def test_a_cadence_is_data
    assert_equal Data, Cadence.superclass
    assert_equal %i[ttl renew_every warn_before], Cadence.members
    assert_equal Cadence.new(ttl: 3, renew_every: 2, warn_before: 1), Cadence[3, 2, 1]
  end

  def test_its_rules
    {
      { ttl: 0, renew_every: 1, warn_before: 1 } => "ttl must be more than 0",
      { ttl: 9, renew_every: 0, warn_before: 1 } => "renew_every must be more than 0",
      { ttl: 9, renew_every: 1, warn_before: 0 } => "warn_before must be more than 0",
      { ttl: 9, renew_every: 9, warn_before: 1 } => "renew_every must be less than the ttl of 9.0, not 9.0",
      { ttl: 9, renew_every: 1, warn_before: 10 } => "warn_before must be less than the ttl of 9.0, not 10.0"
    }.each do |parts, message|
      assert_equal message, assert_raises(ArgumentError) { Cadence.new(**parts) }.message
    end
    Cadence.new(ttl: 2e-9, renew_every: 1e-9, warn_before: 1e-9)
  end

  def test_with_checks_as_new_does
    cadence = Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)

    assert_equal Cadence.new(30, 20, 5), cadence.with(renew_every: 20)
    assert_raises(ArgumentError) { cadence.with(renew_every: 30) }
  end

  def test_a_frozen_shareable_value
    cadence = Cadence.new(ttl: 30, renew_every: 10, warn_before: 5)

    assert Ractor.shareable?(cadence)
    assert_equal cadence, Marshal.load(Marshal.dump(cadence))
    case cadence
    in { ttl: 30.0, warn_before: }
      assert_in_delta 5.0, warn_before, 0
    end
  end

  def test_one_that_was_made_in_an_odd_way_is_looked_at_again
    assert_raises(TypeError) { Holder.new(token: 1, confirmed_at: 0, cadence: Cadence.allocate) }
  end
end
