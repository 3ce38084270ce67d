# frozen_string_literal: true

require_relative "../bench/ruby_model"
require_relative "test_helper"

# Random histories, put to the authority and to the same model in plain Ruby. The seed is that of the run.
class ModelTest < Minitest::Test
  OWNERS = [1, 2, MAX].freeze

  def test_both_answer_alike
    random = Random.new(Minitest.seed)
    seen = Hash.new(0)
    400.times do
      policy = %i[reject clamp].sample(random:)
      start = [nil, MAX - 2].sample(random:)
      plain = PlainAuthority.new(clock_policy: policy, last_issued: start)
      ours = Authority.restore(Checkpoint.from_parts(last_issued: start, lease: nil, observed: 0), clock_policy: policy)
      history = []
      # Written out where it is needed alone: to do so each time takes longer than all the rest.
      told = -> { history.inspect }
      40.times do
        name, arguments = request(random, plain)
        history << [name, arguments]
        expected = plain.public_send(name, **arguments)
        actual = ours.public_send(name, **arguments)

        assert_equal members(expected), members(actual), told
        assert_equal [plain.last_issued, plain.observed, members(plain.lease)],
                     [ours.last_issued, ours.observed, members(ours.lease)], told
        seen[actual.is_a?(Integer) ? :burnt : actual.reason || actual.status] += 1
        # An authority that is carried elsewhere goes on as if it had not been.
        ours = Authority.restore(Marshal.load(Marshal.dump(ours.checkpoint)), clock_policy: policy) if random.rand(8).zero?
      end
    end

    assert_empty %i[granted renewed released burnt occupied vacant wrong_owner stale_token expired clock_regressed
                    invalid_ttl tokens_exhausted] - seen.keys, "the histories must reach every answer"
  end

  private

  # Small numbers, and times in quarters of a second, which Floats add up exactly.
  def request(random, plain)
    owner = OWNERS.sample(random:)
    token = [plain.last_issued, 1, 2, MAX].compact.sample(random:)
    now = plain.observed + ([-1, 0, 0, 1, 2, 4].sample(random:) / 4.0)
    now = 0.0 if now.negative?
    ttl = [0, 1, 2, 4].sample(random:) / 2.0
    case random.rand(10)
    when 0..2 then [:acquire, { owner:, now:, ttl: }]
    when 3 then [:reacquire, { owner:, now:, ttl: }]
    when 4..6 then [:renew, { owner:, token:, now:, ttl: }]
    when 7..8 then [:release, { owner:, token:, now: }]
    else [:revoke, { now:, expect: [nil, token].sample(random:) }]
    end
  end

  def members(answer)
    case answer
    when nil, Integer then answer
    else answer.to_h.transform_values { _1.is_a?(Data) ? _1.to_h : _1 }
    end
  end
end
