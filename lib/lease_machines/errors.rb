# frozen_string_literal: true

module LeaseMachines
  # What every error of this library's own is. Malformed arguments raise Ruby's: +TypeError+, +RangeError+ and
  # +ArgumentError+.
  #
  # - {InvalidCheckpoint}
  # - {StoreError}: a store gave no decision. By what is known instead, it is one of
  #   - {NotDone}: nothing was changed; ask again.
  #   - {Unknown}: nobody knows whether something was changed; ask again with care.
  #   - {Refused}: the store will not do it, however often it is asked.
  #     - {ConfigurationError}: the URL, or a setting, is wrong.
  #     - {NewEpoch}: the store's history is another one than the caller believes in; its lease is lost.
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

  # A call to a {Store} that brought no decision. The message says what was found, where, and what was expected, and never
  # has a password in it. It is always one of its subclasses.
  class StoreError < Error
    # What went wrong: +:busy+, +:superseded+, +:unreachable+, +:storage+, +:new_epoch+, +:not_set_up+, +:schema+,
    # +:damaged+, +:permission+, +:configuration+, +:request+, +:pool_size+, +:unsupported+; +:resources+ where the system
    # gives no thread or socket more, +:forked+ in a child that was forked while its parent waited for the answer, +:fault+
    # for a fault of this library's own, +:other+ for what is not known here.
    #
    # @return [Symbol]
    attr_reader :kind

    # @param message [String]
    # @param kind [Symbol]
    def initialize(message, kind:)
      super(message)
      @kind = kind
    end

    # What the native half raises.
    # @api private
    def self._of(undecided, kind, message, current)
      return NewEpoch.new(message, current: current) if kind == :new_epoch

      refused = kind == :configuration ? ConfigurationError : Refused
      known = { not_done: NotDone, unknown: Unknown }.fetch(undecided, refused)
      known.new(message, kind: kind)
    end
    private_class_method :_of
  end

  # Nothing was changed: others were in the way, or it was not sent. To ask again is right.
  class NotDone < StoreError
  end

  # Nobody knows: there was no answer, or one whose commit was not seen. What was asked for may have been done.
  #
  # A {Store#renew} or {Store#release} can be repeated as it was. A {Store#acquire} whose owner was named can be repeated by
  # {Store#reacquire} with the next attempt; one that drew its owner is taken back by itself.
  class Unknown < StoreError
  end

  # The store will not do it, however often it is asked: rights, schema, a wrong request.
  class Refused < StoreError
  end

  # The URL of the store, or a setting, is wrong.
  class ConfigurationError < Refused
    # @param message [String]
    # @param kind [Symbol]
    def initialize(message, kind: :configuration) = super
  end

  # The store is in another epoch than the one that the request was made for: every lease of that one is lost.
  class NewEpoch < Refused
    # The epoch that the store is in now.
    #
    # @return [String] 16 hexadecimal digits
    attr_reader :current

    # @param message [String]
    # @param current [String]
    def initialize(message, current:)
      super(message, kind: :new_epoch)
      @current = current
    end
  end
end
