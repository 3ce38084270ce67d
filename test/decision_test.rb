# frozen_string_literal: true

require_relative "test_helper"

class DecisionTest < Minitest::Test
  REASONS = %i[occupied vacant wrong_owner stale_token expired clock_regressed invalid_ttl deadline_overflow
               tokens_exhausted].freeze

  # One of each that the authority can answer: what Data.new makes of the same members, and the answer itself.
  def answers
    fresh = -> { Authority.new }
    held = -> { Authority.new.tap { _1.acquire(owner: 1, now: 1, ttl: 2) } }
    spent = Authority.restore(Checkpoint.from_parts(last_issued: MAX, lease: nil, observed: 0))
    {
      granted(owner: 1, token: 1, expires_at: 2.5) => fresh.().acquire(owner: 1, now: 0.5, ttl: 2),
      renewed(owner: 1, token: 1, expires_at: 4.0) => held.().renew(owner: 1, token: 1, now: 1, ttl: 3),
      released => held.().release(owner: 1, token: 1, now: 1),
      rejected(:occupied) => held.().acquire(owner: 2, now: 1, ttl: 1),
      rejected(:vacant) => fresh.().release(owner: 1, token: 1, now: 1),
      rejected(:wrong_owner) => held.().release(owner: 2, token: 1, now: 1),
      rejected(:stale_token) => held.().release(owner: 1, token: 2, now: 1),
      rejected(:expired) => held.().release(owner: 1, token: 1, now: 3),
      rejected(:clock_regressed) => held.().release(owner: 1, token: 1, now: 0),
      rejected(:invalid_ttl) => fresh.().acquire(owner: 1, now: 0, ttl: 0),
      rejected(:deadline_overflow) => fresh.().acquire(owner: 1, now: MAX, ttl: 1),
      rejected(:tokens_exhausted) => spent.acquire(owner: 1, now: 0, ttl: 1)
    }
  end

  def test_every_answer_is_what_data_makes_of_the_same_members
    assert_equal REASONS, answers.keys.filter_map(&:reason)
    answers.each do |expected, answer|
      assert_equal expected, answer
      assert_operator expected, :eql?, answer
      assert_equal expected.hash, answer.hash
      assert_equal expected.inspect, answer.inspect
      assert_equal expected.to_h, answer.to_h
      assert_instance_of Decision, answer
    end
  end

  def test_a_decision_is_data
    assert_equal Data, Decision.superclass
    assert_equal %i[status lease reason], Decision.members
    assert_equal Decision.new(status: :released, lease: nil, reason: nil), Decision[:released, nil, nil]
  end

  def test_answers_are_frozen_all_the_way_down
    answers.each_value do |answer|
      assert_predicate answer, :frozen?
      assert_predicate answer.lease, :frozen? if answer.lease
      assert Ractor.shareable?(answer)
      assert_raises(FrozenError) { answer.instance_variable_set(:@mine, 1) }
    end
  end

  def test_a_decision_cannot_be_changed_through_a_method_that_was_added
    adding = Module.new { def remember(what) = @remembered = what }
    # Ruby caches at the place of the assignment how it was done for a kind of object, here one that may be changed.
    changeable = Struct.new(:status, :lease, :reason) { include adding }
    10.times { changeable.new.remember(1) }
    Decision.include(adding)
    answers.each_value { |answer| assert_raises(FrozenError) { answer.remember(1) } }
  end

  def test_either_a_lease_or_a_reason_or_neither
    answers.each_value do |answer|
      case answer.status
      when :granted, :renewed then assert answer.lease && !answer.reason
      when :released then assert !answer.lease && !answer.reason
      else assert !answer.lease && answer.reason
      end
    end
  end

  def test_predicates
    answers.each_value do |answer|
      asked = { granted: answer.granted?, renewed: answer.renewed?, released: answer.released?,
                rejected: answer.rejected? }

      assert_equal [answer.status], asked.select { |_, yes| yes }.keys
    end
  end

  def test_pattern_matching
    case Authority.new.acquire(owner: 7, now: 0, ttl: 2)
    in { status: :granted, lease: { owner: 7, token:, expires_at: }, reason: nil }
      assert_equal [1, 2.0], [token, expires_at]
    end
    case Authority.new.release(owner: 1, token: 1, now: 0)
    in { status: :rejected, reason: :vacant, lease: nil }
      pass
    end
  end

  def test_a_rejection_is_made_once
    ask = -> { Authority.new.release(owner: 1, token: 1, now: 0) }

    assert_same ask.(), ask.()
  end

  def test_with_and_marshal
    answer = Authority.new.acquire(owner: 7, now: 0, ttl: 2)

    assert_equal :renewed, answer.with(status: :renewed).status
    assert_equal answer, Marshal.load(Marshal.dump(answer))
  end
end
