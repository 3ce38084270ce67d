# frozen_string_literal: true

module LeaseMachines
  # The whole state of an {Authority}, frozen. Its times are kept to the nanosecond, which the Floats that it shows may
  # not be.
  #
  # It can be carried as bytes, 56 of them with a version and a checksum, or by +Marshal+, which carries the same bytes.
  #
  # @!method last_issued
  #   The greatest token issued or burnt so far.
  #   @return [Integer, nil]
  # @!method lease
  #   The current lease, which may be over.
  #   @return [Lease, nil]
  # @!method observed
  #   The latest time that was observed, in seconds.
  #   @return [Float]
  # @!method to_bytes
  #   The wire form, whose layout the core's documentation has as a table. One state has exactly one.
  #   @return [String] 56 bytes, ASCII-8BIT
  class Checkpoint
    class << self
      private :new

      # Puts the parts together. Leaving a part out would silently start again at token 1 or at time 0, so none can be.
      #
      # A lease under a token *below* the last issued one is accepted, though an authority never makes it.
      #
      # @param last_issued [Integer, nil] 1 or more
      # @param lease [Lease, nil]
      # @param observed [Float, Integer, Rational] seconds
      # @return [Checkpoint]
      # @raise [ArgumentError] where the lease is under a token that was never issued
      # @raise [TypeError, RangeError] for what cannot be a part of a checkpoint
      def from_parts(last_issued:, lease:, observed:) = _from_parts(last_issued, lease, observed)

      # @!method from_bytes(bytes)
      #   Reads the wire form back.
      #   @param bytes [String] as {Checkpoint#to_bytes} made them; the encoding does not matter
      #   @return [Checkpoint]
      #   @raise [InvalidCheckpoint] for any other bytes
      #   @raise [TypeError] for anything but a String

      # For Marshal.
      # @api private
      def _load(bytes) = from_bytes(bytes)
    end

    # For Marshal.
    # @api private
    def _dump(_level) = to_bytes

    # Whether both are the same state.
    # @return [Boolean]
    def ==(other) = other.is_a?(Checkpoint) && to_bytes == other.to_bytes
    alias eql? ==

    # Equal for equal states.
    # @return [Integer]
    def hash = to_bytes.hash

    # @return [Hash{Symbol => Object}] the three parts
    def to_h = { last_issued: last_issued, lease: lease, observed: observed }

    # For pattern matching: the parts that are asked for, or all of them.
    # @param keys [Array<Symbol>, nil]
    # @return [Hash{Symbol => Object}]
    def deconstruct_keys(keys) = keys ? to_h.slice(*keys) : to_h

    # @return [self] a value needs no copies
    def dup = self

    # @return [self] a value needs no copies
    def clone(freeze: true)
      return self if freeze || freeze.nil?

      raise ArgumentError, "can't unfreeze #{self.class}"
    end

    # @return [String]
    def inspect = "#<#{self.class} last_issued=#{last_issued.inspect} lease=#{lease.inspect} observed=#{observed}>"
    alias to_s inspect
  end
end
