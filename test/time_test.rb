# frozen_string_literal: true

require_relative "test_helper"

# Seconds become nanoseconds and come back. The rule is checked against Rational arithmetic, which is exact.
class TimeTest < Minitest::Test
  NANO = 10**9
  # Up to here neighbouring Floats are less than a nanosecond apart.
  FINE = 2.0**23

  def test_a_float_is_taken_to_the_nearest_nanosecond
    floats.each { |float| assert_equal (float.to_r * NANO).round(half: :even), nanoseconds(float), float.to_s }
  end

  def test_a_rational_is_taken_to_the_nearest_nanosecond
    random = Random.new(Minitest.seed)
    rationals = Array.new(500) { Rational(random.rand(10**15), random.rand(1..(10**6))) }
    rationals += [1r / 3, 2r / 3, 5r / (2 * NANO), 7r / (2 * NANO), 1 - (1r / (2 * NANO)), 1 - (1r / (3 * NANO))]
    rationals += [(2r**64) - (3r / NANO), (2**53) + (1r / 7)]
    rationals.each { |it| assert_equal (it * NANO).round(half: :even), nanoseconds(it), it.to_s }
  end

  def test_an_integer_is_exact
    [0, 1, 2**53, (2**53) + 1, 2**62, 2**63, (2**64) - 1].each { |it| assert_equal it * NANO, nanoseconds(it) }
  end

  def test_what_comes_out_is_the_nearest_float
    random = Random.new(Minitest.seed)
    instants = Array.new(2000) { random.rand(2**random.rand(1..93)) } + [0, 1, NANO, (2**53) - 1, 2**53, (2**53) + 1]
    # Just on, before and after the middle of two Floats, where rounding twice goes wrong.
    middles = Array.new(500) do
      float = random.rand * (2.0**random.rand(24..63))
      ((float.to_r + float.next_float.to_r) / 2 * NANO).floor
    end
    (instants + middles.flat_map { [_1 - 1, _1, _1 + 1] }).each do |instant|
      exact = Rational(instant, NANO)
      float = observed(exact)

      assert [float.prev_float, float.next_float].all? { |it| (it.to_r - exact).abs >= (float.to_r - exact).abs },
             "#{exact} came out as #{float}"
    end
  end

  def test_a_time_comes_back_as_it_was
    random = Random.new(Minitest.seed)
    5000.times do
      nanos = random.rand((FINE * NANO).to_i)
      float = observed(Rational(nanos, NANO))

      assert_equal nanos, nanoseconds(float), "the Float shown for #{nanos} ns"
      assert_equal float, observed(float)
    end
  end

  def test_what_a_person_writes_comes_back_as_written
    1.upto(2000) do |n|
      [n / 10.0, n / 100.0, n / 1000.0, 86_400 + (n / 1000.0)].each { |float| assert_equal float, observed(float) }
    end
  end

  def test_a_deadline_that_is_shown_is_the_deadline
    random = Random.new(Minitest.seed)
    200.times do
      authority = Authority.new
      lease = authority.acquire(owner: 1, now: random.rand * 1e6, ttl: random.rand * 1e3).lease

      assert_equal :granted, authority.acquire(owner: 2, now: lease.expires_at, ttl: 1).status
    end
  end

  def test_minus_zero_is_zero
    assert_equal 0, nanoseconds(-0.0)
  end

  private

  def floats
    random = Random.new(Minitest.seed)
    edges = [0.0, Float::MIN, Float::MIN.prev_float, 4.9e-10, 5.0e-10, 5.1e-10, 1.5e-9, 2.5e-9, 0.1, 0.3, 1.0.prev_float,
             1.0, 2.0**-11, (2.0**-11).prev_float, (2.0**-12), FINE, 2.0**52, (2.0**52).prev_float, 2.0**53, 2.0**63,
             (2.0**64).prev_float]
    # Exactly between two nanoseconds, which only multiples of 2**-10 can be, and one Float to each side of it.
    ties = Array.new(500) { (random.rand(2**32) * 2) + 1 }.map { |odd| odd / 1024.0 }
    edges + ties.flat_map { [_1, _1.prev_float, _1.next_float] } +
      Array.new(2000) { random.rand * (2.0**random.rand(-40..63)) }
  end

  # How the core has it: read from the wire form, which has seconds and nanoseconds apart.
  def nanoseconds(time)
    seconds, nanos = Checkpoint.from_parts(last_issued: nil, lease: nil, observed: time).to_bytes[40, 12].unpack("Q<L<")
    (seconds * NANO) + nanos
  end

  def observed(time) = Checkpoint.from_parts(last_issued: nil, lease: nil, observed: time).observed
end
