# frozen_string_literal: true

module LeaseMachines
  # Refuses copies of what must be one: two would both be right, and disagree.
  #
  # @api private
  module Uncopyable
    # @raise [TypeError] always
    def dup = raise(TypeError, "#{self.class} cannot be copied: two of them would disagree")

    # @raise [TypeError] always
    def clone(freeze: nil) = dup # rubocop:disable Lint/UnusedMethodArgument
  end
  private_constant :Uncopyable
end
