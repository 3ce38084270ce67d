# frozen_string_literal: true

module LeaseMachines
  class MachineId
    Parts = Data.define(:time, :machine_id, :counter)

    # What an ID consists of.
    #
    # @!attribute [r] time
    #   @return [Time] the beginning of the tick that it was stamped with
    # @!attribute [r] machine_id
    #   @return [Integer] the machine ID
    # @!attribute [r] counter
    #   @return [Integer] the counter within the tick
    class Parts
    end

    # How the bits of an ID are split into time, machine ID and counter, from the top in this order. Frozen.
    #
    # @!method bits
    #   The width of its IDs.
    #   @return [Integer]
    # @!method max_machine_id
    #   The greatest machine ID that it has room for.
    #   @return [Integer]
    class Layout
      class << self
        # @param time_bits [Integer] 1 to 62; the time has to end before the year 2262
        # @param machine_bits [Integer] 1 to 16
        # @param counter_bits [Integer] 1 to 64
        # @param bits [Integer] 64, 96 or 128
        # @param tick [Numeric] seconds, from a microsecond to a second
        # @param epoch [Time, nil] when time begins; 2025-01-01 in UTC where it is nil
        # @param machine_below [Boolean] whether the machine ID is below the counter
        # @return [Layout]
        # @raise [ArgumentError] with what was found, and what was expected
        def new(time_bits:, machine_bits:, counter_bits:, bits: 64, tick: 0.001, epoch: nil, machine_below: false)
          _new(bits, time_bits, machine_bits, counter_bits, Seconds.of(tick), epoch && Time.at(epoch).to_r,
               machine_below ? true : false)
        end

        # The usual one of a width: 42 bits of milliseconds, 9 of machine ID, and a counter of 13, 45 or 64.
        #
        # @param bits [Integer] 64, 96 or 128
        # @return [Layout]
        def default(bits: 64) = _known(:default, bits)

        # Twitter's Snowflake: 41, 10 and 12 bits of 64.
        # @return [Layout]
        def twitter = _known(:twitter, 64)

        # Sony's Sonyflake: 39 bits of 10 ms, 8 of counter, 16 of machine ID.
        # @return [Layout]
        def sonyflake = _known(:sonyflake, 64)
      end

      # Takes an ID apart.
      #
      # @param id [Integer] one of this layout, plain or decrypted
      # @return [Parts]
      def decode(id)
        seconds, nanos, machine_id, counter = _decode(id)
        Parts.new(Time.at(seconds, nanos, :nanosecond, in: "UTC"), machine_id, counter)
      end

      # The instant from which on the time bits are used up.
      # @return [Time]
      def end = Time.at(_end, in: "UTC")

      # Whether both lay IDs out in the same way.
      # @return [Boolean]
      def ==(other) = other.is_a?(Layout) && bits == other.bits && _key == other.__send__(:_key)
      alias eql? ==

      # Equal for equal layouts.
      # @return [Integer]
      def hash = [bits, _key].hash
    end
  end
end
