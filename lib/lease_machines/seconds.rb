# frozen_string_literal: true

module LeaseMachines
  # Lengths of time, as callers have them.
  #
  # @api private
  module Seconds
    # What the native half takes: a Float, an Integer or a Rational. Anything else that says that it is a real number is
    # taken exactly: a BigDecimal, and an +ActiveSupport::Duration+, which passes for the number of its seconds.
    def self.of(value)
      case value
      when Float, Integer, Rational then value
      # Not every object can be asked.
      when Object then value.is_a?(Numeric) && value.real? ? value.to_r : value
      else value # rubocop:disable Lint/DuplicateBranch
      end
    end
  end
  private_constant :Seconds
end
