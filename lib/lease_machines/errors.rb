# frozen_string_literal: true

module LeaseMachines
  # What every error of this library's own is. Malformed arguments raise Ruby's: +TypeError+, +RangeError+ and
  # +ArgumentError+.
  class Error < StandardError
  end

  # Bytes that are no {Checkpoint}. The message says what was found, and what was expected.
  class InvalidCheckpoint < Error
    # What is wrong: +:length+, +:magic+ (they do not begin as a checkpoint does), +:version+ (of another layout),
    # +:checksum+ (bits were flipped), or +:impossible+ (no authority was ever in this state).
    #
    # @return [Symbol]
    attr_reader :kind

    # @param message [String]
    # @param kind [Symbol]
    def initialize(message, kind:)
      super(message)
      @kind = kind
    end
  end
end
