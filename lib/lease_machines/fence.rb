# frozen_string_literal: true

module LeaseMachines
  # Refuses any token smaller than the greatest it has seen.
  #
  # It stands where the write is: beside the file, in the row, in the same transaction. It says nothing of expiry or
  # ownership, and it believes the token that it is shown: it orders honest writers, it does not authenticate them.
  #
  #   fence = LeaseMachines::Fence.new
  #   fence.accept(1)  # => true
  #   fence.accept(2)  # => true
  #   fence.accept(1)  # => false
  #
  # A frozen fence raises +FrozenError+ when it is to accept; a fence cannot be copied.
  #
  # @!method accept(token)
  #   Whether +token+ may write; if so, every smaller one is refused from now on. Keep the raised mark together with the
  #   write that it lets through: a mark that is lost on restart lets the old holder in again.
  #   @param token [Integer]
  #   @return [Boolean]
  # @!method would_accept?(token)
  #   What {#accept} would say, without raising the mark. A hint: it can be out of date before it is used.
  #   @param token [Integer]
  #   @return [Boolean]
  # @!method highest
  #   The greatest token accepted so far.
  #   @return [Integer, nil]
  class Fence
    include Uncopyable

    class << self
      # Starts at a mark that was kept, or with none at a resource that no fenced write has reached yet.
      #
      # @param highest [Integer, nil] 1 or more
      # @return [Fence]
      # @raise [RangeError] for 0, which is no token
      def new(highest: nil) = _new(highest)
    end

    # @return [String]
    def inspect = "#<#{self.class} highest=#{highest.inspect}>"
    alias to_s inspect
  end
end
